//! Class Process.

use super::field::{CommandLine, Narrow, UserSid, Wide};
use super::layout;
use crate::ids::{self, Class, EventId};

/// `STILL_ACTIVE`: the exit status of a process that has not ended.
pub const STILL_ACTIVE: i32 = 259;

/// The kind of event about a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ProcessEvent {
    /// It starts.
    Start = 1,
    /// It has ended.
    End = 2,
    /// It existed when the session started.
    DcStart = 3,
    /// It existed when the session stopped.
    DcEnd = 4,
}

/// A process (`Process_V4_TypeGroup1`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process<'a> {
    /// The kind of event.
    pub event: ProcessEvent,
    /// A number that is unique among the processes of this boot.
    pub key: u64,
    /// Id.
    pub process_id: u32,
    /// Id of the process that created it.
    pub parent_id: u32,
    /// Session that it belongs to; all ones if there is none.
    pub session_id: u32,
    /// [`STILL_ACTIVE`], or the exit status.
    pub exit_status: i32,
    /// The user whose rights it has.
    pub uid: u32,
    /// Name of the program's file, without its directory.
    pub image_file_name: &'a [u8],
    /// Arguments, the program's name first, each terminated by a zero byte, as in `/proc/PID/cmdline`.
    ///
    /// They are written as one text, separated by spaces. An empty argument, or one with white space, a quotation mark
    /// or a backslash, is put in quotation marks, with backslashes before its quotation marks and backslashes.
    pub command_line: &'a [u8],
}

impl Process<'static> {
    /// Returns the idle process, which has the idle threads of all processors. Name and ids are those of Windows.
    pub fn idle(event: ProcessEvent) -> Process<'static> {
        Process {
            event,
            key: 0,
            process_id: 0,
            parent_id: 0,
            session_id: u32::MAX,
            exit_status: 0,
            uid: 0,
            image_file_name: b"Idle",
            command_line: b"",
        }
    }
}

// The process's page tables, flags, package and application have no counterpart.
layout! {
    Process<'_>, version 4, |e| kind = match e.event {
        ProcessEvent::Start | ProcessEvent::End => System64,
        ProcessEvent::DcStart | ProcessEvent::DcEnd => PerfInfo64,
    }, EventId::new(Class::Process, e.event as u8);
    e.key, e.process_id, e.parent_id, e.session_id, e.exit_status, 0_u64, 0_u32, UserSid(e.uid),
    Narrow(e.image_file_name), CommandLine(e.command_line), Wide(b""), Wide(b""),
}

/// A process starts to end (`Process_Terminate_TypeGroup1`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessTerminate {
    /// Id.
    pub process_id: u32,
}

layout! { ProcessTerminate, version 2, |e| System64 ids::Process::TERMINATE; e.process_id }

#[cfg(test)]
mod tests {
    use super::super::field::MAX_TEXT_UNITS;
    use super::super::testing::{check, text_of};
    use super::*;

    fn process<'a>(event: ProcessEvent, command_line: &'a [u8]) -> Process<'a> {
        Process {
            event,
            key: 0x1234_5678_9ABC_DEF0,
            process_id: 4711,
            parent_id: 1,
            session_id: 3,
            exit_status: STILL_ACTIVE,
            uid: 1000,
            image_file_name: b"make",
            command_line,
        }
    }

    #[test]
    fn fields_are_read_back() {
        for event in [ProcessEvent::Start, ProcessEvent::End, ProcessEvent::DcStart, ProcessEvent::DcEnd] {
            check(
                &process(event, b"make\0-j\0all\0"),
                &[
                    ("UniqueProcessKey", "0x123456789abcdef0"),
                    ("ProcessId", "0x1267"),
                    ("ParentId", "0x1"),
                    ("SessionId", "3"),
                    ("ExitStatus", "259"),
                    ("DirectoryTableBase", "0x0"),
                    ("Flags", "0x0"),
                    ("UserSID", "S-1-22-1-1000"),
                    ("ImageFileName", "make"),
                    ("CommandLine", "make -j all"),
                    ("PackageFullName", ""),
                    ("ApplicationId", ""),
                ],
            );
        }
        check(
            &Process { exit_status: -9, uid: u32::MAX, ..process(ProcessEvent::End, b"") },
            &[
                ("UniqueProcessKey", "0x123456789abcdef0"),
                ("ProcessId", "0x1267"),
                ("ParentId", "0x1"),
                ("SessionId", "3"),
                ("ExitStatus", "-9"),
                ("DirectoryTableBase", "0x0"),
                ("Flags", "0x0"),
                ("UserSID", "S-1-22-1-4294967295"),
                ("ImageFileName", "make"),
                ("CommandLine", ""),
                ("PackageFullName", ""),
                ("ApplicationId", ""),
            ],
        );
        check(&ProcessTerminate { process_id: 4711 }, &[("ProcessId", "0x1267")]);
    }

    #[test]
    fn arguments_can_be_told_apart() {
        let check = |command_line: &[u8], expected: &str| {
            let text = text_of(&process(ProcessEvent::Start, command_line), "CommandLine");
            assert_eq!(text, expected);
        };
        check(b"sh\0-c\0echo a  b\0", r#"sh -c "echo a  b""#);
        check(b"a\0\0b\0", r#"a "" b"#);
        check(b"a\0\"\0\\n\0x\"y\0", r#"a "\"" "\\n" "x\"y""#);
        check("größe\0€𝄞\0".as_bytes(), "größe €𝄞");
        check(b"a\0\xFFb\0", "a \u{FFFD}b");
        // A title that a process writes over its arguments.
        check(b"postgres: writer process", "postgres: writer process");
        check(b"", "");
        check(b"\0", r#""""#);
    }

    #[test]
    fn long_texts_are_cut() {
        for unit in ["x", "ä", "𝄞"] {
            let long = format!("cc\0{}\0", unit.repeat(100_000));
            let text = text_of(&process(ProcessEvent::Start, long.as_bytes()), "CommandLine");
            assert!(text.starts_with(&format!("cc {unit}")) && text.ends_with(&format!("{unit}…")));
            let len = text.encode_utf16().count();
            assert!((MAX_TEXT_UNITS - 1..=MAX_TEXT_UNITS).contains(&len), "{len}");
        }
        let many = b"a\0".repeat(1_000_000);
        assert!(text_of(&process(ProcessEvent::Start, &many), "CommandLine").ends_with("a …"));
    }
}
