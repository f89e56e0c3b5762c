//! What is known of an address.

/// Start of what stands for the names of functions without one.
const UNNAMED: &str = "0x";

/// Returns whether a function is called by its name, and not only by its place ([`Frame::function`]).
pub fn is_function_name(function: &str) -> bool {
    !function.starts_with(UNNAMED)
}

/// The code at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Inlined functions first, each followed by the function that it is inlined into. Never empty.
    pub frames: Vec<Frame>,
    /// Offset of the address from the start of the outermost function, if that is known.
    pub offset: Option<u64>,
}

impl Symbol {
    /// Returns the name of the outermost function, which others may be inlined into.
    pub fn function(&self) -> &str {
        self.frames.last().map_or("", |frame| &frame.function)
    }

    /// Returns the function of a file without symbols, of which only the place is known.
    pub(crate) fn from_place(start: u64, offset: u64) -> Symbol {
        let frame = Frame { function: format!("{UNNAMED}{start:x}"), file: None, line: None };
        Symbol { frames: vec![frame], offset: Some(offset) }
    }

    /// Returns whether the outermost function has a name, and not only a place ([`Frame::function`]).
    pub fn is_named(&self) -> bool {
        is_function_name(self.function())
    }
}

/// A function and a position in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Name; or `0x` and the offset of the function in its image, if the file has no symbol for it, but tells where it is.
    pub function: String,
    /// Source file, if debug information has it.
    pub file: Option<String>,
    /// Line in the source file, counted from 1.
    pub line: Option<u32>,
}

/// A place in IL code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IlPlace {
    /// Metadata token of the method.
    pub token: u32,
    /// Offset in the method's IL code, in bytes.
    pub offset: u32,
}

/// A line of a source file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SourceLine {
    /// Path of the source file, as the compiler wrote it.
    pub file: String,
    /// Line, counted from 1.
    pub line: u32,
}
