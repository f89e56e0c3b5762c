//! jitdump files (`jit-PID.dump`): functions with times and source lines.
//!
//! Source: `tools/perf/Documentation/jitdump-specification.txt` of Linux, version 2. A file has a header and records in
//! the order of time; each record has a header of its id, its size and its time.

use std::collections::HashMap;

use etw_event::Fields;

use super::{JitCode, JitLines};

/// `JiTD` as a number in the byte order of the machine.
const MAGIC: u32 = 0x4A69_5444;
/// Bytes of the header of a record.
const RECORD_BYTES: usize = 16;
/// Bit of the file's flags: times are readings of the processor's counter.
const COUNTER_TIMES: u64 = 1;
/// Maximum number of functions that are remembered because they may move.
const MAX_MOVABLE: usize = 1 << 20;

const CODE_LOAD: u32 = 0;
const CODE_MOVE: u32 = 1;
const DEBUG_INFO: u32 = 2;
const CODE_CLOSE: u32 = 3;

/// Why a file cannot be read as a jitdump file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JitDumpError {
    /// It does not start like one.
    #[error("not a jitdump file of this machine's byte order")]
    Magic,
    /// The layout of its records is unknown.
    #[error("version {0} of jitdump files is not supported")]
    Version(u32),
    /// Its header is incomplete.
    #[error("the header of the jitdump file is incomplete")]
    Header,
}

/// The functions of a jitdump file: each time that the code of a function was written or moved, in the order of time.
///
/// An incomplete record ends the file, as in one that is being written. A record that is too short for its kind is
/// skipped.
#[derive(Debug, Clone)]
pub struct JitDump<'a> {
    process_id: u32,
    flags: u64,
    rest: &'a [u8],
    /// The lines of the function that follows.
    lines: JitLines<'a>,
    /// Functions by the number that the runtime gave them.
    movable: HashMap<u64, JitCode<'a>>,
}

impl<'a> JitDump<'a> {
    /// Reads the header of a file.
    ///
    /// # Errors
    ///
    /// Fails if this is not a jitdump file, or one of another version or byte order.
    pub fn parse(bytes: &'a [u8]) -> Result<JitDump<'a>, JitDumpError> {
        if bytes.u32_at(0) != Some(MAGIC) {
            return Err(JitDumpError::Magic);
        }
        let header = || Some((bytes.u32_at(4)?, bytes.u32_at(8)?, bytes.u32_at(20)?, bytes.u64_at(32)?));
        let (version, len_bytes, process_id, flags) = header().ok_or(JitDumpError::Header)?;
        if version != 1 {
            return Err(JitDumpError::Version(version));
        }
        let rest = bytes.get(len_bytes as usize..).filter(|_| len_bytes >= 40).ok_or(JitDumpError::Header)?;
        Ok(JitDump { process_id, flags, rest, lines: JitLines::default(), movable: HashMap::new() })
    }

    /// Returns the process, by its id in its own PID namespace.
    pub fn process_id(&self) -> u32 {
        self.process_id
    }

    /// Returns whether times are readings of the processor's counter. Otherwise they are nanoseconds of
    /// `CLOCK_MONOTONIC`.
    pub fn has_counter_times(&self) -> bool {
        self.flags & COUNTER_TIMES != 0
    }

    /// Returns the next complete record: its id, time and body.
    fn record(&mut self) -> Option<(u32, u64, &'a [u8])> {
        let (id, len_bytes, time) = (self.rest.u32_at(0)?, self.rest.u32_at(4)?, self.rest.u64_at(8)?);
        let (record, rest) = self.rest.split_at_checked(len_bytes as usize)?;
        self.rest = rest;
        Some((id, time, record.get(RECORD_BYTES..)?))
    }

    /// Returns the function that a record loads.
    fn load(&mut self, body: &'a [u8]) -> Option<JitCode<'a>> {
        // Process, thread and the address of the code's mapping.
        let (address, len_bytes, index) = (body.u64_at(16)?, body.u64_at(24)?, body.u64_at(32)?);
        let named = body.get(40..)?;
        let end = named.iter().position(|byte| *byte == 0)?;
        let code = JitCode::new(address, len_bytes, named.get(..end)?)?;
        let lines = std::mem::take(&mut self.lines);
        let lines = if lines.base() == address { lines } else { JitLines::default() };
        let code = JitCode { lines: lines.of(code.name, len_bytes), ..code };
        if self.movable.len() < MAX_MOVABLE {
            self.movable.insert(index, code);
        }
        Some(code)
    }

    /// Returns the function that a record moves, at its new address.
    fn moved(&mut self, body: &[u8]) -> Option<JitCode<'a>> {
        let (address, len_bytes, index) = (body.u64_at(24)?, body.u64_at(32)?, body.u64_at(40)?);
        let code = self.movable.get_mut(&index)?;
        *code = JitCode { lines: code.lines, ..JitCode::new(address, len_bytes, code.name)? };
        Some(*code)
    }
}

impl<'a> Iterator for JitDump<'a> {
    type Item = JitCode<'a>;

