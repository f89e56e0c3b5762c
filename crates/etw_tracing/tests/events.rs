//! Events and spans of `tracing` as events of a provider.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::sync::{Arc, Barrier};

use etw_testkit::written::{self, Written};
use openetw::provider::testing::Capture;
use openetw::{Guid, Keyword, Level, Opcode, event, provider};
use tracing::{Level as Grade, debug, error, info, info_span, span, trace, warn};
use tracing_openetw::TracingLayer;
use tracing_subscriber::layer::SubscriberExt;

fn seen(session: &mut Capture) -> Vec<Written> {
    let written = written::decode(session.records()).unwrap();
    for event in &written {
        let here = format!("{}:", file!());
        assert!(event.source.as_ref().is_none_or(|source| source.starts_with(&here)), "{event:?}");
    }
    written
}

#[test]
fn events_keep_levels_types_and_names() {
    provider!(static APP: "OpenETW.Test.Tracing");
    let layer = TracingLayer::new(&APP)
        .keywords(|metadata| Keyword(if metadata.target().starts_with("net") { 0x10 } else { 0x1 }));
    let subscriber = tracing_subscriber::registry().with(layer);
    let mut session = Capture::new().unwrap();
    tracing::subscriber::with_default(subscriber, || {
        error!("nobody listens");
        session.enable(&APP, Level(0), Keyword(0), 0);
        error!(a = -5i64, b = 7u64, c = 0.5, d = true, e = "text", f = ?Some(1), g = %"shown", "message {}", 1);
        warn!(name: "Named", target: "net::tcp", port = 80u16);
        info!("i");
        debug!("d");
        trace!("t");
        session.enable(&APP, Level::WARNING, Keyword(0x10), 0);
        error!("not of the keyword");
        info!(target: "net", "not of the level");
        warn!(target: "net", "both");
        session.enable(&APP, Level(0), Keyword(0), 0);
        info!(long = "ä".repeat(40_000), "cut");
    });
    let seen = seen(&mut session);
    let texts: Vec<&str> = seen.iter().map(|event| event.text.as_str()).collect();
    let here = module_path!();
    let expected = [
        format!("{here} target={here} message=message 1 a=-5 b=7 c=0.5 d=true e=text f=Some(1) g=shown"),
        "Named target=net::tcp port=80".to_owned(),
        format!("{here} target={here} message=i"),
        format!("{here} target={here} message=d"),
        format!("{here} target={here} message=t"),
        "net target=net message=both".to_owned(),
        format!("{here} target={here} message=cut long={}", "ä".repeat(8192)),
    ];
    assert_eq!(texts, expected);
    let levels: Vec<u8> = seen.iter().map(|event| event.descriptor.level.0).collect();
    assert_eq!(levels, [2, 3, 4, 5, 6, 3, 4]);
    assert_eq!((seen[0].descriptor.keyword, seen[1].descriptor.keyword), (Keyword(1), Keyword(0x10)));
    assert_eq!(seen[0].activity, Guid::ZERO);
}

#[test]
fn spans_are_activities() {
    provider!(static APP: "OpenETW.Test.Spans");
    let subscriber = tracing_subscriber::registry().with(TracingLayer::new(&APP));
    let mut session = Capture::new().unwrap();
    session.enable(&APP, Level(0), Keyword(0), 0);
    tracing::subscriber::with_default(subscriber, || {
        let outer = info_span!("outer", id = 1, status = tracing::field::Empty);
        outer.in_scope(|| {
            info!("in outer");
            let inner = span!(Grade::DEBUG, "inner").entered();
            // Events by `event!` belong to the activity too.
            event!(APP, "Own", u32("n", 1));
            drop(inner);
            info!("behind inner");
        });
        outer.record("status", 200);
        info!("outside");
    });
    let seen = seen(&mut session);
    let marks: Vec<(&str, Opcode)> = seen
        .iter()
        .map(|event| (event.text.split(" target").next().unwrap(), event.descriptor.opcode))
        .collect();
    let here = module_path!();
    let (info, start, stop) = (Opcode::INFO, Opcode::START, Opcode::STOP);
    let expected = [
        ("outer", start),
        (here, info),
        ("inner", start),
        ("Own n=1", info),
        ("inner", stop),
        (here, info),
        (here, info),
        ("outer", stop),
    ];
    assert_eq!(marks, expected);
    let (outer, inner) = (seen[0].activity, seen[2].activity);
    assert!(outer != Guid::ZERO && inner != Guid::ZERO && outer != inner);
    let activities: Vec<Guid> = seen.iter().map(|event| event.activity).collect();
    assert_eq!(activities, [outer, outer, inner, inner, inner, outer, Guid::ZERO, outer]);
    assert_eq!((seen[0].related, seen[2].related), (None, Some(outer)));
    assert!(seen[0].text.ends_with("id=1") && seen[7].text.ends_with("status=200"), "{seen:?}");
    assert_eq!(openetw::provider::activity::current(), Guid::ZERO);
}

