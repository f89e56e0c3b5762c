//! Events of `tracing` and records of `log`, in the system's own ETW.

use openetw::provider;
use openetw_logger::Logger;
use tracing_openetw::TracingLayer;
use tracing_subscriber::layer::SubscriberExt;

use crate::{TestSession, eventually};

provider! {
    static SPANS: "OpenETW.Test.WinTracing";
    static RECORDS: "OpenETW.Test.WinLog";
}

#[test]
fn events_and_spans_of_tracing_are_events() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tracing.etl");
    let Some(mut session) = TestSession::start("Tracing", |builder| builder.file(&file)) else { return };
    SPANS.register();
    let subscriber = tracing_subscriber::registry().with(TracingLayer::new(&SPANS));
    session.enable("OpenETW.Test.WinTracing");
    eventually("the provider is enabled", || SPANS.is_enabled());
    tracing::subscriber::with_default(subscriber, || {
        let _span = tracing::info_span!("work", number = 7u32).entered();
        tracing::warn!(name: "Named", port = 80u16);
    });
    let events = session.stop(&file, SPANS.guid());
    SPANS.unregister();
    assert_eq!(events.len(), 3, "{events:?}");
    assert!(events[0].starts_with("work number=7"), "{}", events[0]);
    assert!(events[1].starts_with("Named port=80"), "{}", events[1]);
    assert!(events[2].starts_with("work"), "{}", events[2]);
}

#[test]
fn records_of_log_are_events() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("log.etl");
    let Some(mut session) = TestSession::start("Log", |builder| builder.file(&file)) else { return };
    RECORDS.register();
    Logger::new(&RECORDS).install().unwrap();
    session.enable("OpenETW.Test.WinLog");
    eventually("the provider is enabled", || RECORDS.is_enabled());
    log::error!("failed with {}", 5);
    let events = session.stop(&file, RECORDS.guid());
    RECORDS.unregister();
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(events[0].contains("failed with 5"), "{}", events[0]);
}
