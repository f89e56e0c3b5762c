//! Sessions inside the program itself.

use openetw::session::{ErrorKind, Runtime, RuntimeError, SessionBuilder};

use etw_provider::{Outcome, event, provider};

use crate::events_of;

provider!(static OWN: "OpenETW.Test", guid: etw_provider::guid_from_name("OpenETW.Test"));

#[test]
fn a_program_records_itself_with_no_daemon_and_no_socket() {
    let dir = tempfile::tempdir().unwrap();
    OWN.register();
    let mut own = Runtime::private().unwrap();
    assert!(matches!(Runtime::private(), Err(RuntimeError::Host(_))), "one a process");
    let file = dir.path().join("own.etl");
    SessionBuilder::new("Own").file(&file).start(own.controller()).unwrap();
    own.controller().enable("Own", &crate::enable()).unwrap();
    crate::eventually("the provider is enabled", || OWN.is_enabled());
    for number in 0..1000u32 {
        assert_eq!(event!(OWN, "Number", u32("number", number)), Outcome::Written);
    }
    let live = SessionBuilder::new("Live").real_time().start(own.controller()).unwrap_err();
    assert_eq!(live.kind(), Some(ErrorKind::InvalidParameter));
    let status = own.controller().stop("Own").unwrap();
    assert_eq!((status.events_written, status.events_lost), (1000, 0));
    let events = events_of(&file);
    assert_eq!(events.len(), 1000);
    assert!(events.iter().all(|event| event.process == std::process::id()));
    drop(own);
    crate::eventually("the provider knows that the host is gone", || !OWN.is_enabled());
    assert_eq!(event!(OWN, "Number", u32("number", 0)), Outcome::NotEnabled);

    // Another one, and a session that stops because the program drops it.
    let mut own = Runtime::private().unwrap();
    let file = dir.path().join("again.etl");
    SessionBuilder::new("Own").file(&file).start(own.controller()).unwrap();
    own.controller().enable("Own", &crate::enable()).unwrap();
    crate::eventually("the provider is enabled", || OWN.is_enabled());
    assert_eq!(event!(OWN, "Number", u32("number", 7)), Outcome::Written);
    drop(own);
    assert_eq!(events_of(&file).len(), 1);
    OWN.unregister();
}
