//! Maps with a fast hash. It is seeded, so that a trace cannot choose keys that collide.

use foldhash::fast::RandomState;

/// A map by hashes.
pub type HashMap<K, V> = std::collections::HashMap<K, V, RandomState>;
/// A set by hashes.
pub type HashSet<T> = std::collections::HashSet<T, RandomState>;
