//! The arguments of `etw write`.

use clap::Args;
use openetw::Guid;

use super::number;

/// The examples at the end of `etw write --help`.
pub(crate) const EXAMPLES: &str = "Examples:
  etw write MyCompany.MyApp Deployed version=1.2.0 count=3
  etw write MyCompany.MyApp Failed --level error --keyword 0x10 code:hex32=0x80070005 'reason=access denied'
  etw write MyCompany.MyApp Measured seconds=0.25 ok=true samples:u16[]=3,5,8 host:ipv4=10.0.0.1
  etw write MyCompany.MyApp Request --opcode start --activity '{3f2504e0-4f89-11d3-9a0c-0305e82c3301}' path=/

The event is a TraceLogging event: it carries the names and types of its fields. Without a type, a field is i64,
u64, f64, bool8, guid or else str8, depending on its value. Types: i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 hex8
hex16 hex32 hex64 pointer code_pointer bool8 bool32 char16 str8 str16 cstr8 cstr16 xml json binary guid filetime
pid tid port ipv4 ipv6 win32_error ntstatus hresult; TYPE[] is an array of values separated by commas.

If no session has enabled the event, a warning is printed and the exit status is 0.
The exit status is 1 if a session that has enabled it lost it.";

/// The arguments of `etw write`.
#[derive(Debug, Args)]
pub(crate) struct WriteArgs {
    /// Name of the provider, or its GUID.
    pub(crate) provider: String,
    /// Name of the event.
    pub(crate) event: String,
    /// Fields: NAME=VALUE or NAME:TYPE=VALUE.
    #[arg(value_name = "FIELD")]
    pub(crate) fields: Vec<String>,
    /// Level: critical, error, warning, information, verbose, or a number.
    #[arg(long, short, default_value = "information")]
    pub(crate) level: String,
    /// Keyword bits.
    #[arg(long, short, value_name = "BITS", default_value = "0", value_parser = number::<u64>)]
    pub(crate) keyword: u64,
    /// Opcode: info, start, stop, or a number.
    #[arg(long, default_value = "info")]
    pub(crate) opcode: String,
    /// Task.
    #[arg(long, value_name = "N", default_value = "0", value_parser = number::<u16>)]
    pub(crate) task: u16,
    /// Tags, 28 bits.
    #[arg(long, value_name = "BITS", default_value = "0", value_parser = number::<u32>)]
    pub(crate) tags: u32,
    /// Activity of the event.
    #[arg(long, value_name = "GUID")]
    pub(crate) activity: Option<Guid>,
    /// Activity that caused the event's activity.
    #[arg(long, value_name = "GUID")]
    pub(crate) related: Option<Guid>,
    /// Provider group that the provider belongs to.
    #[arg(long, value_name = "GUID")]
    pub(crate) group: Option<Guid>,
    /// Do not warn if no session has enabled the event.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
