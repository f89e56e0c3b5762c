//! A Windows system on a disk: `etw schema add C/Windows`.

use std::fs::File;
use std::path::Path;

use etw_testkit::compiled_manifest::{compiled_manifest_of, message_table_of};
use etw_testkit::hive::{self, Publisher};
use etw_testkit::pe::{self, ResourceType};
use openetw::etl::encode::RecordBuilder;
use openetw::etl::{EtlWriter, WriterOptions};
use openetw::{Clock, ClockType, EventDescriptor, FileTime, Guid, PointerSize, Ticks};

use super::{Etw, json_lines};

const NAMED: Guid = Guid::from_u128(0xA);
const UNNAMED: Guid = Guid::from_u128(0xB);
const OUTSIDE: Guid = Guid::from_u128(0xC);
const MISSING: Guid = Guid::from_u128(0xD);
const NOT_IN_ITS_FILE: Guid = Guid::from_u128(0xE);

fn write(etw: &Etw, path: &str, bytes: &[u8]) {
    let path = etw.path(path);
    std::fs::create_dir_all(Path::new(&path).parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

/// A PE file with a compiled manifest, and without messages.
fn program(guid: Guid, name: Option<&str>) -> Vec<u8> {
    pe::file(0, &[(ResourceType::Name("WEVT_TEMPLATE"), &compiled_manifest_of(guid, name))])
}

fn texts(message: &str) -> Vec<u8> {
    pe::file(0x407, &[(ResourceType::Name("MUI"), b"x"), (ResourceType::Id(11), &message_table_of(message))])
}

fn publisher(guid: Guid, name: &str, resource_file: &str, message_file: &str) -> Publisher {
    Publisher {
        guid,
        name: name.to_owned(),
        resource_file: resource_file.to_owned(),
        message_file: message_file.to_owned(),
    }
}

/// Writes the tree `C`; the files of Windows in it are in `C/Windows`.
fn write_windows(etw: &Etw) {
    let named = program(NAMED, Some("Contoso-Named"));
    write(etw, "C/Windows/System32/named.dll", &named);
    write(etw, "C/Windows/System32/en-US/named.dll.mui", &texts("%1 items"));
    write(etw, "C/Windows/System32/de-DE/Named.dll.MUI", &texts("%1 Dinge"));
    write(etw, "C/Windows/SysWOW64/named.dll", &named);
    write(etw, "C/Windows/WinSxS/old/named.dll", &named);
    write(etw, "C/Windows/System32/drivers/unnamed.sys", &program(UNNAMED, None));
    write(etw, "C/Windows/System32/texts.dll", &texts("%1 texts"));
    write(etw, "C/Program Files/Contoso/outside.dll", &program(OUTSIDE, Some("Contoso-Outside")));
    write(etw, "C/Program Files/Contoso/fr-FR/outside.dll.mui", &texts("%1 choses"));
    write(etw, "C/Windows/System32/plain.dll", &texts("no template"));
    write(etw, "C/Windows/System32/notes.xml", b"<notes/>");
    let registry = [
        publisher(
            NAMED,
            "Contoso-Named",
            "%SystemRoot%\\system32\\NAMED.dll",
            "%SystemRoot%\\system32\\named.dll",
        ),
        publisher(
            UNNAMED,
            "Contoso-Unnamed",
            "C:\\Windows\\System32\\Drivers\\Unnamed.sys",
            "%windir%\\System32\\TEXTS.dll",
        ),
        publisher(OUTSIDE, "Contoso-Outside", "%ProgramFiles%\\contoso\\outside.dll", ""),
        publisher(MISSING, "Contoso-Missing", "%SystemRoot%\\System32\\missing.dll", ""),
        publisher(NOT_IN_ITS_FILE, "Contoso-Other", "%SystemRoot%\\System32\\plain.dll", ""),
    ];
    write(etw, "C/Windows/System32/config/SOFTWARE", &hive::software(&registry));
}

/// Writes a trace with event 5 of each provider: one item with the number 7 and the flag 4.
fn write_trace(path: &str) {
    let clock = Clock::new(ClockType::Qpc, Ticks(1000), FileTime(133_000_000_000_000_000), 10_000_000);
    let options = WriterOptions::new(clock, 0x10000, 1);
    let mut writer = EtlWriter::new(File::create(path).unwrap(), options).unwrap();
    let payload =
        [&[1, 0][..], &[7, 0, 0, 0, 0, 0, 0, 0], &[4, 0, 0, 0], &[2, 0, 0, 0], &[0xAB, 0xCD]].concat();
    for (time, guid) in [(2000, NAMED), (3000, UNNAMED), (4000, OUTSIDE)] {
        let descriptor = EventDescriptor { id: 5, version: 1, channel: 16, ..EventDescriptor::default() };
        let record = RecordBuilder::event(PointerSize::Eight, guid, &descriptor)
            .time(Ticks(time))
            .payload(&payload)
            .build()
            .unwrap();
        writer.write(0, &record).unwrap();
    }
    writer.finish(clock.to_filetime(Ticks(5000))).unwrap();
}

#[test]
fn all_providers_of_a_windows_system_with_their_messages() {
    let etw = Etw::new();
    write_windows(&etw);
    write_trace(&etw.path("a.etl"));
    let decoded = |store: &str| {
        let events = json_lines(&etw.ok(&["dump", "a.etl", "--format", "json", "--store", store]));
        let of = |event: &serde_json::Value| {
            assert_eq!(event["EventData"]["Items"][0]["Id"], 7, "{event}");
            let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
            (text(&event["System"]["Provider"]["Name"]), text(&event["Message"]))
        };
        let is_user = |event: &&serde_json::Value| event["System"]["EventID"] == 5;
        events.iter().filter(is_user).map(of).collect::<Vec<_>>()
    };
    let expected = |message: &str| {
        [("Contoso-Named", message), ("Contoso-Unnamed", "1 texts"), ("Contoso-Outside", "1 choses")]
            .map(|(name, message)| (name.to_owned(), message.to_owned()))
    };

    let out = etw.ok(&["schema", "add", "C/Windows", "--language", "de-DE", "--store", "german"]);
    assert_eq!(decoded("german"), expected("1 Dinge"));
    let unnamed = format!("drivers/unnamed.sys: compiled manifest: Contoso-Unnamed {UNNAMED}, 2 events");
    assert!(out.contains(&unnamed), "{out}");
    let missing =
        format!("not described: Contoso-Missing {MISSING}, %SystemRoot%\\System32\\missing.dll is missing");
    assert!(out.contains(&missing), "{out}");
    let other =
        format!("Contoso-Other {NOT_IN_ITS_FILE}, %SystemRoot%\\System32\\plain.dll does not describe it");
    assert!(out.contains(&other), "{out}");
    assert!(out.contains("the registry lists 5 publishers; 2 of them are not described\n"), "{out}");
    // Of the three copies of one file, one is kept.
    assert!(
        out.contains("read 11 files; added 3 providers with 6 events (3 with messages) to german\n"),
        "{out}"
    );

    etw.ok(&["schema", "add", "C/Windows", "--store", "english"]);
    assert_eq!(decoded("english"), expected("1 items"));
    // A copied directory, and names in other case.
    etw.ok(&["schema", "add", "C/Windows/System32", "--language", "DE-de", "--store", "copied"]);
    assert_eq!(decoded("copied"), expected("1 Dinge"));
}

#[cfg(unix)]
#[test]
fn bad_files_are_reported_and_cost_only_themselves() {
    use std::os::unix::fs::symlink;

    let etw = Etw::new();
    write_windows(&etw);
    let whole = program(NAMED, Some("Contoso-Named"));
    write(&etw, "C/Windows/System32/cut.dll", &whole[..whole.len() - 200]);
    write(&etw, "C/Windows/System32/head.dll", &whole[..0x50]);
    std::fs::remove_file(etw.path("C/Windows/System32/de-DE/Named.dll.MUI")).unwrap();
    write(&etw, "C/Windows/System32/de-DE/named.dll.mui", &texts("%1 Dinge")[..0x220]);
    symlink("..", etw.path("C/Windows/System32/cycle")).unwrap();
    symlink("nowhere", etw.path("C/Windows/System32/dangling.dll")).unwrap();
    let mut hive = std::fs::read(etw.path("C/Windows/System32/config/SOFTWARE")).unwrap();
    let name = OUTSIDE.to_string();
    let key = hive.windows(name.len()).position(|part| part == name.as_bytes()).unwrap();
    hive[key] = b'?';
    write(&etw, "C/Windows/System32/config/SOFTWARE", &hive);

    let output = etw.run(&["schema", "add", "C/Windows", "--language", "de-DE"]);
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{err}");
    for (file, problem) in [
        ("cut.dll", "damaged PE file"),
        ("head.dll", "damaged PE file"),
        ("named.dll", "no messages from C/Windows/System32/de-DE/named.dll.mui: the file is cut short"),
        ("de-DE/named.dll.mui", "damaged PE file"),
        ("cycle", "a link to a directory; not followed"),
        ("dangling.dll", "a link that leads nowhere"),
        ("config/SOFTWARE", "the name of a publisher's key is not a GUID"),
    ] {
        let line = format!("C/Windows/System32/{file}: ");
        let found = err.lines().find(|text| text.contains(&line) && text.contains(problem));
        assert!(found.is_some(), "{file}: {problem}: {err}");
    }
    assert!(out.contains("added 2 providers with 4 events") && out.contains("; 7 problems\n"), "{out}{err}");

    // Without a hive, names that only the registry has are missing.
    write(&etw, "C/Windows/System32/config/SOFTWARE", b"regf");
    let output = etw.run(&["schema", "add", "C/Windows", "--store", "other"]);
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{err}");
    assert!(err.contains("config/SOFTWARE: damaged registry hive"), "{err}");
    assert!(out.contains(&format!("unnamed.sys: compiled manifest: {UNNAMED} {UNNAMED}, 2 events")), "{out}");
}
