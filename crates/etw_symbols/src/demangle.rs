//! Readable names of functions.

use std::borrow::Cow;

use cpp_demangle::{DemangleOptions, ParseOptions};
use msvc_demangler::DemangleFlags;

use crate::guard::guarded;

/// Maximum nesting of C++ names. Names with deeper nesting are not demangled.
const MAX_DEPTH: u32 = 96;
/// Maximum length in bytes of decorated names. Visual C++ replaces longer ones by a hash.
const MAX_DECORATED_LEN_BYTES: usize = 4096;
/// Length in bytes up to which the nesting of a decorated name fits any stack: a level takes two bytes of the name, and
/// less than 4 KiB of the stack.
const MAX_SHALLOW_LEN_BYTES: usize = 256;
/// Length in bytes of a stack for the nesting of longer names.
const STACK_LEN_BYTES: usize = 32 << 20;
/// Maximum estimated length in bytes of an undecorated name.
const MAX_PLAIN_LEN_BYTES: u64 = 1 << 22;

/// Demangles a linker's name: Rust names without their hash, C++ names of both conventions without parameters. Returns
/// names of other languages unchanged.
///
/// ```
/// assert_eq!(etw_symbols::demangle("_Z3addii"), "add");
/// assert_eq!(etw_symbols::demangle("?add@Numbers@@QEAAHHH@Z"), "Numbers::add");
/// ```
pub fn demangle(name: &str) -> Cow<'_, str> {
    if name.starts_with('?') {
        return undecorate(name).map_or(Cow::Borrowed(name), Cow::Owned);
    }
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

/// Undecorates a name of Visual C++.
fn undecorate(name: &str) -> Option<String> {
    if name.len() > MAX_DECORATED_LEN_BYTES || expanded_len(name) > MAX_PLAIN_LEN_BYTES {
        return None;
    }
    let flags = DemangleFlags::NAME_ONLY | DemangleFlags::NO_CLASS_TYPE | DemangleFlags::HUG_TYPE;
    let undecorated =
        || guarded(|| msvc_demangler::demangle(name, flags)).ok().filter(|plain| !plain.is_empty());
    if name.len() <= MAX_SHALLOW_LEN_BYTES {
        return undecorated();
    }
    // The library recurses by the nesting of types and has no limit.
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_LEN_BYTES);
        thread.spawn_scoped(scope, undecorated).ok()?.join().ok()?
    })
}

/// Returns an upper bound of a name's length after its references to earlier types are replaced.
///
/// A digit may refer to an earlier parameter. Only a function type is a parameter that consists of others, so each of
/// them may multiply the length by its number of digits.
fn expanded_len(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count() as u64;
    let is_function = |pair: &&[u8]| matches!(pair, [b'P'..=b'S' | b'A', b'6' | b'8']);
    let levels = bytes.windows(2).filter(is_function).count() as u64 + 1;
    let exponent = u32::try_from(levels.min(32)).unwrap_or(32);
    (bytes.len() as u64).saturating_mul((digits / levels + 1).saturating_pow(exponent))
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

    #[test]
    fn names_of_visual_cpp() {
        let check = |name: &str, expected: &str| assert_eq!(demangle(name), expected);
        check("?run@@YAXXZ", "run");
        check("?add@Numbers@@QEAAHHH@Z", "Numbers::add");
        check("??0Thing@a@b@@QEAA@XZ", "b::a::Thing::Thing");
        check("??1Thing@@UEAA@XZ", "Thing::~Thing");
        check("??HThing@@QEAA?AV0@AEBV0@@Z", "Thing::operator+");
        check("?f@?A0x1234abcd@@YAHXZ", "`anonymous namespace'::f");
        check("??$max@H@std@@YAAEBHAEBH0@Z", "std::max<int>");
        check(
            "?size@?$vector@HV?$allocator@H@std@@@std@@QEBA_KXZ",
            "std::vector<int,std::allocator<int> >::size",
        );
        check("?garbage", "?garbage");
        check("?", "?");
    }

    #[test]
    fn hostile_names_of_visual_cpp() {
        // Types in types, up to the length limit.
        for (open, close) in [
            ("PA", "H"),
            ("PEA", "H"),
            ("V?$A@", "@"),
            ("P6AX", "@Z"),
            ("?$A@", "@"),
            ("Y0A@", "H"),
            ("??", ""),
        ] {
            let name = format!("?f@@YAX{}", open.repeat(4000 / open.len()));
            drop(demangle(&name));
            drop(demangle(&format!("?{}H{}@", open.repeat(1000), close.repeat(1000))));
        }
        // Each parameter is a function of many of the last one.
        let mut name = "?f@@YAXPEAUsome_structure@@".to_owned();
        (0..9).for_each(|last| name.push_str(&format!("P6AX{}@Z", last.to_string().repeat(200))));
        name.push_str("@Z");
        assert_eq!(demangle(&name), name);
    }
}
