//! Traces of .NET, compared with what another reader (TraceEvent) printed for them: every name with its number of
//! events, and every field of the one event that it printed for each name.

#![cfg(not(windows))]
#![expect(clippy::expect_used, reason = "a helper that fails is a test that fails")]

#[path = "published/compare.rs"]
#[expect(dead_code, reason = "shared with another test")]
mod compare;
#[path = "published/events.rs"]
#[expect(dead_code, reason = "shared with another test")]
mod events;

use std::collections::{BTreeMap, BTreeSet};

use compare::Outcome;
use etw_testkit::data;
use etw_testkit::nettrace::samples;
use events::Event;
use openetw::{InputLimits, Trace};
use serde_json::{Value, json};

/// A line of a baseline: a name with its number of events, and one of them.
#[derive(Debug)]
struct Line {
    provider: String,
    name: String,
    count: u64,
    attributes: Vec<(String, String)>,
}

impl Line {
    fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Time since the start in units of 100 ns.
    fn since_start(&self) -> i64 {
        let (millis, part) = self.attribute("MSec").and_then(|text| text.split_once('.')).expect("a time");
        let number = |text: &str| text.replace(',', "").parse::<i64>().expect("a number");
        number(millis) * 10_000 + number(part)
    }
}

/// Attributes that are not fields of the payload.
const HEADER: [&str; 9] = [
    "MSec",
    "PID",
    "PName",
    "TID",
    "ActivityID",
    "RelatedActivityID",
    "EventName",
    "ProviderName",
    "FormattedMessage",
];

/// Names with another number of events here, and why.
const OTHER_COUNTS: [(&str, u64, &str); 1] =
    [("GC", 15, "one name for the events 200 and 201, IncreaseMemoryPressure and DecreaseMemoryPressure")];

/// Flags that the other reader prints by its own names, or adds up differently.
const OWN_WORDS: [&str; 10] = [
    "GC/GlobalHeapHistory.GlobalMechanisms",
    "GC/PerHeapHistory.CompactMechanisms",
    "GC/PerHeapHistory.ExpandMechanisms",
    "Loader/AssemblyDCStop.AssemblyFlags",
    "Loader/AssemblyLoad.AssemblyFlags",
    "Loader/DomainModuleDCStop.ModuleFlags",
    "Loader/ModuleDCStop.ModuleFlags",
    "Method/LoadVerbose.MethodFlags",
    "Runtime/Start.StartupFlags",
    "Runtime/Start.StartupMode",
];

/// Fields that the events do not have, and why the other reader prints them.
const ABSENT: [(&str, &str); 10] = [
    ("Contention/Start.AssociatedObjectID", "of a later version; zero"),
    ("Contention/Start.LockID", "of a later version; zero"),
    ("Contention/Start.LockOwnerThreadID", "of a later version; zero"),
    ("GC/HeapStats.Depth", "of a later version; zero"),
    ("GC/HeapStats.GenerationSize4", "of a later version; zero"),
    ("GC/HeapStats.TotalHeapSize", "the sum of other fields"),
    ("GC/HeapStats.TotalPromoted", "the sum of other fields"),
    ("GC/HeapStats.TotalPromotedSize4", "of a later version; zero"),
    ("Method/LoadVerbose.OptimizationTier", "bits of MethodFlags"),
    ("Method/LoadVerbose.ReJITID", "of a later version; zero"),
];

/// The other reader's name of a field, and that of the manifest.
const RENAMED: (&str, &str) = ("Promoted", "Bytes");

fn parse(text: &str) -> Vec<Line> {
    let lines = text.lines().map(|line| line.trim_start_matches('\u{feff}').trim());
    lines.filter(|line| !line.is_empty()).map(parse_line).collect()
}

