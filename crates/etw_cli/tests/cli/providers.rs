//! `etw provider search|show|diff` over the schemas of Windows.

use serde_json::Value;

use crate::{Etw, json_lines};

const MANIFEST: &str = r##"<instrumentationManifest xmlns="http://schemas.microsoft.com/win/2004/08/events">
 <instrumentation><events>
  <provider name="Contoso-Zebra" guid="{11111111-2222-3333-4444-555555555555}" symbol="C">
   <keywords><keyword name="ZebraIo" mask="0x20"/></keywords>
   <maps><valueMap name="ZebraState"><map value="3" message="$(string.On)"/></valueMap></maps>
   <templates><template tid="T"><data name="ZebraCount" inType="win:UInt32"/><data name="State" inType="win:UInt8" map="ZebraState"/></template></templates>
   <events><event value="7" template="T" symbol="Started"/><event value="7" version="1" template="T" symbol="Started"/></events>
  </provider>
 </events></instrumentation>
 <localization><resources culture="en-US"><stringTable><string id="On" value="Zebra awake"/></stringTable></resources></localization>
</instrumentationManifest>"##;

#[test]
fn names_of_every_kind_are_found_in_every_source() {
    let etw = Etw::new();
    std::fs::write(etw.path("zebra.man"), MANIFEST).unwrap();
    let find = |args: &[&str]| -> Vec<Value> {
        json_lines(
            &etw.ok(&[&["provider", "search", "--schema", "zebra.man", "--format", "json"], args].concat()),
        )
    };
    let kinds = |found: &[Value]| -> Vec<String> {
        found.iter().map(|thing| thing["Kind"].as_str().unwrap().to_owned()).collect()
    };
    let found = find(&["CONTOSO", "zebra"]);
    assert_eq!(kinds(&found), ["provider", "field", "keyword", "map", "map"]);
    let found = find(&["zebra"]);
    assert_eq!(kinds(&found), ["provider", "field", "keyword", "map", "map"]);
    assert_eq!(
        (&found[1]["Field"], &found[1]["Type"]),
        (&"ZebraCount".into(), &"UInt32 as xs:unsignedInt".into())
    );
    assert_eq!((&found[1]["EventID"], &found[1]["Versions"]), (&7.into(), &serde_json::json!([0, 1])));
    assert_eq!((&found[2]["Keyword"], &found[2]["Mask"]), (&"ZebraIo".into(), &"0x20".into()));
    assert_eq!((&found[4]["Text"], &found[4]["Value"]), (&"Zebra awake".into(), &"3".into()));
    assert_eq!(kinds(&find(&["--keyword", "--map", "zebra"])), ["keyword", "map", "map"]);
    let text = etw.ok(&["provider", "search", "--schema", "zebra.man", "zebracount"]);
    assert!(text.starts_with("field  Contoso-Zebra  7 version 0,1 Started  ZebraCount  UInt32"), "{text}");

    // Everything must match: the field's own name, and the provider that has it.
    let dns = find(&["--field", "dns-client", "queryname"]);
    assert!(
        dns.iter().all(|thing| thing["Field"].as_str().unwrap().eq_ignore_ascii_case("QueryName")),
        "{dns:?}"
    );
    let known =
        |thing: &Value| thing["EventID"] == 3006 && thing["Provider"] == "Microsoft-Windows-DNS-Client";
    assert!(dns.iter().any(known), "{dns:?}");
    // Classic classes have opcodes.
    let classic = find(&["--field", "ImageFileName"]);
    assert!(
        classic.iter().any(|thing| thing["Provider"] == "Process" && thing["Opcode"] == 1),
        "{classic:?}"
    );
}

#[test]
fn a_provider_is_shown_with_the_releases_of_each_layout() {
    let etw = Etw::new();
    let show = |args: &[&str]| {
        let all = [&["provider", "show", "Microsoft-Windows-DNS-Client", "--format", "json"], args].concat();
        json_lines(&etw.ok(&all))
    };
    let events = |shown: Vec<Value>| -> Vec<Value> {
        shown
            .into_iter()
            .flat_map(|source| source["Events"].as_array().cloned().unwrap_or_default())
            .collect()
    };
    let query = events(show(&["--event", "3006.0"]));
    assert!(!query.is_empty() && query.iter().all(|event| event["EventID"] == 3006 && event["Version"] == 0));
    assert!(query[0]["Releases"].as_array().unwrap().contains(&"11 24H2".into()), "{query:?}");
    assert_eq!(query[0]["Fields"][0]["Name"], "QueryName");
    let of_release = |release: &str| events(show(&["--release", release]));
    let (old, new) = (of_release("10-1507"), of_release("11-24H2"));
    for event in &new {
        assert!(event["Releases"].as_array().unwrap().contains(&"11 24H2".into()), "{event}");
    }
    assert!(old.len() < new.len(), "{} and {} events", old.len(), new.len());
    // A build between two releases has the layouts of the release before it.
    assert_eq!(of_release("26199"), new);
    let text = etw.ok(&[
        "provider",
        "show",
        "Microsoft-Windows-DNS-Client",
        "--event",
        "3006",
        "--release",
        "26100",
    ]);
    assert!(text.starts_with("Windows 11 24H2 (26100)\n") && text.contains("      Windows 10 "), "{text}");
}

