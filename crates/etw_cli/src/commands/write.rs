//! `etw write`: writes one event from a shell.

use std::fmt::Display;
use std::str::FromStr;

use anyhow::{Result, bail};
use etw_app::UsageError;
use etw_app::output;
use openetw::provider::{EventBuilder, Outcome, Provider, fields};
use openetw::{Guid, Keyword, Level, Opcode, TimePoint};

use crate::args::write::WriteArgs;

/// Runs the command.
pub(crate) fn run(args: &WriteArgs) -> Result<()> {
    let mut event = EventBuilder::new(&args.event)
        .level(level(&args.level)?)
        .keyword(Keyword(args.keyword))
        .opcode(opcode(&args.opcode)?)
        .task(args.task)
        .tags(args.tags);
    if let Some(activity) = args.activity {
        event = event.activity(activity);
    }
    if let Some(related) = args.related {
        event = event.related(related);
    }
    for field in &args.fields {
        event = add(event, field)?;
    }
    let guid = args.provider.parse::<Guid>().ok();
    let provider = Provider::create(&args.provider, guid, args.group);
    provider.register();
    match event.write(provider) {
        Outcome::Written => Ok(()),
        Outcome::NotEnabled if args.quiet => Ok(()),
        Outcome::NotEnabled => {
            output::warn(&format_args!("no session has enabled this event of {}", args.provider));
            Ok(())
        }
        Outcome::Lost => bail!("event lost: a session that has enabled it has no free buffer"),
        Outcome::TooLarge => {
            bail!("event lost: it is larger than 65535 bytes or than a session's buffer")
        }
        #[cfg(windows)]
        Outcome::Unsupported => bail!("Windows does not let a provider write such an event"),
    }
}

/// Adds the field that `NAME=VALUE` or `NAME:TYPE=VALUE` describes.
fn add(event: EventBuilder, field: &str) -> Result<EventBuilder> {
    let Some((front, value)) = field.split_once('=') else {
        return Err(usage(format_args!("'{field}' is not a field; write NAME=VALUE or NAME:TYPE=VALUE")));
    };
    let (name, kind) = front.rsplit_once(':').unwrap_or((front, guess(value)));
    if name.is_empty() {
        return Err(usage(format_args!("the field '{field}' has no name")));
    }
    typed(event, name, kind, value).map_err(|reason| usage(format_args!("field '{field}': {reason}")))
}

/// Returns the type of a value that is given without a type.
fn guess(value: &str) -> &'static str {
    // Values with leading zeros or a plus sign are strings: telephone numbers, versions, hashes.
    let digits = value.strip_prefix('-').unwrap_or(value);
    let is_number =
        digits == "0" || digits.starts_with(|c: char| ('1'..='9').contains(&c)) || digits.starts_with("0.");
    if is_number && value.parse::<i64>().is_ok() {
        "i64"
    } else if is_number && value.parse::<u64>().is_ok() {
        "u64"
    } else if is_number
        && value.bytes().all(|b| b"0123456789.-+eE".contains(&b))
        && value.parse::<f64>().is_ok()
    {
        "f64"
    } else if matches!(value, "true" | "false") {
        "bool8"
    } else if value.starts_with('{') && value.parse::<Guid>().is_ok() {
        "guid"
    } else {
        "str8"
    }
}