fn parse_line(line: &str) -> Line {
    let (head, event) = line.split_once(", <Event ").expect("an event");
    let (name, count) = head.rsplit_once(", ").expect("a count");
    let (provider, name) = name.split_once('/').expect("a provider and a name");
    let mut attributes = Vec::new();
    let mut rest = event.trim_start();
    // Values that were cut have no closing quote; elements within the event follow its attributes.
    while !rest.starts_with(['/', '>'])
        && let Some((name, value)) = rest.split_once('=')
        && let Some((value, after)) =
            value.trim_start().strip_prefix('"').and_then(|value| value.split_once('"'))
    {
        let value = value.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">");
        let value = value.replace("&apos;", "'").replace("&amp;", "&").trim().to_owned();
        attributes.push((name.trim().to_owned(), value));
        rest = after.trim_start();
    }
    Line {
        provider: provider.to_owned(),
        name: name.to_owned(),
        count: count.parse().expect("a number"),
        attributes,
    }
}

/// What a comparison found.
#[derive(Debug, Default)]
struct Report {
    fields: usize,
    /// Fields whose values the other reader prints in its own words.
    own_words: BTreeSet<String>,
    /// Fields that the event does not have.
    absent: BTreeSet<String>,
    different: Vec<String>,
    /// Lines without an event.
    missing: Vec<String>,
    /// Names with another number of events.
    counts: Vec<String>,
}

impl Report {
    fn compare(&mut self, line: &Line, event: &Event) {
        let empty = serde_json::Map::new();
        let data = event.data().unwrap_or(&empty);
        for (name, theirs) in &line.attributes {
            if HEADER.contains(&name.as_str()) {
                continue;
            }
            if name.is_empty() {
                // The fields of an object without a name, as JSON.
                let theirs: Value = serde_json::from_str(theirs).expect("JSON");
                assert_eq!(Some(data), theirs.as_object(), "{}", line.name);
                self.fields += data.len();
                continue;
            }
            let field = format!("{}.{name}", line.name);
            let find = |name: &str| data.iter().find(|(ours, _)| ours.eq_ignore_ascii_case(name));
            match find(name).or_else(|| find(RENAMED.1).filter(|_| name == RENAMED.0)) {
                None => _ = self.absent.insert(field),
                Some((ours, value)) => match outcome(event, ours, value, theirs) {
                    Outcome::Equal => self.fields += 1,
                    Outcome::OwnName => _ = self.own_words.insert(field),
                    Outcome::Different => self.different.push(format!("{field}: {value} is not {theirs}")),
                },
            }
        }
    }
}

fn outcome(event: &Event, name: &str, ours: &Value, theirs: &str) -> Outcome {
    if let Value::Array(_) = ours {
        let theirs: Option<Value> = serde_json::from_str(theirs).ok();
        return if theirs.as_ref() == Some(ours) { Outcome::Equal } else { Outcome::Different };
    }
    if let (Some(ours), Ok(theirs)) = (ours.as_f64(), theirs.parse::<f64>())
        && theirs.fract() != 0.0
    {
        // Fifteen digits are printed.
        return if (ours - theirs).abs() <= 1e-14 * ours.abs() { Outcome::Equal } else { Outcome::Different };
    }
    match compare::with_baseline(ours, theirs) {
        Outcome::Different => match event.mapped.get(name) {
            // The number of a value with names.
            Some(number) if theirs.replace(',', "").parse() == Ok(*number) => Outcome::Equal,
            Some(_) if theirs.parse::<i64>().is_err() => Outcome::OwnName,
            _ => Outcome::Different,
        },
        outcome => outcome,
    }
}

/// Events of one kind have the same provider, and the same name, or id if the runtime's manifest names them.
fn kind(event: &Event) -> (String, String) {
    let system = &event.json["System"];
    let provider = system["Provider"]["Name"].as_str().unwrap_or_default().to_owned();
    let name = match provider.starts_with("Microsoft-Windows-DotNETRuntime") {
        true => None,
        false => system["EventType"].as_str().map(str::to_owned),
    };
    (provider, name.unwrap_or_else(|| system["EventID"].to_string()))
}

