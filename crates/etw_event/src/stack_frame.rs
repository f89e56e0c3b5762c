//! Frames of stacks with names.

use std::fmt;

/// A frame of a stack, with the names that are known of its code.
///
/// Displayed as `module!function+0x12 (file:line)`, as far as the parts are known; the module as [`StackFrame::stem`]
/// shortens it.
///
/// ```
/// use etw_event::StackFrame;
///
/// let frame = StackFrame { address: 0x7FFE_0000_1234, module: Some("ntdll.dll"), ..StackFrame::default() };
/// assert_eq!(StackFrame { offset: Some(0x1234), ..frame }.to_string(), "ntdll.dll+0x1234");
/// let frame = StackFrame { function: Some("NtClose"), offset: Some(0x14), ..frame };
/// assert_eq!(frame.to_string(), "ntdll!NtClose+0x14");
/// assert_eq!(StackFrame { address: 0x1234, ..StackFrame::default() }.to_string(), "0x1234");
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StackFrame<'a> {
    /// The address as in the stack: of the event for the first frame, and otherwise the return address.
    pub address: u64,
    /// File name of the image, or of the assembly that has the method.
    pub module: Option<&'a str>,
    /// Name of the function.
    pub function: Option<&'a str>,
    /// Offset of the address from the start of the function, or without a function from the base of the image.
    pub offset: Option<u64>,
    /// Source file of the code.
    pub file: Option<&'a str>,
    /// Line in the source file, from 1.
    pub line: Option<u32>,
    /// Whether the function is inlined into that of the next frame, which has the same address.
    pub is_inlined: bool,
}

impl StackFrame<'_> {
    /// Returns the name of a module without the extensions that images have: `ntdll.dll` is `ntdll`.
    pub fn stem(module: &str) -> &str {
        let extension = module.rsplit_once('.').filter(|(_, extension)| {
            ["dll", "exe", "sys", "so", "dylib"].iter().any(|known| extension.eq_ignore_ascii_case(known))
        });
        extension.map_or(module, |(stem, _)| stem)
    }
}

impl fmt::Display for StackFrame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.module, self.function) {
            (Some(module), Some(function)) => write!(f, "{}!{function}", StackFrame::stem(module))?,
            (Some(name), None) | (None, Some(name)) => f.write_str(name)?,
            (None, None) => return write!(f, "{:#x}", self.address),
        }
        if let Some(offset) = self.offset {
            write!(f, "+{offset:#x}")?;
        }
        match (self.file, self.line) {
            (Some(file), Some(line)) => write!(f, " ({file}:{line})"),
            (Some(file), None) => write!(f, " ({file})"),
            (None, _) => Ok(()),
        }
    }
}
