//! Schemas on the command line.

use super::{Etw, json_lines};

const MANIFEST: &str = r##"<?xml version="1.0" encoding="UTF-8"?>
<instrumentationManifest xmlns="http://schemas.microsoft.com/win/2004/08/events">
 <instrumentation><events>
  <provider name="Contoso-Service" guid="{11111111-2222-3333-4444-555555555555}" symbol="C" resourceFileName="x" messageFileName="x">
   <keywords><keyword name="Io" mask="0x1"/></keywords>
   <maps><valueMap name="State"><map value="1" message="$(string.On)"/></valueMap></maps>
   <templates><template tid="T"><data name="Count" inType="win:UInt32"/><data name="State" inType="win:UInt8" map="State"/></template></templates>
   <events><event value="7" version="2" level="win:Warning" template="T" keywords="Io" symbol="Started"/></events>
  </provider>
 </events></instrumentation>
 <localization><resources culture="en-US"><stringTable><string id="On" value="Switched on"/></stringTable></resources></localization>
</instrumentationManifest>"##;

#[test]
fn the_store_keeps_what_is_added() {
    let etw = Etw::new();
    assert_eq!(etw.ok(&["schema", "list"]), "");
    std::fs::create_dir(etw.path("in")).unwrap();
    std::fs::write(etw.path("in/service.man"), MANIFEST).unwrap();
    std::fs::write(etw.path("in/broken.man"), "<instrumentationManifest><oops").unwrap();
    let added = etw.run(&["schema", "add", "in"]);
    let (out, err) = (String::from_utf8(added.stdout).unwrap(), String::from_utf8(added.stderr).unwrap());
    assert!(added.status.success(), "{err}");
    assert!(out.contains("service.man: manifest: Contoso-Service"), "{out}");
    assert!(out.contains("added 1 providers with 1 events"), "{out}");
    assert!(err.contains("broken.man: line 1, column"), "{err}");
    for format in ["text", "json"] {
        assert!(etw.ok(&["schema", "list", "--format", format]).contains("Contoso-Service"));
    }
    let shown = json_lines(&etw.ok(&["schema", "show", "contoso-service", "--format", "json"])).remove(0);
    let event = &shown["Events"][0];
    assert_eq!((&event["EventID"], &event["Version"], &event["Level"]), (&7.into(), &2.into(), &3.into()));
    assert_eq!(event["Fields"][1]["Map"], "State");
    assert_eq!(shown["Maps"][0]["Entries"][0]["Text"], "Switched on");
    let text = etw.ok(&["provider", "show", "{11111111-2222-3333-4444-555555555555}", "--event", "7"]);
    assert!(
        text.contains("Started") && text.contains("level 3 Warning") && text.contains("UInt32"),
        "{text}"
    );

    etw.ok(&["schema", "export", "Contoso-Service", "-o", "out.man"]);
    etw.ok(&["schema", "add", "out.man", "--store", "other"]);
    let again =
        json_lines(&etw.ok(&["schema", "show", "Contoso-Service", "--store", "other", "--format", "json"]));
    assert_eq!(again[0]["Events"][0]["Fields"], event["Fields"]);
}

#[test]
fn a_manifest_with_errors_is_added_as_a_whole_or_not_at_all() {
    let etw = Etw::new();
    let faulty =
        MANIFEST.replace("template=\"T\"", "template=\"Tee\"").replace("map=\"State\"", "map=\"Stat\"");
    std::fs::write(etw.path("faulty.man"), faulty).unwrap();
    let output = etw.run(&["schema", "add", "faulty.man"]);
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(err.contains("line 7, ") && err.contains("line 8, "), "{err}");
    assert!(err.contains("nothing of it is added, since it has errors (2)"), "{err}");
    assert_eq!(etw.ok(&["schema", "list"]), "");
    etw.ok(&["schema", "add", "faulty.man", "--partial"]);
    assert!(etw.ok(&["schema", "list"]).contains("Contoso-Service"));
}

#[test]
fn what_holds_no_schema_is_an_error() {
    let etw = Etw::new();
    std::fs::write(etw.path("notes.txt"), "no schema").unwrap();
    let output = etw.run(&["schema", "add", "notes.txt"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("notes.txt: not a schema source"));
}

#[test]
fn a_provider_is_shown_with_the_versions_of_all_sources() {
    let etw = Etw::new();
    let kernel_process = MANIFEST
        .replace("Contoso-Service", "Microsoft-Windows-Kernel-Process")
        .replace("11111111-2222-3333-4444-555555555555", "22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716")
        .replace("value=\"7\" version=\"2\"", "value=\"1\" version=\"3\"");
    std::fs::write(etw.path("p.man"), kernel_process).unwrap();
    etw.ok(&["schema", "add", "p.man"]);
    let show = ["provider", "show", "Microsoft-Windows-Kernel-Process", "--event", "1", "--format", "json"];
    let versions: Vec<Vec<u64>> = json_lines(&etw.ok(&show))
        .iter()
        .map(|source| {
            let events = source["Events"].as_array().unwrap();
            events.iter().map(|event| event["Version"].as_u64().unwrap()).collect()
        })
        .collect();
    // Windows' version 3 has another layout than that of the store.
    assert_eq!(versions, [vec![3], vec![0, 1, 2, 4, 5], vec![3]]);
}

#[test]
fn built_in_providers_are_listed_and_shown() {
    let etw = Etw::new();
    let list = etw.ok(&["provider", "list"]);
    assert!(
        list.contains("{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} Microsoft-Windows-Kernel-Process (built in)"),
        "{list}"
    );
    let shown = etw.ok(&["provider", "show", "Microsoft-Windows-Kernel-Process", "--event", "1"]);
    assert!(
        shown.contains("ProcessStart") && shown.contains("ImageName") && shown.contains("UnicodeString"),
        "{shown}"
    );
    let class = etw.ok(&["provider", "show", "Process"]);
    assert!(class.contains("class of Windows Kernel Trace") && class.contains("ImageFileName"), "{class}");
    let kernel = json_lines(&etw.ok(&["provider", "show", "Windows Kernel Trace", "--format", "json"]));
    assert!(kernel.len() > 10, "{} classes", kernel.len());
    let some = json_lines(&etw.ok(&["provider", "list", "KERNEL-process", "--format", "json"]));
    assert!(
        some.iter().any(|row| row["Name"] == "Microsoft-Windows-Kernel-Process") && some.len() < 5,
        "{some:?}"
    );
}