#[test]
fn baselines_agree() {
    let Some(traces) = data::nettraces() else { return };
    let directory = data::data_dir().expect("the data").join("nettrace");
    let mut report = Report::default();
    let mut names = 0;
    for trace in &traces {
        let Some(baseline) = &trace.baseline else { continue };
        let lines = parse(baseline);
        let events = events::read(&[directory.join(format!("{}.zst", trace.name))], &[]);
        let events: Vec<&Event> = events.iter().filter(|event| !event.classic).collect();
        let mut counts = BTreeMap::<(String, String), u64>::new();
        for event in &events {
            *counts.entry(kind(event)).or_default() += 1;
        }
        for line in &lines {
            let time = line.since_start();
            let same = |event: &&&Event| {
                event.since_start.abs_diff(time) <= 1
                    && event.tid.map(|id| id.to_string()).as_deref() == line.attribute("TID")
                    && kind(event).0 == line.provider
            };
            let compared = events.iter().filter(same).map(|event| {
                let mut report = Report::default();
                report.compare(line, event);
                (report.different.len(), report.absent.len(), event)
            });
            let best = compared.min_by_key(|(different, absent, _)| (*different, *absent));
            let Some((.., event)) = best else {
                report.missing.push(format!("{}: {line:?}", trace.name));
                continue;
            };
            assert_eq!(event.pid.map(|id| id.to_string()).as_deref(), line.attribute("PID"));
            let of_kind = counts[&kind(event)];
            let other = OTHER_COUNTS.iter().find(|(name, ..)| *name == line.name);
            if of_kind != line.count && other.is_none_or(|(_, ours, _)| *ours != of_kind) {
                report
                    .counts
                    .push(format!("{}: {} there, {of_kind} here: {}", line.name, line.count, event.json));
            }
            let activity = event.json["System"]["Correlation"]["ActivityID"]
                .as_str()
                .map(|id| id.replace(['{', '}', '-'], ""));
            assert_eq!(activity.as_deref(), line.attribute("ActivityID").map(|id| id.trim_matches('-')));
            report.compare(line, event);
            names += 1;
        }
        println!("{}: {} events, {} names", trace.name, events.len(), lines.len());
    }
    println!("{names} names, {} fields are equal", report.fields);
    assert_eq!(report.own_words, OWN_WORDS.map(str::to_owned).into());
    assert_eq!(report.absent, ABSENT.map(|(field, _)| field.to_owned()).into());
    let found = [&report.missing, &report.counts, &report.different];
    assert!(found.iter().all(|found| found.is_empty()), "{found:#?}");
}

/// Returns the events of a generated trace.
fn sample(name: &str) -> (Vec<Event>, Trace) {
    let (_, bytes) = samples().into_iter().find(|(sample, _)| *sample == name).expect("a sample");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(name);
    std::fs::write(&path, bytes).expect("the file");
    let mut trace = Trace::open_file(&path).expect("the trace opens");
    trace.for_each_record(|_| ()).expect("the trace reads");
    (events::read(&[path], &[]).into_iter().filter(|event| !event.classic).collect(), trace)
}

