//! Unpacks `.zst`, `.gz` and `.zip` into unnamed temporary files.

use std::io::{self, Cursor, Read};
use std::path::Path;

use etw_etl::{EtlFile, OpenError};
use etw_schema::text::is_disruptive;
use flate2::read::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use zip::ZipArchive;

use super::temporary::{self, CopyError, Room};
use super::{Bytes, Input, InputError, InputLimits, nettrace, perf};

/// Number of member names that an error lists.
const LISTED_MEMBERS: usize = 5;
/// Maximum number of characters shown of a member's name.
const LISTED_CHARACTERS: usize = 255;

/// Opens the traces in `bytes`: each one in a container, or `bytes` itself.
pub(super) fn open(
    path: &Path,
    member: Option<&str>,
    bytes: Bytes,
    limits: &InputLimits,
) -> Result<Vec<Result<Input, InputError>>, InputError> {
    let name = path.display().to_string();
    let room = &mut Room::new(limits);
    let not_zip =
        || InputError::NotAnArchive { path: path.to_owned(), member: member.unwrap_or_default().to_owned() };
    let bytes = match Kind::from_bytes(&bytes) {
        Kind::Zip => return open_zip(path, member, &bytes, room),
        _ if member.is_some() => return Err(not_zip()),
        Kind::Zstd => unpack(&name, "zstd", ZstdFrames { rest: &bytes, frame: None }, room)?,
        Kind::Gzip => unpack(&name, "gzip", MultiGzDecoder::new(&*bytes), room)?,
        Kind::Plain => bytes,
    };
    Ok(vec![Ok(Input::convert(name, bytes, room)?)])
}

fn open_zip(
    path: &Path,
    member: Option<&str>,
    bytes: &[u8],
    room: &mut Room,
) -> Result<Vec<Result<Input, InputError>>, InputError> {
    let broken = |name: String, error: &dyn std::fmt::Display| InputError::Unpack {
        name,
        format: "zip",
        reason: error.to_string(),
    };
    let archive_name = path.display().to_string();
    let mut archive =
        ZipArchive::new(Cursor::new(bytes)).map_err(|error| broken(archive_name.clone(), &error))?;
    let names: Vec<String> = archive
        .file_names()
        .map(|name| name.map_or_else(|_| "?".to_owned(), |name| name.into_owned()))
        .collect();
    let wanted = |name: &str| member.map_or_else(|| is_trace_name(name), |member| member == name);
    let mut inputs = Vec::new();
    for (index, member_name) in names.iter().enumerate() {
        if !wanted(member_name) {
            continue;
        }
        let name = format!("{archive_name}!{}", shown(member_name));
        let reader = archive.by_index(index).map_err(|error| broken(name.clone(), &error));
        let bytes = reader.and_then(|reader| unpack(&name, "zip", reader, room));
        inputs.push(bytes.and_then(|bytes| Input::convert(name, bytes, room)));
    }
    if !inputs.is_empty() {
        return Ok(inputs);
    }
    let mut members =
        names.iter().take(LISTED_MEMBERS).map(|name| shown(name)).collect::<Vec<_>>().join(", ");
    if names.len() > LISTED_MEMBERS {
        members.push_str(", …");
    } else if names.is_empty() {
        members.push_str("none");
    }
    let path = path.to_owned();
    Err(match member {
        Some(member) => InputError::NoMember { path, member: member.to_owned(), members },
        None => InputError::NoTrace { path, members },
    })
}

/// Returns a member's name for messages, which are one line and go to terminals. The archive is untrusted.
fn shown(name: &str) -> String {
    name.chars().take(LISTED_CHARACTERS).map(|c| if is_disruptive(c) { '\u{FFFD}' } else { c }).collect()
}

/// Whether a member is a trace: `*.etl`, `*.etl.001` of a sequence, or one of .NET or of perf.
fn is_trace_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    [".etl", ".nettrace", ".netperf", "perf.data"].iter().any(|extension| name.ends_with(extension))
        || (stem.len() < name.len() && stem.ends_with(".etl."))
}

