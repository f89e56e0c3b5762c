//! The message compiler: checks of instrumentation manifests, code in C and Rust for their events, and manifests of providers.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! Windows' message compiler (`mc.exe`) makes of a manifest the C header with which a program writes its events. [`c_header`]
//! writes such a header, with the same names, and [`rust_code`] the code for Rust. [`check()`] finds what Windows' would
//! refuse. [`write()`] makes a manifest of a provider whose schemas come from elsewhere.
//!
//! ```
//! let text = r#"<provider name="MyCompany-MyApp" symbol="MY_APP" guid="{11223344-5566-7788-99aa-bbccddeeff00}">
//!   <events><event value="7" symbol="Started"/></events></provider>"#;
//! let checked = etw_mc::check(text.as_bytes(), "myapp.man");
//! let code = etw_mc::rust_code(&checked.providers);
//! assert!(code.text.contains("pub fn started() -> etw::Outcome {"));
//! ```

#![forbid(unsafe_code)]
// The bytes that are read here are untrusted: no cast and no index may depend on them unchecked.
#![warn(clippy::cast_possible_truncation, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::cast_possible_truncation, clippy::indexing_slicing))]

mod c_header;
mod check;
mod export;
mod rust_code;

use etw_schema::Decoding;
use etw_schema::manifest::{self, Manifest};

pub use c_header::{CHeader, CNames, c_header};
pub use export::{write, write_all};
pub use rust_code::{LeftOut, RustCode, rust_code};

/// Reads a manifest, and reports what Windows' message compiler would refuse too: values that are reserved or defined
/// twice, missing symbols and messages, and types, lengths and maps that do not go together.
///
/// ```
/// use etw_schema::manifest;
///
/// let text = r#"<provider name="P" symbol="P" guid="{11223344-5566-7788-99aa-bbccddeeff00}">
///   <tasks><task name="A" value="1"/><task name="B" value="1"/></tasks></provider>"#;
/// assert!(manifest::read(text.as_bytes(), "p.man").problems.is_empty());
/// let problems = etw_mc::check(text.as_bytes(), "p.man").problems;
/// assert_eq!(problems[0].to_string(), "line 2, column 36: task value 1 is defined twice");
/// ```
pub fn check(bytes: &[u8], origin: &str) -> Manifest {
    manifest::read_with(bytes, origin, Decoding::Manifest, check::check)
}
