//! Messages of the runtime's diagnostics protocol (`DOTNET_IPC_V1`), which start and stop a session of EventPipe.
//!
//! A program sends a request and receives an answer. After the answer to [`collect_tracing`], the runtime sends the
//! trace on the same connection, in format 4, until [`stop_tracing`] is sent on another one. This module only
//! builds requests and parses answers; the caller connects.
//!
//! Source: `ipc-protocol.md` in dotnet/diagnostics.
//!
//! ```
//! use etw_nettrace::ipc::{self, ProviderConfig};
//!
//! let provider: ProviderConfig = "Microsoft-Windows-DotNETRuntime:0x1:4".parse()?;
//! let request = ipc::collect_tracing(256, &[provider]).ok_or("too long")?;
//! assert!(request.starts_with(b"DOTNET_IPC_V1\0"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::str::FromStr;

/// First bytes of a message.
const MAGIC: &[u8; 14] = b"DOTNET_IPC_V1\0";
/// Length in bytes of the part of a message before its payload.
pub const HEADER_LEN_BYTES: usize = 20;
/// Command set and command: stop a session; start one, with the events at its end about what exists.
const STOP: [u8; 2] = [2, 1];
const COLLECT_2: [u8; 2] = [2, 3];
/// Command set of responses, and its two commands: success and failure.
const ANSWER: u8 = 0xFF;
const OK: u8 = 0;
const ERROR: u8 = 0xFF;
/// Format of the trace: `.nettrace`.
const NETTRACE: u32 = 1;
/// Level of a provider without one: verbose.
const VERBOSE: u32 = 5;

/// What a provider of the runtime, or an `EventSource`, is to write.
///
/// As text, as in `dotnet-trace`: `NAME[:KEYWORDS[:LEVEL[:ARGUMENTS]]]`, with keywords in hexadecimal. By default, all
/// keywords and level 5.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderConfig {
    /// Name.
    pub name: String,
    /// Keywords: events with one of them, or with none, are written.
    pub keywords: u64,
    /// Highest level of events.
    pub level: u32,
    /// Arguments for the provider: `KEY=VALUE;KEY=VALUE`.
    pub arguments: String,
}

/// A text does not describe a provider.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{}' is not NAME[:KEYWORDS[:LEVEL[:ARGUMENTS]]], with hexadecimal KEYWORDS and LEVEL from 0 to 5",
    .0.escape_debug()
)]
pub struct ProviderConfigError(String);

impl FromStr for ProviderConfig {
    type Err = ProviderConfigError;

    fn from_str(text: &str) -> Result<ProviderConfig, ProviderConfigError> {
        let mut parts = text.splitn(4, ':');
        let mut part = || parts.next().filter(|part| !part.is_empty());
        let (name, keywords, level, arguments) = (part(), part(), part(), part());
        let hex = |text: &str| {
            let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
            u64::from_str_radix(digits, 16).ok()
        };
        let parse = || {
            Some(ProviderConfig {
                name: name?.to_owned(),
                keywords: keywords.map_or(Some(u64::MAX), hex)?,
                level: level
                    .map_or(Some(VERBOSE), |level| level.parse().ok().filter(|level| *level <= VERBOSE))?,
                arguments: arguments.unwrap_or_default().to_owned(),
            })
        };
        parse().ok_or_else(|| ProviderConfigError(text.to_owned()))
    }
}

/// Why an answer is not that to the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// It is not a message of this protocol.
    #[error("the answer is not one of the diagnostics protocol")]
    Other,
    /// It is too short for its kind.
    #[error("the answer is too short")]
    TooShort,
    /// The runtime refused the request.
    #[error("the runtime refused the request: {}", reason(*code))]
    Refused {
        /// The error (`HRESULT`).
        code: u32,
    },
}

fn reason(code: u32) -> String {
    match code {
        0x8013_1384 => "it cannot read the request".to_owned(),
        0x8013_1385 => "it does not know the command; it is older than .NET Core 3.1".to_owned(),
        0x8013_1386 => "it has another version of the protocol".to_owned(),
        0x8013_135E => "a profiler is attached already".to_owned(),
        code => format!("error {code:#010x}"),
    }
}

/// Returns the request to start a session with these providers, with a buffer of this size in the runtime, and with
/// events about methods and modules at its end. `None` if the request is too long.
pub fn collect_tracing(buffer_mib: u32, providers: &[ProviderConfig]) -> Option<Vec<u8>> {
    let mut payload = [buffer_mib, NETTRACE].map(u32::to_le_bytes).concat();
    // With a rundown.
    payload.push(1);
    payload.extend(u32::try_from(providers.len()).ok()?.to_le_bytes());
    for provider in providers {
        payload.extend(provider.keywords.to_le_bytes());
        payload.extend(provider.level.to_le_bytes());
        put_text(&mut payload, &provider.name)?;
        put_text(&mut payload, &provider.arguments)?;
    }
    message(COLLECT_2, &payload)
}

/// Returns the request to stop a session.
pub fn stop_tracing(session: u64) -> Vec<u8> {
    message(STOP, &session.to_le_bytes()).unwrap_or_default()
}

