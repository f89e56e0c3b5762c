//! Writes every type of field of `tracelogging`, `tracelogging_dynamic` and `win_etw_macros`, once each.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::pin::pin;
use std::time::{Duration, UNIX_EPOCH};

use tracelogging as tlg;
use tracelogging_dynamic::{EventBuilder, Guid, Level, OutType, Provider};
use win_etw_macros::trace_logging_provider;
use win_etw_provider::{EventOptions, FILETIME, GUID};

/// Events of a provider as `win_etw_macros` declares them.
#[trace_logging_provider(name = "OpenETW.Wine.WinEtw")]
trait WinEtw {
    #[event(level = "info", opcode = 10, keyword = 0x10, task = 7)]
    fn numbers(
        a_u8: u8,
        a_u16: u16,
        a_u32: u32,
        a_u64: u64,
        a_i8: i8,
        a_i16: i16,
        a_i32: i32,
        a_i64: i64,
        a_f32: f32,
        a_f64: f64,
        a_usize: usize,
        a_isize: isize,
        a_bool: bool,
        #[event(output = "hex")] a_hex: u32,
    );
    #[event(level = "warn", keyword = 1)]
    fn text_and_time(a_str: &str, a_file_time: FILETIME);
    #[event(level = "error", keyword = 1)]
    fn addresses(a_v4: &SocketAddrV4, a_v6: &SocketAddrV6);
    #[event(level = "verbose", keyword = 1)]
    fn slices(a_u8: &[u8], a_i16: &[i16], a_u32: &[u32], a_i64: &[i64], a_f64: &[f64], a_bool: &[bool]);
}

tlg::define_provider!(STATIC, "OpenETW.Wine.Static");

