//! Reading sessions while events arrive.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use openetw::session::{ErrorKind, LiveTraceError, TracedProvider, UserTrace};
use openetw::{Level, Trace, event, provider};

use crate::{TestSession, eventually, text_of};

provider! {
    static LIVE: "OpenETW.Test.WinLive";
    static TRACED: "OpenETW.Test.WinTraced";
    static ONE: "OpenETW.Test.WinOne";
    static OTHER: "OpenETW.Test.WinOther";
}

#[test]
fn events_are_delivered_in_order_and_decoded() {
    const COUNT: u32 = 5000;
    let Some(mut session) = TestSession::start("Live", |builder| builder.real_time().buffers(64, 256)) else {
        return;
    };
    LIVE.register();
    session.enable("OpenETW.Test.WinLive");
    eventually("the provider is enabled", || LIVE.is_enabled());
    let mut trace = Trace::open_session(&session.name).unwrap();
    for number in 0..COUNT {
        event!(LIVE, "Number", level: Level::INFORMATION, u32("number", number), str8("text", "some"));
    }
    // The end of the session ends reading, after everything has been delivered.
    session.controller.stop(&session.name).unwrap();
    let (mut texts, mut last) = (Vec::new(), i64::MIN);
    trace
        .for_each_event(|event| {
            if event.record.provider_id() == LIVE.guid() {
                assert!(event.record.time().0 >= last);
                last = event.record.time().0;
                assert_eq!(event.record.process_id(), Some(std::process::id()));
                texts.push(text_of(event));
            }
        })
        .unwrap();
    assert_eq!(texts.len() as u32, COUNT);
    assert_eq!(texts[17], "Number number=17 text=some");
    assert_eq!((trace.statistics().events_lost(), trace.statistics().inversions), (0, 0));
    LIVE.unregister();
}

#[test]
fn two_sessions_are_merged() {
    let start = |name| TestSession::start(name, |builder| builder.real_time().flush_timer_millis(1000));
    let (Some(mut one), Some(mut other)) = (start("One"), start("Other")) else { return };
    ONE.register();
    OTHER.register();
    one.enable("OpenETW.Test.WinOne");
    other.enable("OpenETW.Test.WinOther");
    eventually("both are enabled", || ONE.is_enabled() && OTHER.is_enabled());
    let mut trace = Trace::builder().session(&one.name).session(&other.name).open().unwrap();
    for number in 0..50u32 {
        event!(ONE, "A", u32("n", number));
        event!(OTHER, "B", u32("n", number));
    }
    one.controller.stop(&one.name).unwrap();
    other.controller.stop(&other.name).unwrap();
    let mut names = String::new();
    trace
        .for_each_event(|event| {
            let id = event.record.provider_id();
            if id == ONE.guid() || id == OTHER.guid() {
                names += event.properties.as_ref().unwrap().schema().name.as_deref().unwrap_or_default();
            }
        })
        .unwrap();
    assert_eq!(names.len(), 100);
    assert_eq!((trace.statistics().events_lost(), names.matches('A').count()), (0, 50));
    ONE.unregister();
    OTHER.unregister();
}

#[test]
fn a_trace_with_callbacks_ends_when_it_is_stopped() {
    static SEEN: AtomicU32 = AtomicU32::new(0);
    TRACED.register();
    let provider = TracedProvider::new("OpenETW.Test.WinTraced".parse().unwrap()).on_event(|event| {
        SEEN.fetch_add(event.get::<u32>("number")?, Ordering::Relaxed);
        Ok(())
    });
    let trace = UserTrace::new(&format!("OpenETW-Test-Traced-{}", std::process::id())).enable(provider);
    let stop = trace.stop_handle();
    let writer = std::thread::spawn(move || {
        for _ in 0..1000 {
            if TRACED.is_enabled() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        for number in 1..=10u32 {
            event!(TRACED, "Number", u32("number", number));
        }
        stop.stop();
    });
    match trace.start() {
        Err(LiveTraceError::Controller(error)) if error.kind() == Some(ErrorKind::AccessDenied) => {
            return eprintln!("skipped: {error}");
        }
        ended => assert!(ended.unwrap().status.is_some()),
    }
    writer.join().unwrap();
    assert_eq!(SEEN.load(Ordering::Relaxed), 55);
    TRACED.unregister();
}