/// Returns the length in bytes of the payload that follows the header of an answer.
///
/// # Errors
///
/// Fails if the header is not that of an answer.
pub fn payload_len(header: &[u8; HEADER_LEN_BYTES]) -> Result<usize, AnswerError> {
    let [.., low, high, set, _, _, _] = *header;
    if !header.starts_with(MAGIC) || set != ANSWER {
        return Err(AnswerError::Other);
    }
    usize::from(u16::from_le_bytes([low, high])).checked_sub(HEADER_LEN_BYTES).ok_or(AnswerError::TooShort)
}

/// Returns the number of the session that an answer is about.
///
/// # Errors
///
/// Fails if the runtime refused the request, or if the answer is another one.
pub fn session(header: &[u8; HEADER_LEN_BYTES], payload: &[u8]) -> Result<u64, AnswerError> {
    payload_len(header)?;
    let [.., command, _, _] = *header;
    match command {
        OK => payload.first_chunk().map(|session| u64::from_le_bytes(*session)).ok_or(AnswerError::TooShort),
        ERROR => {
            let code = payload.first_chunk().ok_or(AnswerError::TooShort)?;
            Err(AnswerError::Refused { code: u32::from_le_bytes(*code) })
        }
        _ => Err(AnswerError::Other),
    }
}

fn message(command: [u8; 2], payload: &[u8]) -> Option<Vec<u8>> {
    let len = u16::try_from(HEADER_LEN_BYTES + payload.len()).ok()?;
    Some([&MAGIC[..], &len.to_le_bytes(), &command, &[0, 0], payload].concat())
}

/// Adds a text: its length in UTF-16 units with the zero at its end, and the units; only a zero if it is empty. `None` if
/// it is too long.
fn put_text(payload: &mut Vec<u8>, text: &str) -> Option<()> {
    if text.is_empty() {
        payload.extend(0_u32.to_le_bytes());
        return Some(());
    }
    let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
    payload.extend(u32::try_from(units.len()).ok()?.to_le_bytes());
    payload.extend(units.into_iter().flat_map(u16::to_le_bytes));
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(bytes: &[u8]) -> &[u8; HEADER_LEN_BYTES] {
        bytes.first_chunk().unwrap()
    }

    #[test]
    fn requests() {
        let provider = ProviderConfig {
            name: "My".to_owned(),
            keywords: 0x1_0000_0002,
            level: 4,
            arguments: "a=b".to_owned(),
        };
        let mut expected = b"DOTNET_IPC_V1\0".to_vec();
        expected.extend([67, 0, 2, 3, 0, 0]);
        expected.extend([0, 1, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0]);
        expected.extend([2, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0]);
        expected.extend([3, 0, 0, 0, b'M', 0, b'y', 0, 0, 0]);
        expected.extend([4, 0, 0, 0, b'a', 0, b'=', 0, b'b', 0, 0, 0]);
        assert_eq!(expected.len(), 67);
        assert_eq!(collect_tracing(256, std::slice::from_ref(&provider)).unwrap(), expected);
        assert_eq!(
            stop_tracing(7),
            [&b"DOTNET_IPC_V1\0"[..], &[28, 0, 2, 1, 0, 0], &[7, 0, 0, 0, 0, 0, 0, 0]].concat()
        );
        let long = ProviderConfig { arguments: "x".repeat(40_000), ..provider };
        assert_eq!(collect_tracing(256, &[long]), None);
    }

    #[test]
    fn answers() {
        let answer = |command: u8, payload: &[u8]| message([0xFF, command], payload).unwrap();
        let parse = |bytes: &[u8]| session(header(bytes), &bytes[HEADER_LEN_BYTES..]);
        let started = answer(0, &9_u64.to_le_bytes());
        assert_eq!((payload_len(header(&started)), parse(&started)), (Ok(8), Ok(9)));
        let refused = parse(&answer(0xFF, &0x8013_1385_u32.to_le_bytes())).unwrap_err();
        assert!(refused.to_string().contains("does not know the command"), "{refused}");
        assert_eq!(parse(&answer(0, &[1, 2])), Err(AnswerError::TooShort));
        assert_eq!(parse(&answer(0xFF, &[1, 2])), Err(AnswerError::TooShort));
        assert_eq!(parse(&answer(3, &[0; 8])), Err(AnswerError::Other));
        assert_eq!(parse(&stop_tracing(7)), Err(AnswerError::Other));
        let mut short = started.clone();
        short[14] = 19;
        assert_eq!(payload_len(header(&short)), Err(AnswerError::TooShort));
        short[0] = b'X';
        assert_eq!(payload_len(header(&short)), Err(AnswerError::Other));
    }

    #[test]
    fn providers_as_text() {
        let parse = |text: &str| text.parse::<ProviderConfig>();
        let provider = parse("A-B:C0DE:4:x=1:2;y=").unwrap();
        assert_eq!((&*provider.name, provider.keywords, provider.level), ("A-B", 0xC0DE, 4));
        assert_eq!(provider.arguments, "x=1:2;y=");
        let provider = parse("A::3").unwrap();
        assert_eq!((provider.keywords, provider.level, &*provider.arguments), (u64::MAX, 3, ""));
        assert_eq!(parse("A:0x10").unwrap().keywords, 0x10);
        for text in ["", ":1", "A:xyz", "A:1:6", "A:1:x"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