/// 1, sub-authority 21: S-1-1-21.
const SID: [u8; 12] = [1, 1, 0, 0, 0, 0, 0, 1, 21, 0, 0, 0];
/// 2022-08-01 05:06:07.008, a Monday.
const SYSTEM_TIME: [u16; 8] = [2022, 8, 1, 1, 5, 6, 7, 8];
/// 2022-08-01 05:06:07 as a FILETIME.
const FILE_TIME: i64 = 133_038_039_670_000_000;
/// 127.0.0.1, port 80.
const SOCKET: [u8; 16] = [2, 0, 0, 80, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
const IPV6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
/// é, 中, and a character of two units.
const WIDE: [u16; 4] = [0xE9, 0x4E2D, 0xD83D, 0xDE00];

fn main() {
    // SAFETY: the provider is unregistered before the program ends.
    unsafe { STATIC.register() };
    write_static();
    STATIC.unregister();
    write_dynamic();
    write_win_etw();
}

fn write_win_etw() {
    let guid = |last| GUID { data1: 1, data2: 2, data3: 3, data4: [4, 5, 6, 7, 8, 9, 10, last] };
    let options = EventOptions {
        activity_id: Some(guid(1)),
        related_activity_id: Some(guid(2)),
        ..EventOptions::default()
    };
    let (v4, v6) = (
        SocketAddrV4::new(Ipv4Addr::LOCALHOST, 80),
        SocketAddrV6::new(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 443, 0, 0),
    );
    let provider = WinEtw::new();
    provider.numbers(Some(&options), 8, 16, 32, u64::MAX, -8, -16, -32, -64, 1.5, -2.25, 7, -7, true, 0x1234);
    provider.text_and_time(None, "\u{e9}\u{4e2d}", FILETIME(FILE_TIME as u64));
    provider.addresses(None, &v4, &v6);
    provider.slices(None, &[1, 2], &[-1, 2], &[1, 2], &[-1, 2], &[0.5, 1.5], &[true, false]);
}

fn write_static() {
    let guid = tlg::Guid::from_u128(&0x01020304_0506_0708_090a_0b0c0d0e0f10);
    let time = UNIX_EPOCH + Duration::from_secs(1_659_330_367);
    tlg::write_event!(
        STATIC,
        "Numbers",
        level(Informational),
        keyword(0x10),
        i8("i8", &-8),
        u8("u8", &8),
        i16("i16", &-16),
        u16("u16", &16),
        i32("i32", &-32),
        u32("u32", &32),
        i64("i64", &-64),
        u64("u64", &u64::MAX),
        isize("isize", &-7),
        usize("usize", &7),
        f32("f32", &1.5),
        f64("f64", &-2.25),
        bool8("bool8", &true),
        bool32("bool32", &1),
        i8_hex("i8_hex", &-1),
        u8_hex("u8_hex", &0x12),
        i16_hex("i16_hex", &-1),
        u16_hex("u16_hex", &0x1234),
        i32_hex("i32_hex", &-1),
        u32_hex("u32_hex", &0x12345678),
        i64_hex("i64_hex", &-1),
        u64_hex("u64_hex", &0x123456789),
        isize_hex("isize_hex", &0x77),
        usize_hex("usize_hex", &0x77),
        pointer("pointer", &0x1234),
        codepointer("codepointer", &0x5678),
    );
    tlg::write_event!(
        STATIC,
        "Meanings",
        level(Warning),
        char8_cp1252("char8", &65),
        char16("char16", &0x4E2D),
        errno("errno", &2),
        hresult("hresult", &-2147024894),
        ipv4("ipv4", &[127, 0, 0, 1]),
        ipv6("ipv6", &IPV6),
        ipv6c("ipv6c", &IPV6),
        pid("pid", &4711),
        tid("tid", &4712),
        port("port", &0x5000),
        socketaddress("socketaddress", &SOCKET),
        socketaddressc("socketaddressc", &SOCKET),
        win_error("win_error", &5),
        win_ntstatus("win_ntstatus", &-1073741819),
        win_sid("win_sid", &SID),
        guid("guid", &guid),
        binary("binary", &[1, 2, 3]),
        binaryc("binaryc", &[1, 2, 3]),
        systemtime("systemtime", &time),
        time32("time32", &100),
        time64("time64", &200),
        win_filetime("win_filetime", &FILE_TIME),
        win_systemtime("win_systemtime", &SYSTEM_TIME),
        win_systemtime_utc("win_systemtime_utc", &SYSTEM_TIME),
    );
    tlg::write_event!(
        STATIC,
        "Texts",
        cstr8("cstr8", "a zero ends \u{e9}"),
        cstr8_cp1252("cstr8_cp1252", b"caf\xe9"),
        cstr8_json("cstr8_json", "{\"a\":1}"),
        cstr8_xml("cstr8_xml", "<a/>"),
        cstr16("cstr16", &WIDE),
        cstr16_json("cstr16_json", &[b'7' as u16]),
        cstr16_xml("cstr16_xml", &[b'<' as u16, b'a' as u16, b'/' as u16, b'>' as u16]),
        str8("str8", "counted \u{e9}"),
        str8_cp1252("str8_cp1252", b"caf\xe9"),
        str8_json("str8_json", "[1,2]"),
        str8_xml("str8_xml", "<b/>"),
        str16("str16", &WIDE),
        str16_json("str16_json", &[b'8' as u16]),
        str16_xml("str16_xml", &[b'<' as u16, b'b' as u16, b'/' as u16, b'>' as u16]),
        str8("empty", ""),
    );
    tlg::write_event!(
        STATIC,
        "Slices",
        i8_slice("i8", &[-1, 2]),
        u8_slice("u8", &[1, 2]),
        i16_slice("i16", &[-1, 2]),
        u16_slice("u16", &[1, 2]),
        i32_slice("i32", &[-1, 2]),
        u32_slice("u32", &[1, 2]),
        i64_slice("i64", &[-1, 2]),
        u64_slice("u64", &[1, 2]),
        isize_slice("isize", &[-1, 2]),
        usize_slice("usize", &[1, 2]),
        f32_slice("f32", &[0.5, 1.5]),
        f64_slice("f64", &[0.5, 1.5]),
        bool8_slice("bool8", &[true, false]),
        bool32_slice("bool32", &[1, 0]),
        u32_hex_slice("u32_hex", &[1, 0x20]),
        u64_hex_slice("u64_hex", &[1, 0x20]),
        ipv4_slice("ipv4", &[[10, 0, 0, 1], [10, 0, 0, 2]]),
        guid_slice("guid", &[guid, guid]),
        win_filetime_slice("win_filetime", &[FILE_TIME]),
        win_systemtime_slice("win_systemtime", &[SYSTEM_TIME]),
        u32_slice("empty", &[]),
    );
    tlg::write_event!(
        STATIC,
        "Structures",
        u8("before", &1),
        struct("outer", {
            u8("a", &2),
            struct("inner", {
                str8("b", "deep"),
                u16_slice("c", &[3, 4]),
            }),
        }),
        u8("after", &5),
    );
    tlg::write_event!(
        STATIC,
        "Header",
        level(Error),
        opcode(Reply),
        task(6),
        keyword(0x3),
        tag(0x123),
        id_version(23, 4),
        activity_id(&guid),
        related_id(&tlg::Guid::from_u128(&7)),
    );
}

fn write_dynamic() {
    let provider = pin!(Provider::new("OpenETW.Wine.Dynamic", &Provider::options()));
    // SAFETY: the provider is dropped, and so unregistered, before the program ends.
    unsafe { provider.as_ref().register() };
    let guid = Guid::from_u128(&0x01020304_0506_0708_090a_0b0c0d0e0f10);
    let (plain, mut event) = (OutType::Default, EventBuilder::new());
    event
        .reset("Numbers", Level::Informational, 0x10, 0)
        .add_i8("i8", -8, plain, 0)
        .add_u8("u8", 8, plain, 0)
        .add_i16("i16", -16, plain, 0)
        .add_u16("u16", 16, plain, 0)
        .add_i32("i32", -32, plain, 0)
        .add_u32("u32", 32, plain, 0)
        .add_i64("i64", -64, plain, 0)
        .add_u64("u64", u64::MAX, plain, 0)
        .add_isize("isize", -7, plain, 0)
        .add_usize("usize", 7, plain, 0)
        .add_f32("f32", 1.5, plain, 0)
        .add_f64("f64", -2.25, plain, 0)
        .add_bool32("bool32", 1, plain, 0)
        .add_hex32("hex32", 0x12345678, plain, 0)
        .add_hex64("hex64", 0x123456789, plain, 0)
        .add_hexsize("hexsize", 0x77, plain, 0)
        .add_guid("guid", &guid, plain, 0)
        .add_sid("sid", SID, plain, 0)
        .add_binary("binary", [1, 2, 3], plain, 0)
        .add_binaryc("binaryc", [1, 2, 3], plain, 0)
        .add_filetime("filetime", FILE_TIME, plain, 0)
        .add_systemtime("systemtime", &SYSTEM_TIME, plain, 0)
        .add_cstr8("cstr8", "zero", OutType::Utf8, 0)
        .add_cstr16("cstr16", WIDE, plain, 0)
        .add_str8("str8", "counted", OutType::Utf8, 0)
        .add_str16("str16", WIDE, plain, 0)
        .write(&provider, None, None);
    event
        .reset("Sequences", Level::Verbose, 1, 0)
        .add_i8_sequence("i8", &[-1, 2], plain, 0)
        .add_u8_sequence("u8", &[1, 2], plain, 0)
        .add_i16_sequence("i16", &[-1, 2], plain, 0)
        .add_u16_sequence("u16", &[1, 2], plain, 0)
        .add_i32_sequence("i32", &[-1, 2], plain, 0)
        .add_u32_sequence("u32", &[1, 2], plain, 0)
        .add_i64_sequence("i64", &[-1, 2], plain, 0)
        .add_u64_sequence("u64", &[1, 2], plain, 0)
        .add_isize_sequence("isize", &[-1, 2], plain, 0)
        .add_usize_sequence("usize", &[1, 2], plain, 0)
        .add_f32_sequence("f32", &[0.5, 1.5], plain, 0)
        .add_f64_sequence("f64", &[0.5, 1.5], plain, 0)
        .add_bool32_sequence("bool32", &[1, 0], plain, 0)
        .add_hex32_sequence("hex32", &[1, 0x20], plain, 0)
        .add_hex64_sequence("hex64", &[1, 0x20], plain, 0)
        .add_hexsize_sequence("hexsize", &[1, 0x20], plain, 0)
        .add_guid_sequence("guid", &[guid, guid], plain, 0)
        .add_sid_sequence("sid", [SID, SID], plain, 0)
        .add_filetime_sequence("filetime", &[FILE_TIME], plain, 0)
        .add_systemtime_sequence("systemtime", &[SYSTEM_TIME], plain, 0)
        .add_cstr8_sequence("cstr8", ["a", "b"], OutType::Utf8, 0)
        .add_cstr16_sequence("cstr16", [WIDE, WIDE], plain, 0)
        .add_str8_sequence("str8", ["a", "b"], OutType::Utf8, 0)
        .add_str16_sequence("str16", [WIDE, WIDE], plain, 0)
        .add_binaryc_sequence("binaryc", [[1, 2], [3, 4]], plain, 0)
        .write(&provider, None, None);
    event
        .reset("Structures", Level::Verbose, 1, 0)
        .add_u8("before", 1, plain, 0)
        .add_struct("outer", 2, 0)
        .add_u8("a", 2, plain, 0)
        .add_struct("inner", 1, 0)
        .add_str8("b", "deep", OutType::Utf8, 0)
        .add_u8("after", 5, plain, 0)
        .write(&provider, None, None);
}
