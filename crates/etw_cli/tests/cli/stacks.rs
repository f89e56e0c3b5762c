//! Stacks of single events with names: `etw dump --stacks` and conditions on `stack`.

use std::collections::BTreeMap;

use openetw::StackFrame;
use serde_json::{Value, json};

use crate::{Etw, csv_rows, json_lines};

const PERFVIEW: &str = "microsoft-perfview/net.4.5.2.x64.etl";

/// Returns the path of a real trace.
fn trace(name: &str) -> Option<String> {
    let mut traces = etw_testkit::data::traces()?.into_iter();
    Some(traces.find(|trace| trace.name == name)?.path.to_str().unwrap().to_owned())
}

fn dump(etw: &Etw, path: &str, args: &[&str]) -> Vec<Value> {
    json_lines(&etw.ok(&[&["dump", path, "--format", "json"], args].concat()))
}

fn frames(event: &Value) -> &[Value] {
    event["Stack"].as_array().map_or(&[], Vec::as_slice)
}

fn address(frame: &Value) -> u64 {
    u64::from_str_radix(frame["Address"].as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

/// Returns `module!function` of a frame, as conditions see it.
fn name(frame: &Value) -> Option<String> {
    let (module, function) = (frame["Module"].as_str(), frame["Function"].as_str());
    module.or(function)?;
    Some(StackFrame { module, function, ..StackFrame::default() }.to_string())
}

/// Returns a stack as a line of folded stacks has it, in a trace whose only functions with names are those of .NET.
fn folded(frames: &[Value]) -> Option<String> {
    let is_kernel = |frame: &Value| address(frame) >> 63;
    let label = |(index, frame): (usize, &Value)| {
        let is_return = index > 0 && is_kernel(&frames[index - 1]) == is_kernel(frame);
        if frame["Function"].is_string() {
            let name = name(frame).unwrap();
            return if frame["Module"].is_string() { name } else { format!("?!{name}") };
        }
        // Folded stacks have the instruction, dumps the address.
        match (frame["Module"].as_str(), frame["Offset"].as_u64()) {
            (Some(module), Some(offset)) => format!("{module}+{:#x}", offset.wrapping_sub(is_return.into())),
            _ => format!("{:#x}", address(frame).wrapping_sub(is_return.into())),
        }
    };
    let labels: Vec<String> = frames.iter().enumerate().map(label).collect();
    let lines: Vec<String> = labels.iter().rev().map(|label| label.replace(';', ":")).collect();
    (!lines.is_empty()).then(|| lines.join(";"))
}

/// Returns the stacks of a report without their processes.
fn reported(etw: &Etw, path: &str, args: &[&str]) -> BTreeMap<String, u64> {
    let mut stacks = BTreeMap::new();
    for line in etw.ok(&[&["report", path, "--format", "folded"], args].concat()).lines() {
        let (stack, count) = line.rsplit_once(' ').unwrap();
        let (_process, stack) = stack.split_once(';').unwrap();
        *stacks.entry(stack.to_owned()).or_default() += count.parse::<u64>().unwrap();
    }
    stacks
}

fn sums(stacks: impl Iterator<Item = (String, u64)>) -> BTreeMap<String, u64> {
    stacks.fold(BTreeMap::new(), |mut sums, (stack, count)| {
        *sums.entry(stack).or_default() += count;
        sums
    })
}

#[test]
fn single_events_have_the_stacks_that_reports_sum() {
    let etw = Etw::new();
    let mut stacks = 0;
    for name in [PERFVIEW, "microsoft-perfview/diaghub/diaghub.user_paged.1.etl.zst"] {
        let Some(path) = trace(name) else { continue };
        let events = dump(&etw, &path, &["--stacks"]);
        let shown = sums(events.iter().filter_map(|event| Some((folded(frames(event))?, 1))));
        let summed = reported(&etw, &path, &["--stacks", "events"]);
        println!("{name}: {} different stacks of {} events", shown.len(), shown.values().sum::<u64>());
        assert_eq!(shown, summed, "{name}");
        stacks += shown.len();
        // Without the option, nothing else differs.
        let mut without = events;
        without.iter_mut().for_each(|event| drop(event.as_object_mut().unwrap().remove("Stack")));
        assert!(without == dump(&etw, &path, &[]), "{name}");
    }
    if stacks > 0 {
        assert!(stacks > 2000, "{stacks}");
    }
}

#[test]
fn samples_have_the_stacks_of_the_profile() {
    let Some(path) = trace(PERFVIEW) else { return };
    let etw = Etw::new();
    let events = dump(&etw, &path, &["--stacks"]);
    let samples = events.iter().filter(|event| event["System"]["EventType"] == "PerfInfo/SampleProfile");
    let count = |event: &Value| event["EventData"]["Count"].as_u64().unwrap().max(1);
    let (with, without): (Vec<&Value>, Vec<&Value>) = samples.partition(|event| !frames(event).is_empty());
    let shown = sums(with.iter().map(|event| (folded(frames(event)).unwrap(), count(event))));
    let summed = reported(&etw, &path, &[]);
    // The report counts samples without stacks by their instructions.
    let whole = |stacks: &BTreeMap<String, u64>| -> BTreeMap<String, u64> {
        stacks
            .iter()
            .filter(|(stack, _)| stack.contains(';'))
            .map(|(stack, count)| (stack.clone(), *count))
            .collect()
    };
    assert_eq!(whole(&shown), whole(&summed));
    let all = |stacks: &BTreeMap<String, u64>| stacks.values().sum::<u64>();
    let alone: u64 = without.iter().map(|event| count(event)).sum();
    assert_eq!(all(&shown) + alone, all(&summed));
    assert!(all(&whole(&shown)) > 5000, "{}", all(&shown));
    // Methods of .NET, and places in images without symbols.
    let frames: Vec<&Value> = with.iter().flat_map(|event| frames(event)).collect();
    let method = |frame: &&&Value| frame["Function"].as_str().is_some_and(|name| name.starts_with("System."));
    assert!(frames.iter().filter(method).all(|frame| frame["Offset"].is_u64()));
    assert!(frames.iter().filter(method).count() > 1000);
    let bare = frames.iter().filter(|frame| frame["Module"].is_null()).count();
    println!("{bare} of {} frames are in no image", frames.len());
    assert!(bare * 20 < frames.len(), "{bare} of {}", frames.len());
}

#[test]
fn conditions_on_stacks() {
    let Some(path) = trace(PERFVIEW) else { return };
    let etw = Etw::new();
    let events = dump(&etw, &path, &["--stacks"]);
    let has = |event: &Value, part: &str| {
        let part = part.to_lowercase();
        frames(event).iter().filter_map(name).any(|name| name.to_lowercase().contains(&part))
    };
    let part = "MSCORLIB!system.";
    let wanted: Vec<&Value> = events.iter().filter(|event| has(event, part)).collect();
    assert!(wanted.len() > 1000 && wanted.len() < events.len() / 2, "{}", wanted.len());
    let condition = format!("stack contains '{part}'");
    let found = dump(&etw, &path, &["--stacks", "--where", &condition]);
    assert!(found.iter().eq(wanted.iter().copied()), "{} for {}", found.len(), wanted.len());
    // Joined without being shown.
    let hidden = dump(&etw, &path, &["--where", &condition, "--limit", "7"]);
    assert_eq!(hidden.len(), 7);
    assert!(hidden.iter().zip(&wanted).all(|(found, wanted)| {
        found["Stack"].is_null()
            && (&found["System"], &found["EventData"]) == (&wanted["System"], &wanted["EventData"])
    }));
    // The others, of which most have no stack; the limit counts what passes.
    let others = events.iter().filter(|event| !has(event, part));
    let found = dump(&etw, &path, &["--stacks", "--where", &format!("not {condition}"), "--limit", "300"]);
    assert!(found.iter().eq(others.take(300)), "{}", found.len());
    // With other conditions, and by other operators.
    let both = format!("{condition} and event == PerfInfo/SampleProfile and not stack contains 'ntoskrnl'");
    let is_both =
        |event: &&&Value| event["System"]["EventType"] == "PerfInfo/SampleProfile" && !has(event, "ntoskrnl");
    let count = wanted.iter().filter(is_both).count();
    assert!(count > 10 && count < wanted.len());
    assert_eq!(dump(&etw, &path, &["--where", &both]).len(), count);
    let method = frames(wanted[0]).iter().filter_map(name).find(|name| name.contains("mscorlib!")).unwrap();
    let same = |event: &&Value| frames(event).iter().filter_map(name).any(|name| name == method);
    let count = events.iter().filter(same).count();
    assert_eq!(dump(&etw, &path, &["--where", &format!("stack == '{method}'")]).len(), count);
    let with_one = events.iter().filter(|event| !frames(event).is_empty()).count();
    let differs = dump(&etw, &path, &["--where", &format!("stack != '{method}'")]).len();
    // Frames without any name are not compared.
    assert!(differs <= with_one - count && differs > (with_one - count) * 9 / 10, "{differs}");
    // The other commands with filters.
    let stats = json_lines(&etw.ok(&["stats", &path, "--where", &condition, "--format", "json"]));
    let sum: u64 = stats.iter().map(|row| row["events"].as_u64().unwrap()).sum();
    assert_eq!(sum, wanted.len() as u64);
    etw.ok(&["relog", &path, "-o", "some.etl", "--bare", "--where", &condition]);
    let kept = dump(&etw, "some.etl", &[]);
    // Bare, but with the log file header: without what decodes some of the payloads.
    let headers = |events: &mut dyn Iterator<Item = &Value>| -> Vec<Value> {
        let of_events = events.filter(|event| event["System"]["EventType"] != "EventTrace/Header");
        of_events.map(|event| json!([event["System"]["TimeCreated"], event["System"]["EventID"]])).collect()
    };
    assert_eq!(headers(&mut kept.iter()), headers(&mut wanted.iter().copied()));
}

#[test]
fn stacks_in_text_and_csv_and_where_there_are_none() {
    let Some(path) = trace(PERFVIEW) else { return };
    let etw = Etw::new();
    let filter = ["--where", "stack contains 'mscorlib!'", "--limit", "50"];
    let events = dump(&etw, &path, &[&["--stacks"][..], &filter].concat());
    let line = |frame: &Value| match (frame["Module"].as_str(), frame["Function"].as_str()) {
        (None, None) => frame["Address"].as_str().unwrap().to_owned(),
        _ => {
            name(frame).unwrap()
                + &frame["Offset"].as_u64().map_or(String::new(), |offset| format!("+{offset:#x}"))
        }
    };
    let expected: Vec<Vec<String>> =
        events.iter().map(|event| frames(event).iter().map(line).collect()).collect();
    let text = etw.ok(&[&["dump", &path, "--stacks"][..], &filter].concat());
    let mut stacks: Vec<Vec<&str>> = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("    ") {
            Some(frame) => stacks.last_mut().unwrap().push(frame),
            None => stacks.push(Vec::new()),
        }
    }
    assert_eq!(stacks, expected);
    let rows = csv_rows(&etw.ok(&[&["dump", &path, "--stacks", "--format", "csv"][..], &filter].concat()));
    assert!(rows.iter().all(|row| row.len() == 21));
    assert_eq!(rows[0][20], "Stack");
    let columns: Vec<&str> = rows[1..].iter().map(|row| row[20].as_str()).collect();
    assert_eq!(columns, expected.iter().map(|stack| stack.join(";")).collect::<Vec<_>>());
    let fields = ["--stacks", "--format", "csv", "--fields", "System.EventType"];
    let rows = csv_rows(&etw.ok(&[&["dump", &path][..], &fields, &filter].concat()));
    assert!(rows[0] == ["System.EventType", "Stack"] && rows[1][1] == columns[0], "{:?}", rows[1]);

    let check = |args: &[&str], part: &str| {
        let (status, text) = etw.fails(args);
        assert!(status == 2 && text.contains(part), "{args:?}: {text}");
    };
    check(&["dump", &path, "--stacks", "--format", "xml"], "--stacks is not available with --format xml");
    check(&["dump", &path, "--stacks", "--no-look-ahead"], "--stacks needs whole files");
    let condition = ["--where", "stack contains x"];
    check(
        &[&["dump", &path, "--no-look-ahead"][..], &condition].concat(),
        "a condition on `stack` needs whole",
    );
    check(&["dump", &path, "--where", "stack > 5"], "'>' does not apply to stack");
    check(&["dump", &path, "--stacks", "--symbols", "symsrv*other.dll*x"], "only symsrv.dll is supported");
}

#[test]
fn damaged_traces_cost_stacks_and_names_only() {
    let Some(path) = trace(PERFVIEW) else { return };
    let etw = Etw::new();
    etw.ok(&["relog", &path, "--to", "0.4s", "-o", "short.etl"]);
    let bytes = std::fs::read(etw.path("short.etl")).unwrap();
    let mut shown = 0;
    etw_testkit::mutate::each(&bytes, 12, |damaged| {
        std::fs::write(etw.path("damaged.etl"), damaged).unwrap();
        let run = |args: &[&str]| {
            let output = etw.run(&[&["dump", "damaged.etl", "--format", "json"], args].concat());
            // Nothing may be left but the reason.
            assert!(output.status.success() || output.stdout.is_empty());
            json_lines(&String::from_utf8(output.stdout).unwrap())
        };
        let with = run(&["--stacks"]);
        assert_eq!(with.len(), run(&[]).len());
        shown += with.iter().filter(|event| !frames(event).is_empty()).count();
        let has_name = |event: &&Value| frames(event).iter().any(|frame| name(frame).is_some());
        let named = with.iter().filter(has_name).count();
        assert_eq!(run(&["--where", "stack contains ''"]).len(), named);
    });
    assert!(shown > 500, "{shown}");
}
