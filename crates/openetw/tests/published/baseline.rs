//! Baseline texts that another reader printed for real traces: `EVENT` and `COUNT` lines.

use std::collections::BTreeMap;

/// One `EVENT` line.
#[derive(Debug)]
pub(crate) struct BaselineEvent {
    /// Time since the trace's start in microseconds; printed as milliseconds with three decimals.
    pub(crate) time_micros: i64,
    /// The other reader's name for the provider and event.
    pub(crate) name: String,
    /// Process; `None` where it printed -1.
    pub(crate) pid: Option<u32>,
    /// Thread; `None` where it printed -1.
    pub(crate) tid: Option<u32>,
    /// Processor.
    pub(crate) processor: u16,
    /// Bytes of payload.
    pub(crate) payload_len: usize,
    /// Fields in order.
    pub(crate) fields: Vec<(String, String)>,
}

/// A whole baseline.
#[derive(Debug, Default)]
pub(crate) struct Baseline {
    /// The first five events of each name.
    pub(crate) events: Vec<BaselineEvent>,
    /// Number of events of each name.
    pub(crate) counts: BTreeMap<String, u64>,
}

/// Reads a baseline. Panics on a line of unknown form, so that nothing is skipped.
pub(crate) fn parse(text: &str) -> Baseline {
    let mut baseline = Baseline::default();
    for line in text.lines().map(|line| line.trim_start_matches('\u{feff}').trim_end_matches('\r')) {
        let line = line.trim_start();
        if let Some(rest) = line.strip_prefix("EVENT ") {
            baseline.events.push(event(rest));
        } else if let Some(rest) = line.strip_prefix("COUNT ") {
            let (name, count) = rest.rsplit_once(':').expect("a count line has a colon");
            baseline.counts.insert(name.to_owned(), count.replace(',', "").parse().expect("a count"));
        } else if !line.is_empty() {
            panic!("a line of no known form: {line}");
        }
    }
    baseline
}

fn event(line: &str) -> BaselineEvent {
    let (time, rest) = line.split_once(": ").expect("a time");
    let (name, rest) = rest.split_once(" PID=").expect("a process");
    let (millis, micros) = time.split_once('.').expect("three decimals");
    let millis: i64 = millis.replace(',', "").parse().expect("milliseconds");
    let micros: i64 = micros.parse().expect("microseconds");
    let rest = format!("PID={rest}");
    let mut fields =
        rest.split_inclusive("; ").map(|field| field.strip_suffix("; ").unwrap_or(field)).peekable();
    let mut head = |key: &str| {
        let field = fields.next().expect("a head field");
        field.strip_prefix(key).and_then(|rest| rest.strip_prefix('=')).expect(key).to_owned()
    };
    let id = |text: String| text.parse::<i64>().expect("an id").try_into().ok();
    let (pid, tid) = (id(head("PID")), id(head("TID")));
    // The process name comes from that reader's own tracking.
    head("PName");
    let (processor, payload_len) = (head("ProceNum"), head("DataLen"));
    let mut pairs: Vec<(String, String)> = Vec::new();
    for field in fields {
        match field.split_once('=') {
            Some((name, value)) if !name.contains(' ') => pairs.push((name.to_owned(), value.to_owned())),
            // A value may contain "; " itself.
            _ => {
                if let (Some(last), false) = (pairs.last_mut(), field.is_empty()) {
                    last.1.push_str("; ");
                    last.1.push_str(field);
                }
            }
        }
    }
    BaselineEvent {
        time_micros: millis * 1000 + micros,
        name: name.to_owned(),
        pid,
        tid,
        processor: processor.parse().expect("a processor"),
        payload_len: payload_len.parse().expect("a length"),
        fields: pairs,
    }
}