fn unpack(name: &str, format: &'static str, reader: impl Read, room: &mut Room) -> Result<Bytes, InputError> {
    let copied = temporary::copy(reader, room, |start| check_beginning(name, start));
    let temporary = |source| InputError::Temporary { name: name.to_owned(), source };
    let file = copied.map_err(|error| match error {
        CopyError::Read(error) => {
            InputError::Unpack { name: name.to_owned(), format, reason: error.to_string() }
        }
        CopyError::Write(source) => temporary(source),
        CopyError::TooLarge => {
            InputError::TooLarge { name: name.to_owned(), limit: room.limits.decompressed_bytes }
        }
        CopyError::Refused(error) => error,
    })?;
    room.limits.map(&file).map(Bytes::File).map_err(temporary)
}

/// Checks that a trace, compressed or not, can start with these bytes.
pub(super) fn check_start(name: &str, bytes: &[u8]) -> Result<(), InputError> {
    match Kind::from_bytes(bytes) {
        Kind::Plain => check_beginning(name, bytes),
        _ => Ok(()),
    }
}

/// Checks that a trace can start with these bytes. Unpacking a large file that is not a trace takes long.
fn check_beginning(name: &str, bytes: &[u8]) -> Result<(), InputError> {
    match EtlFile::open(bytes) {
        _ if nettrace::is_nettrace(bytes) || perf::is_perf_data(bytes) => Ok(()),
        Err(source @ OpenError::NotTrace { .. }) => {
            Err(InputError::NotATrace { name: name.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// The format of a container, by its first bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Zip,
    Zstd,
    Gzip,
    Plain,
}

impl Kind {
    fn from_bytes(bytes: &[u8]) -> Kind {
        match bytes.first_chunk::<4>().copied().unwrap_or_default() {
            [b'P', b'K', 3, 4] | [b'P', b'K', 5, 6] => Kind::Zip,
            // Skippable frames have the magic numbers 0x184D2A50 to 0x184D2A5F and may come first.
            [0x28, 0xB5, 0x2F, 0xFD] | [0x50..=0x5F, 0x2A, 0x4D, 0x18] => Kind::Zstd,
            [0x1F, 0x8B, 8, _] => Kind::Gzip,
            _ => Kind::Plain,
        }
    }
}

/// Reader of consecutive Zstandard frames; skips skippable ones.
struct ZstdFrames<'a> {
    rest: &'a [u8],
    frame: Option<StreamingDecoder<&'a [u8], ruzstd::decoding::FrameDecoder>>,
}

impl Read for ZstdFrames<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(frame) = &mut self.frame {
                let count = frame.read(buffer)?;
                if count > 0 || buffer.is_empty() {
                    return Ok(count);
                }
                self.rest = frame.get_ref();
                self.frame = None;
            }
            if self.rest.is_empty() {
                return Ok(0);
            }
            match StreamingDecoder::new(self.rest) {
                Ok(frame) => self.frame = Some(frame),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => self.rest = self.rest.get(8 + length as usize..).unwrap_or_default(),
                Err(error) => return Err(io::Error::other(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::temporary::CHUNK;
    use super::*;
    use std::fmt::Write as _;
    use std::io::Write as _;

    use etw_testkit::traces::{Kind, Recipe, bytes};

    fn check(bytes: &[u8], member: Option<&str>, limit: u64, expected: &str) {
        let limits = InputLimits { decompressed_bytes: limit, ..InputLimits::default() };
        let mut text = String::new();
        match open(Path::new("x"), member, Bytes::Memory(bytes.into()), &limits) {
            Ok(inputs) => {
                for input in inputs {
                    let input = match input {
                        Ok(input) => input,
                        Err(error) => {
                            let _ = write!(text, "({error}) ");
                            continue;
                        }
                    };
                    let _ = write!(text, "{}={} ", input.name(), String::from_utf8_lossy(input.bytes()));
                }
            }
            Err(error) => text = error.to_string(),
        }
        assert!(text.contains(expected), "{text}");
    }

    fn gz(content: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn zst(content: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(content, ruzstd::encoding::CompressionLevel::Fastest)
    }

    fn zip(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, content) in members {
            writer.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
            writer.write_all(content).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    #[test]
    fn containers_are_known_by_their_content() {
        check(b"plain", None, 99, "x=plain ");
        check(b"", None, 99, "x= ");
        check(&gz(b"trace"), None, 99, "x=trace ");
        check(&[gz(b"two "), gz(b"parts")].concat(), None, 99, "x=two parts ");
        check(&zst(b"trace"), None, 99, "x=trace ");
        let skippable = [0x5A, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 1, 2, 3];
        check(&[&zst(b"two ")[..], &skippable, &zst(b"parts")].concat(), None, 99, "x=two parts ");
        let archive = zip(&[("a.etl", b"1"), ("notes.txt", b"2"), ("d/b.ETL", b"3"), ("c.etl.001", b"4")]);
        check(&archive, None, 99, "x!a.etl=1 x!d/b.ETL=3 x!c.etl.001=4 ");
        check(&archive, Some("notes.txt"), 99, "x!notes.txt=2 ");
    }

    #[test]
    fn zeros_take_no_room_but_their_place() {
        let (mut trace, _) = bytes(&Recipe::new(Kind::Mixed, 10)).unwrap();
        trace.resize(4 * CHUNK, 0);
        trace.push(1);
        for packed in [gz(&trace), zst(&trace)] {
            let limits = InputLimits::default();
            let inputs = open(Path::new("x"), None, Bytes::Memory(packed.into()), &limits).unwrap();
            assert!(inputs[0].as_ref().unwrap().bytes() == trace);
        }
    }

    #[test]
    fn bombs_are_defused() {
        let (mut trace, _) = bytes(&Recipe::new(Kind::Mixed, 10)).unwrap();
        trace.resize(64 << 20, 0);
        let packed = gz(&trace);
        assert!(packed.len() < 1 << 20);
        check(&packed, None, (64 << 20) - 1, "unpacks to more than 67108863 bytes");
        let (one, member) = (trace.len() as u64, &*trace);
        let archive = zip(&[("a.etl", member), ("b.etl", member), ("c.etl", member)]);
        let limits = InputLimits { decompressed_bytes: 2 * one, ..InputLimits::default() };
        let inputs = open(Path::new("x"), None, Bytes::Memory(archive.into()), &limits).unwrap();
        let opened: Vec<bool> = inputs.iter().map(Result::is_ok).collect();
        assert_eq!(opened, [true, true, false]);
    }

    #[test]
    fn what_cannot_be_opened_says_why() {
        check(&gz(b"trace"), None, 4, "unpacks to more than 4 bytes");
        check(&gz(&vec![7; CHUNK - 1]), None, 1 << 17, "unpacks to more than 131072 bytes");
        // The members of an archive share the limit.
        let archive = zip(&[("a.etl", b"111"), ("b.etl", b"222"), ("c.etl", b"3"), ("d.etl", b"4")]);
        check(&archive, None, 4, "x!a.etl=111 ('x!b.etl' unpacks to more than 4 bytes");
        check(&archive, None, 4, ") x!c.etl=3 ('x!d.etl' unpacks to more than 4 bytes");
        // What is packed twice is not unpacked twice.
        check(&gz(&gz(&vec![7; 4 * CHUNK])), None, 1 << 17, "x=\u{1f}");
        check(&zst(&vec![7; 1 << 20]), None, 1 << 19, "'x' is not a trace file");
        check(&gz(b"trace")[..12], None, 99, "cannot unpack 'x' (gzip)");
        check(&zst(b"trace")[..7], None, 99, "cannot unpack 'x' (zstd)");
        check(b"PK\x03\x04rubbish", None, 99, "cannot unpack 'x' (zip)");
        check(b"plain", Some("a.etl"), 99, "'x' is not a zip archive");
        let archive = zip(&[("notes.txt", b"2")]);
        check(
            &archive,
            None,
            99,
            "holds no .etl, .nettrace, .netperf or perf.data file; name a member as 'x!MEMBER' (it has notes.txt)",
        );
        let mut broken = zip(&[("a.etl", b"1"), ("b.etl", b"22"), ("c.etl", b"3")]);
        let name = broken.windows(5).position(|bytes| bytes == b"b.etl").unwrap();
        // Compressed data cannot start with this byte.
        broken[name + 5] = 0xFF;
        check(&broken, None, 99, "x!a.etl=1 (cannot unpack 'x!b.etl' (zip)");
        check(&broken, None, 99, ") x!c.etl=3 ");
        check(&archive, Some("b"), 99, "has no member 'b' (it has notes.txt)");
        check(&zip(&[("a\u{1b}\n.etl", b"1")]), None, 99, "x!a\u{FFFD}\u{FFFD}.etl=1");
    }
}