#[test]
fn spans_go_from_thread_to_thread_and_end_in_any_order() {
    provider!(static APP: "OpenETW.Test.Threads");
    let subscriber = Arc::new(tracing_subscriber::registry().with(TracingLayer::new(&APP)));
    let mut session = Capture::new().unwrap();
    session.enable(&APP, Level(0), Keyword(0), 0);
    tracing::subscriber::with_default(subscriber.clone(), || {
        let (a, b) = (info_span!("a"), info_span!("b"));
        let (in_a, in_b) = (a.enter(), b.enter());
        drop(in_a);
        // `b` is still entered.
        event!(APP, "InB");
        drop(in_b);
        event!(APP, "Outside");
        // One span in two threads at once.
        let both = Barrier::new(2);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    tracing::subscriber::with_default(subscriber.clone(), || {
                        let _in = a.enter();
                        both.wait();
                        event!(APP, "InA");
                        both.wait();
                    });
                });
            }
        });
    });
    let seen = seen(&mut session);
    let of = |name: &str| -> Vec<Guid> {
        seen.iter()
            .filter(|event| event.text.split(' ').next() == Some(name))
            .map(|event| event.activity)
            .collect()
    };
    let (a, b) = (of("a")[0], of("b")[0]);
    assert_eq!((of("InB"), of("Outside"), of("InA")), (vec![b], vec![Guid::ZERO], vec![a, a]));
}

fn texts(session: &mut Capture) -> Vec<String> {
    seen(session)
        .into_iter()
        .map(|event| event.text.replace(&format!(" target={}", module_path!()), ""))
        .collect()
}

#[test]
fn fields_of_one_place_change() {
    provider!(static APP: "OpenETW.Test.Changes");
    let subscriber = tracing_subscriber::registry().with(TracingLayer::new(&APP));
    let mut session = Capture::new().unwrap();
    session.enable(&APP, Level(0), Keyword(0), 0);
    fn at_one_place(value: &dyn tracing::Value, optional: Option<u64>) {
        info!(name: "Changing", a = value, b = optional, never = tracing::field::Empty, z = true);
    }
    // More combinations of types than are kept, each repeated.
    let round = || {
        at_one_place(&-1i64, None);
        at_one_place(&1u64, Some(2));
        at_one_place(&0.5, None);
        at_one_place(&"text", Some(3));
        at_one_place(&false, Some(4));
        at_one_place(&tracing::field::debug(Some(5)), None);
        at_one_place(&1u64, None);
        at_one_place(&tracing::field::Empty, None);
    };
    tracing::subscriber::with_default(subscriber, || (0..3).for_each(|_| round()));
    let expected = [
        "Changing a=-1 z=true",
        "Changing a=1 b=2 z=true",
        "Changing a=0.5 z=true",
        "Changing a=text b=3 z=true",
        "Changing a=false b=4 z=true",
        "Changing a=Some(5) z=true",
        "Changing a=1 z=true",
        "Changing z=true",
    ];
    assert_eq!(texts(&mut session), expected.repeat(3));
}

#[test]
fn more_kinds_of_one_place_than_are_kept() {
    provider!(static APP: "OpenETW.Test.Kinds");
    let subscriber = tracing_subscriber::registry().with(TracingLayer::new(&APP));
    let mut session = Capture::new().unwrap();
    session.enable(&APP, Level(0), Keyword(0), 0);
    let bit = |kinds: u32, index: u32| (kinds >> index & 1 != 0).then_some(index);
    tracing::subscriber::with_default(subscriber, || {
        for kinds in (0..64).chain(0..64) {
            let [a, b, c, d, e, f] = [0, 1, 2, 3, 4, 5].map(|index| bit(kinds, index));
            info!(name: "Kinds", a, b, c, d, e, f);
        }
    });
    let expected: Vec<String> = (0..64)
        .chain(0..64)
        .map(|kinds| {
            let fields = (0..6).filter_map(|index| bit(kinds, index));
            let name = |index: u32| char::from(b'a' + index as u8);
            fields.fold("Kinds".to_owned(), |text, index| text + &format!(" {}={index}", name(index)))
        })
        .collect();
    assert_eq!(texts(&mut session), expected);
}

#[test]
fn spans_are_recorded_in_any_order() {
    provider!(static APP: "OpenETW.Test.Recorded");
    let subscriber = tracing_subscriber::registry().with(TracingLayer::new(&APP));
    let mut session = Capture::new().unwrap();
    session.enable(&APP, Level(0), Keyword(0), 0);
    tracing::subscriber::with_default(subscriber, || {
        for round in 0..2u64 {
            let span = info_span!("work", a = round, b = tracing::field::Empty, c = tracing::field::Empty);
            span.record("c", "late");
            span.record("b", round);
            span.record("b", -1i64);
            span.record("b", round);
        }
    });
    let expected =
        ["work a=0", "work c=late b=0 b=-1 b=0", "work a=1", "work c=late b=1 b=-1 b=1"].map(str::to_owned);
    assert_eq!(texts(&mut session), expected);
}

#[test]
fn threads_describe_one_place_at_once() {
    const THREADS: u64 = 8;
    provider!(static APP: "OpenETW.Test.Many");
    let subscriber = Arc::new(tracing_subscriber::registry().with(TracingLayer::new(&APP)));
    let mut session = Capture::new().unwrap();
    session.enable(&APP, Level(0), Keyword(0), 0);
    let start = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (start, subscriber) = (&start, subscriber.clone());
            scope.spawn(move || {
                tracing::subscriber::with_default(subscriber, || {
                    start.wait();
                    for count in 0..100u64 {
                        let odd = (count % 2 == 1).then_some(count);
                        info!(name: "Many", thread, count, odd, text = ?odd);
                    }
                });
            });
        }
    });
    let mut texts = texts(&mut session);
    texts.sort();
    let mut expected: Vec<String> = (0..THREADS * 100)
        .map(|index| match (index / 100, index % 100) {
            (thread, count) if count % 2 == 0 => format!("Many thread={thread} count={count} text=None"),
            (thread, count) => format!("Many thread={thread} count={count} odd={count} text=Some({count})"),
        })
        .collect();
    expected.sort();
    assert_eq!(texts, expected);
}