#[test]
fn the_guid_of_an_unknown_name_is_told() {
    let etw = Etw::new();
    let (status, error) = etw.fails(&["provider", "show", "MyCompany.MyComponent"]);
    assert_eq!(status, 1);
    assert!(error.contains("unknown provider 'MyCompany.MyComponent'"), "{error}");
    let guid = openetw::Guid::from_provider_name("MyCompany.MyComponent").to_string();
    assert!(error.contains(&guid), "{error}");
    let (_, error) = etw.fails(&["provider", "show", "{3df1dd72-8f4d-4c4a-9f3f-0123456789ab}"]);
    assert!(error.starts_with("etw: unknown provider '{3df1dd72-8f4d-4c4a-9f3f-0123456789ab}'; "), "{error}");
}

#[test]
fn what_is_inferred_or_unknown_is_marked() {
    let etw = Etw::new();
    let shown = json_lines(&etw.ok(&["provider", "show", "Microsoft-Windows-TCPIP", "--format", "json"]));
    let events = || shown.iter().filter_map(|source| source["Events"].as_array()).flatten();
    let fields = || events().flat_map(|event| event["Fields"].as_array().unwrap());
    assert!(fields().any(|field| field["Unknown"] == true), "no field of unknown length");
    let inferred = events().find(|event| event["Inferred"].is_object()).expect("nothing is inferred");
    let from = &inferred["Inferred"]["From"];
    assert!(inferred["Fields"].as_array().unwrap().iter().any(|field| field["Name"] == *from), "{inferred}");
    let text = etw.ok(&["provider", "show", "Microsoft-Windows-TCPIP"]);
    assert!(text.contains(&format!("inferred from {} on: ", from.as_str().unwrap())), "{from}");
    assert!(text.contains("unknown length or members"));
}

#[test]
fn two_releases_are_compared() {
    let etw = Etw::new();
    let diff = |from: &str, to: &str| {
        let args = ["provider", "diff", "Microsoft-Windows-DNS-Client", from, to];
        let json = json_lines(&etw.ok(&[&args[..], &["--format", "json"]].concat())).remove(0);
        (etw.ok(&args), json)
    };
    let count = |json: &Value, key: &str| json[key].as_array().unwrap().len();
    let (text, forth) = diff("7600", "11-24H2");
    assert_eq!((&forth["From"]["Name"], &forth["To"]["Build"]), (&"7".into(), &26_100.into()));
    assert!(text.contains("Windows 7 (7600) to 11 24H2 (26100)\n"), "{text}");
    assert!(count(&forth, "Added") > 0, "{text}");
    for added in forth["Added"].as_array().unwrap() {
        let line = format!("+ {} version {}  ", added["EventID"], added["Version"]);
        assert!(text.lines().any(|known| known.starts_with(line.trim_end())), "{line}: {text}");
    }
    let (_, back) = diff("11-24H2", "7");
    assert_eq!(
        (count(&forth, "Added"), count(&forth, "Gone"), count(&forth, "Changed")),
        (count(&back, "Gone"), count(&back, "Added"), count(&back, "Changed"))
    );
    assert!(diff("10-22H2", "19045").0.ends_with("  no difference\n"));
}

#[test]
fn a_built_in_provider_is_exported_as_a_manifest_that_is_read_back() {
    let etw = Etw::new();
    let events = |args: &[&str]| -> Vec<Value> {
        let shown = json_lines(&etw.ok(&[args, &["--format", "json"]].concat()));
        let sources = shown.iter().filter_map(|source| source["Events"].as_array());
        let mut events: Vec<Value> = sources.flatten().cloned().collect();
        // A template ends before a field of unknown length.
        for fields in events.iter_mut().map(|event| event["Fields"].as_array_mut().unwrap()) {
            let end = fields.iter().position(|field| field["Unknown"] == true).unwrap_or(fields.len());
            fields.truncate(end);
        }
        events
    };
    let name = "Microsoft-Windows-DNS-Client";
    etw.ok(&["schema", "export", name, "-o", "dns.man"]);
    let text = std::fs::read_to_string(etw.path("dns.man")).unwrap();
    let mut reader = quick_xml::Reader::from_str(&text);
    while !matches!(reader.read_event().unwrap(), quick_xml::events::Event::Eof) {}
    etw.ok(&["schema", "add", "dns.man", "--store", "other"]);
    let read = events(&["schema", "show", name, "--store", "other"]);
    let written = events(&["provider", "show", name, "--release", "11-26H1"]);
    assert!(written.len() > 100, "{} events", written.len());
    for event in &written {
        let same =
            |other: &&Value| other["EventID"] == event["EventID"] && other["Version"] == event["Version"];
        let other = read.iter().find(same).unwrap_or_else(|| panic!("not read: {event}"));
        for key in ["Level", "Task", "Opcode", "Keywords"] {
            assert_eq!(other[key], event[key], "{event}");
        }
        // A value whose out-type is not known has that of its in-type.
        let plain = |event: &Value| -> Vec<(String, String)> {
            let text = |field: &Value, key: &str| field[key].as_str().unwrap().to_owned();
            let in_type = |field: &Value| text(field, "Type").split(" as ").next().unwrap().to_owned();
            let fields = event["Fields"].as_array().unwrap().iter();
            fields.map(|field| (text(field, "Name"), in_type(field))).collect()
        };
        assert_eq!(plain(other), plain(event));
    }
}