/// Adds a field of a type, or an array of it.
fn typed(event: EventBuilder, name: &str, kind: &str, text: &str) -> Result<EventBuilder, String> {
    macro_rules! kinds {
        ($($field:ident $slice:ident: $parse:expr;)*) => {
            match kind {
                $(stringify!($field) => {
                    let value = $parse(text)?;
                    Ok(event.add(name, fields::$field::FIELD, &fields::$field::value(value)))
                })*
                $(kind if kind.strip_suffix("[]") == Some(stringify!($field)) => {
                    let mut values = Vec::new();
                    for text in text.split(',').filter(|_| !text.is_empty()) {
                        values.push($parse(text)?);
                    }
                    Ok(event.add(name, fields::$slice::FIELD, &fields::$slice::value(&values)))
                })*
                "binary" => {
                    let bytes = hex(text)?;
                    Ok(event.add(name, fields::binary::FIELD, &fields::binary::value(&bytes)))
                }
                _ => Err(format!("unknown type '{kind}'; see `etw write --help`")),
            }
        };
    }
    kinds! {
        i8 i8_slice: integer; i16 i16_slice: integer; i32 i32_slice: integer; i64 i64_slice: integer;
        u8 u8_slice: integer; u16 u16_slice: integer; u32 u32_slice: integer; u64 u64_slice: integer;
        f32 f32_slice: parsed; f64 f64_slice: parsed;
        hex8 hex8_slice: integer; hex16 hex16_slice: integer;
        hex32 hex32_slice: integer; hex64 hex64_slice: integer;
        pointer pointer_slice: integer; code_pointer code_pointer_slice: integer;
        bool8 bool8_slice: boolean; bool32 bool32_slice: boolean;
        char16 char16_slice: character;
        str8 str8_slice: Ok::<&str, String>; str16 str16_slice: Ok::<&str, String>;
        cstr8 cstr8_slice: Ok::<&str, String>; cstr16 cstr16_slice: Ok::<&str, String>;
        xml xml_slice: Ok::<&str, String>; json json_slice: Ok::<&str, String>;
        guid guid_slice: parsed; filetime filetime_slice: time;
        pid pid_slice: integer; tid tid_slice: integer; port port_slice: integer;
        ipv4 ipv4_slice: parsed; ipv6 ipv6_slice: parsed;
        win32_error win32_error_slice: integer; ntstatus ntstatus_slice: integer;
        hresult hresult_slice: signed_or_bits;
    }
}

/// Parses a number in decimal or, after `0x`, hexadecimal digits.
fn integer<T: TryFrom<i128>>(text: &str) -> Result<T, String> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let number = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => i128::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    let number = number.map_err(|_| format!("'{text}' is not a number"))?;
    number
        .checked_mul(sign)
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| format!("'{text}' does not fit the type"))
}

/// Parses a time in UTC, as `2024-01-01T00:00:00Z`, or a number of 100 ns since 1601.
fn time(text: &str) -> Result<u64, String> {
    match text.parse() {
        _ if text.parse::<u64>().is_ok() || text.starts_with("0x") => integer(text),
        Ok(TimePoint::At(time)) => u64::try_from(time.0).map_err(|_| format!("'{text}' is before 1601")),
        _ => Err(format!("'{text}' is neither a time (2024-01-01T00:00:00Z) nor a number")),
    }
}

/// Parses an error code, which may be written as its unsigned bits.
fn signed_or_bits(text: &str) -> Result<i32, String> {
    integer::<i32>(text).or_else(|_| integer::<u32>(text).map(u32::cast_signed))
}

fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error| format!("'{text}': {error}"))
}

fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(format!("'{text}' is neither true nor false")),
    }
}

fn character(text: &str) -> Result<u16, String> {
    let mut units = text.encode_utf16();
    match (units.next(), units.next()) {
        (Some(unit), None) => Ok(unit),
        _ => Err(format!("'{text}' is not one character")),
    }
}

fn hex(text: &str) -> Result<Vec<u8>, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text).as_bytes();
    let (pairs, rest) = digits.as_chunks::<2>();
    let byte = |pair: &[u8; 2]| {
        let pair = str::from_utf8(pair).ok().filter(|pair| pair.bytes().all(|byte| byte.is_ascii_hexdigit()));
        pair.and_then(|pair| u8::from_str_radix(pair, 16).ok())
    };
    let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    bytes
        .filter(|_| rest.is_empty())
        .ok_or_else(|| format!("'{text}' is not a sequence of pairs of hexadecimal digits"))
}

fn level(text: &str) -> Result<Level> {
    let number = || integer(text).ok().map(Level);
    etw_schema::level_by_name(text).or_else(number).ok_or_else(|| {
        usage(format_args!(
            "'{text}' is not a level: expected critical, error, warning, information, verbose or a number"
        ))
    })
}

fn opcode(text: &str) -> Result<Opcode> {
    match text.to_ascii_lowercase().as_str() {
        "info" => Ok(Opcode::INFO),
        "start" => Ok(Opcode::START),
        "stop" => Ok(Opcode::STOP),
        _ => integer(text).map(Opcode).map_err(|_| {
            usage(format_args!("'{text}' is not an opcode: expected info, start, stop or a number"))
        }),
    }
}

fn usage(text: std::fmt::Arguments<'_>) -> anyhow::Error {
    anyhow::Error::new(UsageError(text.to_string()))
}
