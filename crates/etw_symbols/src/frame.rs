//! What is known of an address.

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
}

/// A function and a position in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Name.
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
