//! Messages to processes with providers.

use etw_protocol::ToProvider;
use etw_sys::SharedWords;
use openetw::session::{EnableBuilder, ErrorKind, Filter, SessionBuilder};
use openetw::{Guid, Keyword, Level};

use crate::TestHost;

fn enable(spec: &str) -> EnableBuilder {
    EnableBuilder::new(spec.parse().unwrap())
}

#[test]
fn enabled_before_and_after_it_registers() {
    let host = TestHost::new();
    let mut controller = host.controller();
    SessionBuilder::new("S").file(host.path("s.etl")).start(&mut controller).unwrap();
    controller.enable("S", &enable("Early:Warning::0x10")).unwrap();

    let mut process = host.provider();
    process.register(7, "Early");
    let (region, files) = process.next_with_files::<ToProvider>();
    let ToProvider::Region { slot, epoch } = region else { panic!("{region:?}") };
    let words = SharedWords::map(&files[0]).unwrap();
    assert!(etw_buffer::Region::attach(words).is_ok());
    let ToProvider::Enable { id: 7, slot: same, epoch: 1, enable: wanted } = process.next() else {
        panic!("an enable is due")
    };
    assert_eq!((same, epoch, wanted.level, wanted.any), (slot, 1, Level::WARNING, Keyword(0x10)));
    assert_eq!(process.next::<ToProvider>(), ToProvider::Registered { id: 7 });

    // A provider that is not enabled yet, and the existing region.
    process.register(8, "Late");
    assert_eq!(process.next::<ToProvider>(), ToProvider::Registered { id: 8 });
    controller.enable("S", &enable("Late")).unwrap();
    assert!(matches!(process.next(), ToProvider::Enable { id: 8, .. }));
    controller.enable("S", &enable("Late:1")).unwrap();
    let ToProvider::Enable { id: 8, enable: wanted, .. } = process.next() else { panic!("an update is due") };
    assert_eq!(wanted.level, Level::CRITICAL);

    let enables = controller.enables("S").unwrap();
    assert_eq!(enables.len(), 2);
    assert!(enables.iter().all(|enabled| enabled.processes == 1 && !enabled.name.is_empty()));
    let late = Guid::from_provider_name("Late");
    controller.capture_state("S", late, Level::VERBOSE, Keyword(3)).unwrap();
    let ToProvider::CaptureState { id: 8, any: Keyword(3), .. } = process.next() else {
        panic!("a capture of state is due")
    };
    controller.disable("S", late).unwrap();
    assert_eq!(process.next::<ToProvider>(), ToProvider::Disable { id: 8, slot });
    assert_eq!(controller.disable("S", late).unwrap_err().kind(), Some(ErrorKind::NotFound));
    controller.stop("S").unwrap();
    assert_eq!(process.next::<ToProvider>(), ToProvider::CloseRegion { slot });
}

#[test]
fn a_provider_with_another_guid_is_enabled_by_its_name() {
    let host = TestHost::new();
    let mut controller = host.controller();
    SessionBuilder::new("S").file(host.path("s.etl")).start(&mut controller).unwrap();
    let own = Guid::from_u128(0x3970f9cf_2c0c_4f11_b1cc_e3a1e99588aa);
    // Before it registers.
    controller.enable("S", &enable("MyCompany.MyProvider:Warning")).unwrap();
    let mut process = host.provider();
    process.register_as(1, "mycompany.MyProvider", own);
    let (region, _files) = process.next_with_files::<ToProvider>();
    assert!(matches!(region, ToProvider::Region { .. }), "{region:?}");
    let ToProvider::Enable { id: 1, enable: wanted, .. } = process.next() else { panic!("an enable is due") };
    assert_eq!(wanted.level, Level::WARNING);
    assert_eq!(process.next::<ToProvider>(), ToProvider::Registered { id: 1 });
    // Its own GUID has precedence, and the name is in force again without it.
    controller.enable("S", &enable(&format!("{own}:Error"))).unwrap();
    let ToProvider::Enable { id: 1, enable: wanted, .. } = process.next() else { panic!("an enable is due") };
    assert_eq!(wanted.level, Level::ERROR);
    controller.disable("S", own).unwrap();
    let ToProvider::Enable { id: 1, enable: wanted, .. } = process.next() else { panic!("an enable is due") };
    assert_eq!(wanted.level, Level::WARNING);
    controller.disable("S", Guid::from_provider_name("MyCompany.MyProvider")).unwrap();
    assert!(matches!(process.next(), ToProvider::Disable { id: 1, .. }));
}

#[test]
fn who_is_registered() {
    let host = TestHost::new();
    let mut controller = host.controller();
    SessionBuilder::new("S").file(host.path("s.etl")).start(&mut controller).unwrap();
    let stacks = enable("Shop:Warning::0x10:0x10").stacks();
    controller.enable("S", &stacks).unwrap();
    // One whose filters exclude this process.
    SessionBuilder::new("T").file(host.path("t.etl")).start(&mut controller).unwrap();
    controller.enable("T", &enable("Shop").filter(Filter::Pids(vec![1]))).unwrap();
    let mut process = host.provider();
    process.register(1, "Shop");
    while process.next::<ToProvider>() != (ToProvider::Registered { id: 1 }) {}
    let found = controller.providers().unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].name.as_str(), &found[0].pids[..]), ("Shop", &[std::process::id()][..]));
    assert_eq!(found[0].sessions, [controller.query("S").unwrap().logger_id]);
    let enabled = &found[0].enables[0];
    assert_eq!((found[0].enables.len(), enabled.logger_id), (1, found[0].sessions[0]));
    assert_eq!((enabled.level, enabled.any, enabled.all), (Level::WARNING, Keyword(0x10), Keyword(0x10)));
    assert_eq!((enabled.properties.0, &enabled.pids), (4, &found[0].pids));
    drop(process);
    for _ in 0..400 {
        if controller.providers().unwrap().is_empty() {
            assert_eq!(controller.query("S").unwrap().processes, 0);
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("the provider is still there");
}

#[test]
fn filters_of_processes_are_the_hosts() {
    let host = TestHost::new();
    let mut controller = host.controller();
    SessionBuilder::new("S").file(host.path("s.etl")).start(&mut controller).unwrap();
    let mut process = host.provider();
    process.register(1, "Shop");
    assert_eq!(process.next::<ToProvider>(), ToProvider::Registered { id: 1 });
    let us = std::process::id();
    controller.enable("S", &enable("Shop").filter(Filter::Pids(vec![us + 1]))).unwrap();
    assert_eq!(controller.enables("S").unwrap()[0].processes, 0);
    controller.enable("S", &enable("Shop").filter(Filter::Pids(vec![us]))).unwrap();
    assert!(matches!(process.next(), ToProvider::Region { .. }));
    assert!(matches!(process.next(), ToProvider::Enable { .. }));
    // Changed so that it no longer passes.
    let other = Filter::ExecutableNames(vec!["another-program.exe".to_owned()]);
    controller.enable("S", &enable("Shop").filter(other)).unwrap();
    assert!(matches!(process.next(), ToProvider::Disable { .. }));
}
