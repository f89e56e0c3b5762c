//! Readable names of functions.

use std::borrow::Cow;

use cpp_demangle::{DemangleOptions, ParseOptions};

/// Maximum nesting of C++ names. Names with deeper nesting are not demangled.
const MAX_DEPTH: u32 = 96;

/// Demangles a linker's name: Rust names without their hash, C++ names without parameters. Returns names of other
/// languages unchanged.
///
/// ```
/// assert_eq!(etw_symbols::demangle("_Z3addii"), "add");
/// ```
pub fn demangle(name: &str) -> Cow<'_, str> {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return Cow::Owned(format!("{rust:#}"));
    }
    // Other names would be demangled as types: `f` as `float`.
    if !name.starts_with("_Z") {
        return Cow::Borrowed(name);
    }
    let options = ParseOptions::default().recursion_limit(MAX_DEPTH);
    let Ok(symbol) = cpp_demangle::Symbol::new_with_options(name, &options) else {
        return Cow::Borrowed(name);
    };
    let options = DemangleOptions::default().no_params().no_return_type().recursion_limit(MAX_DEPTH);
    symbol.demangle_with_options(&options).map_or(Cow::Borrowed(name), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_each_language() {
        let check = |name: &str, expected: &str| assert_eq!(demangle(name), expected);
        check("main", "main");
        check("f", "f");
        check("_ZN4core3ptr13drop_in_place17h0123456789abcdefE", "core::ptr::drop_in_place");
        check("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar");
        check("_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back");
        check("_Z3addii", "add");
        check("_Zgarbage", "_Zgarbage");
        let deep = format!("_Z{}i", "P".repeat(100_000));
        assert_eq!(demangle(&deep), deep);
    }
}