    fn next(&mut self) -> Option<JitCode<'a>> {
        while let Some((id, time, body)) = self.record() {
            let code = match id {
                CODE_LOAD => self.load(body),
                CODE_MOVE => self.moved(body),
                DEBUG_INFO => {
                    self.lines = JitLines::parse(body).unwrap_or_default();
                    None
                }
                CODE_CLOSE => return None,
                _ => None,
            };
            if let Some(code) = code {
                return Some(JitCode { time: Some(time), ..code });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jit::JitLine;

    fn header() -> Vec<u8> {
        let words: [u32; 10] = [MAGIC, 1, 40, 62, 0, 77, 0, 0, 0, 0];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn record(id: u32, time: u64, parts: &[&[u8]]) -> Vec<u8> {
        let body = parts.concat();
        let len_bytes = (RECORD_BYTES + body.len()) as u32;
        [&id.to_le_bytes()[..], &len_bytes.to_le_bytes(), &time.to_le_bytes(), &body].concat()
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn load(time: u64, address: u64, index: u64, name: &str) -> Vec<u8> {
        let fields = words(&[77 << 32 | 77, 0, address, 4, index]);
        record(CODE_LOAD, time, &[&fields, name.as_bytes(), b"\0\x90\x90\x90\x90"])
    }

    fn debug_info(address: u64, entries: &[(u64, u32, &[u8])]) -> Vec<u8> {
        let mut body = words(&[address, entries.len() as u64]);
        for (at, line, file) in entries {
            body.extend(at.to_le_bytes());
            body.extend(line.to_le_bytes());
            body.extend([0; 4]);
            body.extend(*file);
            body.push(0);
        }
        record(DEBUG_INFO, 0, &[&body])
    }

    fn found(file: &[u8]) -> Vec<(u64, u64, String)> {
        let codes = JitDump::parse(file).unwrap();
        codes
            .map(|code| (code.time.unwrap(), code.address, String::from_utf8_lossy(code.name).into_owned()))
            .collect()
    }

    #[test]
    fn functions_are_loaded_and_moved() {
        let moved = record(CODE_MOVE, 30, &[&words(&[77 << 32 | 77, 0, 0x1000, 0x9000, 4, 1])]);
        let unknown = record(9, 31, &[b"what"]);
        let closed = record(CODE_CLOSE, 40, &[]);
        let file = [
            header(),
            load(10, 0x1000, 1, "one"),
            load(20, 0x2000, 2, "two"),
            moved,
            unknown,
            load(35, 0x1000, 3, "three"),
            closed,
            load(50, 0x3000, 4, "none"),
        ]
        .concat();
        let expected = [
            (10, 0x1000, "one".to_owned()),
            (20, 0x2000, "two".to_owned()),
            (30, 0x9000, "one".to_owned()),
            (35, 0x1000, "three".to_owned()),
        ];
        assert_eq!(found(&file), expected);
        // Wherever the file is cut, the functions before are found.
        for len in 40..file.len() {
            assert!(expected.starts_with(&found(&file[..len])), "{len}");
        }
        assert_eq!(JitDump::parse(&file).unwrap().process_id(), 77);
        assert!(!JitDump::parse(&file).unwrap().has_counter_times());
    }

    #[test]
    fn lines_belong_to_the_next_function() {
        let check = |entries: &[(u64, u32, &[u8])], expected: &[(u64, u32, &str)]| {
            let file =
                [header(), debug_info(0x1000, entries), load(1, 0x1000, 1, "f"), load(2, 0x2000, 2, "g")];
            let file = file.concat();
            let codes: Vec<_> = JitDump::parse(&file).unwrap().collect();
            let lines: Vec<JitLine<'_>> = codes[0].lines.iter().collect();
            let lines: Vec<_> = lines
                .iter()
                .map(|line| (line.offset, line.line, str::from_utf8(line.file).unwrap()))
                .collect();
            assert_eq!(lines, expected);
            assert_eq!(codes[1].lines.iter().count(), 0);
        };
        check(
            &[(0x1000, 7, b"/a.js"), (0x1002, 8, b"\xff"), (0x1003, 1, b"/b.js")],
            &[(0, 7, "/a.js"), (2, 8, "/a.js"), (3, 1, "/b.js")],
        );
        // As V8 writes them; and lines before the function.
        check(
            &[(0x1040, 7, b"/a.js"), (0x1042, 8, b"\xff"), (0xFFF, 9, b"\xff")],
            &[(0, 7, "/a.js"), (2, 8, "/a.js")],
        );
    }

    /// The first lines that V8 11.3 (Node.js 20) wrote of a function, whose script it had freed: the start of its name has
    /// other bytes, with zeros among them.
    #[test]
    fn lines_of_v8_whose_script_is_damaged() {
        let freed = [0xCA, 0xD9, 3, 0, 0, 0, 0, 0, 0x26, 0x59, 0xED, 0x99, 0xFB, 0xBC, 0x44];
        let check = |script: &str, entries: &[(u64, u32, &[u8])], expected: &[(u64, u32, &str)]| {
            let name = format!("JS:*inner {script}:2:15");
            let fields = words(&[77 << 32 | 77, 0, 0x1000, 0x80, 1]);
            let load = record(CODE_LOAD, 1, &[&fields, name.as_bytes(), &[0; 0x81]]);
            let file = [header(), debug_info(0x1000, entries), load].concat();
            let code = JitDump::parse(&file).unwrap().next().unwrap();
            let text = |line: &JitLine<'_>| str::from_utf8(line.file).unwrap().to_owned();
            let lines: Vec<_> = code.lines.iter().map(|line| (line.offset, line.line, text(&line))).collect();
            let expected: Vec<_> =
                expected.iter().map(|(offset, line, file)| (*offset, *line, (*file).to_owned())).collect();
            assert_eq!(lines, expected, "{script}");
        };
        let entries = [(0x1040, 2, &freed[..]), (0x1079, 4, &freed), (0x109D, 8, &freed)];
        let of = |file| [(0, 2, file), (0x39, 4, file), (0x5D, 8, file)];
        check("/tmp/v8/spin.js", &entries, &of("/tmp/v8/spin.js"));
        // Of a longer name only the start is damaged.
        let long = [&freed[..], b"\0ns/spinning.js"].concat();
        let entries = [(0x1040, 2, &long[..]), (0x1079, 4, &long), (0x109D, 8, &long)];
        check("/srv/applications/spinning.js", &entries, &[]);
        check("/srv/applicatins/spinning.js", &entries, &[]);
        check("/srv/applicationns/spinning.js", &entries, &of("/srv/applicationns/spinning.js"));
        // An inlined function of another script, whose name is not known.
        let entries = [(0x1040, 2, &freed[..]), (0x1044, 7, &freed[..9]), (0x1079, 4, &freed)];
        check("/tmp/v8/spin.js", &entries, &[(0, 2, "/tmp/v8/spin.js"), (0x39, 4, "/tmp/v8/spin.js")]);
        // As it should be.
        let entries = [(0x1040, 2, &b"/tmp/v8/spin.js"[..]), (0x1044, 7, b"/a.js"), (0x1079, 4, b"\xff")];
        check("/tmp/v8/spin.js", &entries, &[(0, 2, "/tmp/v8/spin.js"), (4, 7, "/a.js"), (0x39, 4, "/a.js")]);
    }

    #[test]
    fn other_files_are_refused() {
        let mut file = header();
        file[4] = 2;
        assert_eq!(JitDump::parse(&file).unwrap_err(), JitDumpError::Version(2));
        assert_eq!(JitDump::parse(&header()[..20]).unwrap_err(), JitDumpError::Header);
        assert_eq!(JitDump::parse(b"JiTD").unwrap_err(), JitDumpError::Magic);
        assert_eq!(JitDump::parse(b"").unwrap_err(), JitDumpError::Magic);
        let mut file = header();
        file[8] = 200;
        assert_eq!(JitDump::parse(&file).unwrap_err(), JitDumpError::Header);
    }
}
