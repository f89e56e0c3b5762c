//! Source lines of a function in a jitdump file.

use etw_event::Fields;

/// Bytes of an entry before its file's name: address, line, discriminator.
const ENTRY_BYTES: usize = 16;
/// The name of an entry whose file is that of the entry before it.
const SAME_FILE: &[u8] = b"\xff";
/// Bytes of the header of 64-bit ELF files, which V8 adds to the addresses of lines, because `perf inject` puts the code
/// after one.
const ELF_HEADER_BYTES: u64 = 0x40;
/// Maximum length in bytes of the name of a file that is damaged.
const MAX_DAMAGED_BYTES: usize = 4096;
/// Number of bytes at the start of a name that V8 damages, because it frees the name before it writes it (version 11).
const DAMAGED_BYTES: usize = 16;

/// The source lines of a function (`JIT_CODE_DEBUG_INFO`).
#[derive(Debug, Clone, Copy, Default)]
pub struct JitLines<'a> {
    /// The address that the function had when the lines were written.
    base: u64,
    entries: &'a [u8],
    count: u64,
    /// Length of the function's code in bytes.
    len_bytes: u64,
    /// The script that the function's name names, if it is one of V8.
    script: &'a [u8],
}

/// A line of a function, which extends to the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JitLine<'a> {
    /// Offset in bytes of its code in the function.
    pub offset: u64,
    /// Number of the line, from 1.
    pub line: u32,
    /// Path or URL of the source file.
    pub file: &'a [u8],
}

impl<'a> JitLines<'a> {
    /// Returns the lines in the body of a record, or `None` if it is too short.
    pub(super) fn parse(body: &'a [u8]) -> Option<JitLines<'a>> {
        let (base, count) = (body.u64_at(0)?, body.u64_at(8)?);
        Some(JitLines { base, entries: body.get(16..)?, count, ..JitLines::default() })
    }

    /// Returns the lines as those of a function with this name and length.
    pub(super) fn of(self, name: &'a [u8], len_bytes: u64) -> JitLines<'a> {
        JitLines { len_bytes, script: script(name), ..self }
    }

    /// Returns the address that the lines are about.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Returns the lines in the order of the file, usually that of offsets. Lines outside of the function are left out, and
    /// those whose file is not known.
    ///
    /// Names that V8 has damaged may contain zero bytes, so a name ends where an address in the function follows. The file
    /// is then the script of the function, if the rest of the name is that of the script.
    pub fn iter(&self) -> impl Iterator<Item = JitLine<'a>> + use<'a> {
        let first = self.entries.u64_at(0).unwrap_or(0).wrapping_sub(self.base);
        // Elsewhere a function's first line starts with its code.
        let ahead = if first >= ELF_HEADER_BYTES { ELF_HEADER_BYTES } else { 0 };
        let base = self.base.wrapping_add(ahead);
        let script = self.script;
        let code = self.base..self.base.saturating_add(self.len_bytes).saturating_add(ahead);
        let (mut rest, mut left, mut file) = (self.entries, self.count, &b""[..]);
        let mut is_searched = true;
        std::iter::from_fn(move || {
            while left > 0 {
                left -= 1;
                let (address, line) = (rest.u64_at(0)?, rest.u32_at(8)?);
                let named = rest.get(ENTRY_BYTES..)?;
                let is_end = |end: usize| match (left, named.get(end + 1..)) {
                    (0, Some(after)) => after.is_empty(),
                    (_, after) => {
                        after.and_then(|after| after.u64_at(0)).is_some_and(|next| code.contains(&next))
                    }
                };
                let mut ends =
                    (0..named.len().min(MAX_DAMAGED_BYTES)).filter(|at| named.get(*at) == Some(&0));
                let found = if is_searched { ends.clone().find(|end| is_end(*end)) } else { None };
                // Where nothing fits once, nothing is searched for again, which would take long.
                is_searched &= found.is_some();
                let end =
                    found.or_else(|| ends.next()).or_else(|| named.iter().position(|byte| *byte == 0))?;
                let name = named.get(..end)?;
                rest = named.get(end + 1..)?;
                if name != SAME_FILE {
                    file = if is_damaged(name, script) { script } else { name };
                }
                let is_known = !file.iter().any(|byte| byte.is_ascii_control());
                if let Some(offset) = address.checked_sub(base).filter(|_| is_known) {
                    return Some(JitLine { offset, line, file });
                }
            }
            None
        })
    }
}

/// Returns whether a name is that of a script with other bytes at its start.
fn is_damaged(name: &[u8], script: &[u8]) -> bool {
    name.len() == script.len() && name.get(DAMAGED_BYTES..) == script.get(DAMAGED_BYTES..)
}

/// Returns the script that a function's name of V8 names: `JS:*add /srv/app.js:3:13`.
fn script(name: &[u8]) -> &[u8] {
    let place = name.starts_with(b"JS:").then(|| name.iter().position(|byte| *byte == b' ')).flatten();
    let mut script = place.and_then(|space| name.get(space + 1..)).unwrap_or_default();
    for _ in ["column", "line"] {
        let digits = script.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        match script.get(..script.len() - digits).and_then(|rest| rest.strip_suffix(b":")) {
            Some(rest) if digits > 0 => script = rest,
            _ => return b"",
        }
    }
    script
}
