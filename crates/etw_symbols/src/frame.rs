//! What is known of an address.

/// The code at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Inlined functions first, each followed by the function that it is inlined into. Never empty.
    pub frames: Vec<Frame>,
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
