//! Traces merged in time order, four levels of reading, predicates and the testing kit.

mod schema_files;

pub use schema_files::{SchemaFile, SchemaFileKind, SchemaFiles};
