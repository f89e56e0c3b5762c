//! Perf maps (`/tmp/perf-PID.map`): lines of start, size and name.

use super::JitCode;

/// The functions of a perf map, in the order of the file.
///
/// A line has the address and the size in hexadecimal digits, and the name, which may contain spaces; source:
/// `tools/perf/Documentation/jit-interface.txt` of Linux. Other lines are skipped. Where functions overlap, the later
/// one has taken the place of the earlier one.
#[derive(Debug, Clone)]
pub struct PerfMap<'a> {
    rest: &'a [u8],
}

impl<'a> PerfMap<'a> {
    /// Returns the functions in the text of a perf map.
    pub fn new(text: &'a [u8]) -> PerfMap<'a> {
        PerfMap { rest: text }
    }
}

impl<'a> Iterator for PerfMap<'a> {
    type Item = JitCode<'a>;

    fn next(&mut self) -> Option<JitCode<'a>> {
        while !self.rest.is_empty() {
            let end = self.rest.iter().position(|byte| *byte == b'\n').unwrap_or(self.rest.len());
            let (line, rest) = self.rest.split_at(end);
            self.rest = rest.get(1..).unwrap_or_default();
            if let Some(code) = code(line) {
                return Some(code);
            }
        }
        None
    }
}

/// Returns the function of a line.
fn code(line: &[u8]) -> Option<JitCode<'_>> {
    let (address, rest) = hex(line)?;
    let (len_bytes, name) = hex(rest)?;
    JitCode::new(address, len_bytes, name.trim_ascii())
}

/// Returns the number at the start of a line, and what follows the space after it.
fn hex(text: &[u8]) -> Option<(u64, &[u8])> {
    let text = text.trim_ascii_start();
    let end = text.iter().position(|byte| *byte == b' ')?;
    let digits = text.get(..end)?;
    let digits = digits.strip_prefix(b"0x").unwrap_or(digits);
    let number = u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
    Some((number, text.get(end..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_functions() {
        let check = |text: &str, expected: &[(u64, u64, &str)]| {
            let found: Vec<_> = PerfMap::new(text.as_bytes())
                .map(|code| (code.address, code.len_bytes, str::from_utf8(code.name).unwrap()))
                .collect();
            assert_eq!(found, expected, "{text:?}");
        };
        check("7f01 20 JS:*f /a b.js:1\n", &[(0x7f01, 0x20, "JS:*f /a b.js:1")]);
        check("0x7f01 0x20 py::f:/a.py\r\n7F40 8 g", &[(0x7f01, 0x20, "py::f:/a.py"), (0x7f40, 8, "g")]);
        check("\n\nno line\n12\n12 \n12 3\n12 3 \n12 0 empty\n-1 3 x\n10 1 last", &[(0x10, 1, "last")]);
        check("ffffffffffffffff 2 over\n10000000000000000 1 long\n", &[]);
        check("", &[]);
    }

    #[test]
    fn names_need_not_be_text() {
        let found: Vec<_> = PerfMap::new(b"10 1 \xff\n20 1 ok\n").map(|code| code.name).collect();
        assert_eq!(found, [&b"\xff"[..], b"ok"]);
    }
}