#[test]
fn every_type_of_field_and_label_is_shown() {
    for name in ["format6", "format6-plain"] {
        let (events, trace) = sample(name);
        let [all, cpu, switch] = &events[..] else { panic!("{} events", events.len()) };
        let expected = json!({
            "number": -3, "count": 300, "text": "ab", "pair": [1, 2], "flag": true, "object": {"m": 7},
            "lists": [{"": [1]}, {"": []}], "near": [9], "far": [3, 4],
            "Labels": {
                "TraceId": "33333333333333333333333333333333", "SpanId": "0x44", "key": "value", "n": -5,
            },
        });
        assert_eq!(all.json["EventData"], expected);
        let system = &all.json["System"];
        assert_eq!((&system["Version"], &system["Level"]["Value"]), (&json!(5), &json!(2)), "by labels");
        assert_eq!((&system["Opcode"]["Value"], &system["Keywords"]["Mask"]), (&json!(40), &json!("0x80")));
        assert_eq!(system["Correlation"]["ActivityID"], "{11111111-1111-1111-1111-111111111111}");
        assert_eq!(system["Correlation"]["RelatedActivityID"], "{22222222-2222-2222-2222-222222222222}");
        assert_eq!(system["Provider"]["Guid"], "{abababab-abab-abab-abab-abababababab}");
        assert_eq!((all.pid, all.tid, all.processor), (Some(100), Some(1000), 6));
        assert_eq!((cpu.pid, cpu.tid), (Some(200), Some(2000)));
        assert_eq!(kind(cpu), ("Universal.Events".to_owned(), "cpu".to_owned()));
        assert_eq!(kind(switch), ("Universal.Events".to_owned(), "cswitch".to_owned()), "with the same id");
        assert_eq!((&cpu.json["EventData"], cpu.since_start), (&json!({"Value": 129}), 40));
        let statistics = trace.statistics();
        assert_eq!((statistics.events_lost(), statistics.damage_count), (5, 0));
    }
}

#[test]
fn arrays_activities_and_stacks_are_shown() {
    let (events, trace) = sample("format5");
    assert_eq!(trace.statistics().events_lost(), 4);
    let event = &events[0].json;
    assert_eq!(event["EventData"], json!({"bytes": [5, 6], "chars": "x", "text": "end"}));
    assert_eq!(event["System"]["Opcode"]["Value"], 24);
    assert_eq!(event["System"]["Correlation"]["RelatedActivityID"], "{02020202-0202-0202-0202-020202020202}");
    assert!(event["ExtendedData"].to_string().contains("0x2000"), "{event}");
    let (events, _) = sample("format3");
    assert_eq!(events[0].json["EventData"], json!({"outer": {"inner": 7}}));
    assert_eq!(events[1].json["System"]["Provider"]["Guid"], guid("Bare"));
}

fn guid(provider: &str) -> String {
    format!("{{{}}}", openetw::Guid::from_provider_name(provider)).replace("{{", "{").replace("}}", "}")
}

#[test]
fn cut_traces_are_read_up_to_the_cut() {
    let Some(traces) = data::nettraces() else { return };
    let trace = traces.iter().find(|trace| trace.name.contains("objver4")).expect("a trace");
    let half = &trace.bytes[..trace.bytes.len() / 2];
    let mut read = Trace::builder().bytes("half", half).open().expect("the trace opens");
    let mut times = Vec::new();
    read.for_each_record(|record| times.push(record.time())).expect("the trace reads");
    let statistics = read.statistics();
    assert!(times.len() > 40_000 && times.is_sorted(), "{} events", times.len());
    assert_eq!((statistics.inversions, statistics.sources[0].unclosed), (0, true));
    assert_eq!(statistics.damage.len(), 3, "{:?}", statistics.damage);
    let (_, first) = statistics.damage[0];
    assert!(first.offset > half.len() as u64 - 200_000 && first.offset <= half.len() as u64, "{first}");
    let converted = read.inputs()[0].converted().expect("a converted trace");
    assert_eq!((converted.format.as_str(), converted.len_bytes), ("nettrace 4", half.len() as u64));
}

#[test]
fn a_converted_trace_has_a_limit() {
    let (_, bytes) = samples().remove(0);
    let limits = InputLimits { decompressed_bytes: 100_000, ..InputLimits::default() };
    let error = Trace::builder().bytes("small", bytes).limits(limits).open().expect_err("too large");
    assert!(error.to_string().contains("more than 100000 bytes"), "{error}");
    let error = Trace::builder().bytes("x", b"Nettrace\0\0\0\0\x09\0\0\0\0\0\0\0".to_vec()).open();
    assert!(error.expect_err("an unknown version").to_string().contains("version 9"));
}
