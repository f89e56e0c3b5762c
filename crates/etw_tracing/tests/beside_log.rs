//! Values that log through `log` while `tracing` formats them.

#![cfg(target_os = "linux")]

use std::fmt;

use etw_testkit::written;
use openetw::provider::testing::Capture;
use openetw::{Keyword, Level, provider};
use openetw_logger::Logger;
use tracing::info;
use tracing_openetw::TracingLayer;
use tracing_subscriber::layer::SubscriberExt;

/// Logs when it is formatted.
struct Chatty(u32);

impl fmt::Debug for Chatty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        log::debug!("at {}", self.0);
        if self.0 > 0 { write!(f, "<{:?}>", Chatty(self.0 - 1)) } else { f.write_str("end") }
    }
}

#[test]
fn both_write_to_one_provider() {
    provider!(static APP: "OpenETW.Test.BesideLog");
    Logger::new(&APP).install().unwrap();
    let mut session = Capture::new().unwrap();
    session.enable(&APP, Level::VERBOSE, Keyword(0), 0);
    let subscriber = tracing_subscriber::registry().with(TracingLayer::new(&APP));
    tracing::subscriber::with_default(subscriber, || info!(name: "Outer", a = 1, b = ?Chatty(2), c = 3));
    let written = written::decode(session.records()).unwrap();
    let seen: Vec<(&str, u8)> =
        written.iter().map(|event| (event.text.as_str(), event.descriptor.level.0)).collect();
    let here = module_path!();
    let inner = [2, 1, 0].map(|count| format!("Log target={here} message=at {count}"));
    let outer = format!("Outer target={here} a=1 b=<<end>> c=3");
    assert_eq!(seen, [(&*inner[0], 5), (&*inner[1], 5), (&*inner[2], 5), (&*outer, 4)]);
}
