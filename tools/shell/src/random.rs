//! Repeatable pseudo-random numbers.

/// Pseudo-random numbers (xorshift); the seed must not be 0.
pub struct Random(pub u64);

impl Random {
    /// Returns the next number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }
}
