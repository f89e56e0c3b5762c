//! Records of `log` as events of a provider.

#![cfg(target_os = "linux")]

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use etw_testkit::written;
use openetw::provider::testing::Capture;
use openetw::{Keyword, Level, provider};
use openetw_logger::Logger;

/// Logs when it is formatted.
struct Chatty(u32);

impl fmt::Debug for Chatty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        log::debug!("at {}", self.0);
        if self.0 > 0 { write!(f, "<{:?}>", Chatty(self.0 - 1)) } else { f.write_str("end") }
    }
}

#[test]
fn records_of_log() {
    provider!(static APP: "OpenETW.Test.Log");
    static OTHER: AtomicU32 = AtomicU32::new(0);
    struct Other;
    impl log::Log for Other {
        fn enabled(&self, _: &log::Metadata<'_>) -> bool {
            true
        }
        fn log(&self, _: &log::Record<'_>) {
            OTHER.fetch_add(1, Ordering::Relaxed);
        }
        fn flush(&self) {}
    }
    Logger::new(&APP).and(Box::new(Other), log::LevelFilter::Warn).install().unwrap();
    assert!(Logger::new(&APP).install().is_err());
    let mut session = Capture::new().unwrap();
    assert!(!log::log_enabled!(log::Level::Info));
    log::info!("nobody listens");
    session.enable(&APP, Level::VERBOSE, Keyword(0), 0);
    assert!(log::log_enabled!(log::Level::Info));
    log::error!("plain");
    log::warn!(target: "net", "{} files", 3);
    log::debug!("d");
    log::trace!("behind verbose");
    // Without a source location.
    log::logger()
        .log(&log::Record::builder().level(log::Level::Info).target("t").args(format_args!("m")).build());
    // Code that formats a value may log too.
    log::info!("{:?}", Chatty(1));
    let seen = written::decode(session.records()).unwrap();
    let here = format!("{}:", file!());
    assert!(seen.iter().all(|event| event.source.as_ref().is_none_or(|source| source.starts_with(&here))));
    let texts: Vec<&str> = seen.iter().map(|event| event.text.as_str()).collect();
    let here = module_path!();
    let expected = [
        format!("Log target={here} message=plain"),
        "Log target=net message=3 files".to_owned(),
        format!("Log target={here} message=d"),
        "Log target=t message=m".to_owned(),
        format!("Log target={here} message=at 1"),
        format!("Log target={here} message=at 0"),
        format!("Log target={here} message=<end>"),
    ];
    assert_eq!(texts, expected);
    let levels: Vec<u8> = seen.iter().map(|event| event.descriptor.level.0).collect();
    assert_eq!(levels, [2, 3, 5, 4, 5, 5, 4]);
    assert_eq!(OTHER.load(Ordering::Relaxed), 2);
}
