//! `etw report --table http` of requests of WinINet, WinHTTP and HTTP.sys, whose layouts are built in.

use std::fs::File;

use openetw::etl::encode::RecordBuilder;
use openetw::etl::{EtlWriter, WriterOptions};
use openetw::{Clock, ClockType, EventDescriptor, FileTime, Guid, PointerSize, Ticks};
use serde_json::{Value, json};

use crate::{Etw, json_lines};

const START: FileTime = FileTime(133_000_000_000_000_000);
const WININET: Guid = Guid::from_u128(0x43d1a55c_76d6_4f7e_995c_64c711e5cafe);
const WEBIO: Guid = Guid::from_u128(0x50b3e73c_9370_461d_bb9f_26f32d68887d);
const HTTP_SERVICE: Guid = Guid::from_u128(0xdd5ef90a_6398_47a4_ad34_4dcecdef795f);

/// A part of a payload.
fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

fn narrow(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

fn word(number: u64) -> Vec<u8> {
    number.to_le_bytes().to_vec()
}

/// Events at times in microseconds: provider, id, version, process and payload.
type Written = (i64, Guid, u16, u8, u32, Vec<u8>);

fn write(path: &str, events: &[Written]) {
    let clock = Clock::new(ClockType::Qpc, Ticks(0), START, 10_000_000);
    let mut writer =
        EtlWriter::new(File::create(path).unwrap(), WriterOptions::new(clock, 0x10000, 1)).unwrap();
    for (micros, provider, id, version, process, payload) in events {
        let descriptor = EventDescriptor { id: *id, version: *version, ..EventDescriptor::default() };
        let record = RecordBuilder::event(PointerSize::Eight, *provider, &descriptor).process(*process, 7);
        writer.write(0, &record.time(Ticks(micros * 10)).payload(payload).build().unwrap()).unwrap();
    }
    writer.finish(clock.to_filetime(Ticks(1_000_000))).unwrap();
}

fn rows(etw: &Etw, path: &str) -> Vec<Value> {
    let report = json_lines(&etw.ok(&["report", path, "--table", "http", "--format", "json"])).remove(0);
    let rows = report["tables"]["http"]["rows"].as_array().unwrap();
    let keys = ["process_id", "source", "method", "host", "path", "count", "failed", "unfinished", "time_ns"];
    rows.iter().map(|row| keys.iter().map(|key| row[key].clone()).collect()).collect()
}

#[test]
fn requests_of_wininet() {
    let etw = Etw::new();
    let start = |at, object, url: &str| (at, WININET, 1007, 0, 50, [word(object), narrow(url)].concat());
    let stop = |at, object, line: &str| {
        let length = (line.len() as u32).to_le_bytes();
        (at, WININET, 1008, 0, 50, [&word(object)[..], &length, line.as_bytes()].concat())
    };
    let events = [
        start(100, 1, "http://a.example:80/x?1"),
        start(200, 2, "https://b.example/y"),
        stop(700, 1, "HTTP/1.1 200 OK"),
        // The object is used again.
        start(800, 1, "http://a.example/x?2"),
        stop(900, 2, "HTTP/1.1 404 Not Found"),
        start(1000, 3, "http://a.example/never"),
        stop(1300, 1, ""),
    ];
    write(&etw.path("w.etl"), &events);
    let expected = [
        json!([50, "WinINet", null, "http://a.example", "/x", 2, 1, 0, 1_100_000]),
        json!([50, "WinINet", null, "https://b.example", "/y", 1, 1, 0, 700_000]),
        json!([50, "WinINet", null, "http://a.example", "/never", 1, 0, 1, null]),
    ];
    assert_eq!(rows(&etw, "w.etl"), expected);
}

#[test]
fn requests_of_winhttp() {
    let etw = Etw::new();
    let create = |at, object, method: &str, url: &str| {
        let ids = [word(object), word(object + 100), word(1), word(2)].concat();
        let payload = [ids, narrow(method), wide(url), vec![1, 0, 1, 0, 0, 0, 0, 0]].concat();
        (at, WEBIO, 17, 0, 60, payload)
    };
    let send = |at, object: u64| {
        let payload = [&word(object)[..], &word(object + 100), &[0; 4], &word(0), &[0; 4], &word(0), &[0; 4]];
        (at, WEBIO, 130, 0, 60, payload.concat())
    };
    let headers = |at, object, text: &str| {
        let length = (text.len() as u16).to_le_bytes();
        (at, WEBIO, 101, 0, 60, [&word(object)[..], &length, text.as_bytes()].concat())
    };
    let response = |at, object, error: u32| {
        (at, WEBIO, 134, 0, 60, [&word(object)[..], &[0; 4], &error.to_le_bytes(), &word(0)].concat())
    };
    let events = [
        create(100, 1, "GET", "https://c.example:8443/z"),
        send(200, 1),
        headers(450, 1, "HTTP/1.1 200 OK\r\nServer: x\r\n"),
        response(500, 1, 0),
        create(600, 2, "POST", "https://c.example:8443/z"),
        send(600, 2),
        headers(900, 2, "HTTP/1.1 500 Internal Server Error\r\n"),
        response(1000, 2, 0),
        create(2000, 3, "GET", "https://c.example:8443/z"),
        response(2100, 3, 12029),
    ];
    write(&etw.path("w.etl"), &events);
    let expected = [
        json!([60, "WinHTTP", "GET", "https://c.example:8443", "/z", 2, 1, 0, 400_000]),
        json!([60, "WinHTTP", "POST", "https://c.example:8443", "/z", 1, 1, 0, 400_000]),
    ];
    assert_eq!(rows(&etw, "w.etl"), expected);
}

#[test]
fn requests_that_http_sys_receives() {
    let etw = Etw::new();
    let receive = |at, id| {
        (at, HTTP_SERVICE, 1, 0, 4, [&word(id)[..], &word(9), &2_u32.to_le_bytes(), &[2, 0]].concat())
    };
    let parse = |at, object, verb: u32, url: &str| {
        (at, HTTP_SERVICE, 2, 0, 4, [&word(object)[..], &verb.to_le_bytes(), &wide(url)].concat())
    };
    let deliver = |at, object, id, url: &str| {
        let payload =
            [&word(object)[..], &word(id), &[1, 0, 0, 0], &wide("Pool"), &wide(url), &[0; 4]].concat();
        (at, HTTP_SERVICE, 3, 0, 4, payload)
    };
    let respond = |at, id, status: u16| {
        let payload =
            [&word(id)[..], &word(9), &status.to_le_bytes(), &narrow("GET"), &[0; 4], &[0; 2], &[0; 4]];
        (at, HTTP_SERVICE, 4, 0, 70, payload.concat())
    };
    let sent =
        |at, id, status: u16| (at, HTTP_SERVICE, 10, 0, 4, [&word(id)[..], &status.to_le_bytes()].concat());
    let url = "http://server.example:80/app?a=1";
    let events = [
        // Its start is not in the trace.
        sent(50, 99, 200),
        receive(100, 1),
        parse(110, 0x1000, 4, url),
        deliver(120, 0x1000, 1, url),
        receive(130, 2),
        parse(140, 0x2000, 6, url),
        deliver(150, 0x2000, 2, url),
        respond(400, 1, 200),
        sent(600, 1, 200),
        respond(700, 2, 503),
        sent(830, 2, 503),
        // From the cache.
        receive(1000, 3),
        parse(1010, 0x1000, 4, "http://server.example:80/logo"),
        (
            1100,
            HTTP_SERVICE,
            16,
            1,
            4,
            [&word(0x1000)[..], &[0; 4], &[9, 0, 0, 0], &word(3), &narrow("")].concat(),
        ),
    ];
    write(&etw.path("w.etl"), &events);
    let expected = [
        json!([70, "HTTP.sys", "POST", "http://server.example", "/app", 1, 1, 0, 700_000]),
        json!([70, "HTTP.sys", "GET", "http://server.example", "/app", 1, 0, 0, 500_000]),
        json!([4, "HTTP.sys", "GET", "http://server.example", "/logo", 1, 0, 0, 100_000]),
    ];
    assert_eq!(rows(&etw, "w.etl"), expected);
}
