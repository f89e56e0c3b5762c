//! Hosts that are absent, start later, stop, are killed and restart while a program continues.

use openetw::provider::Outcome;
use openetw::session::{Controller, Host, HostOptions, Instance, SessionBuilder};
use openetw::{Schemas, event, provider};

use crate::{TestHost, enable, ends_well, hears, read, start_role, until, until_stdin_ends};

provider!(static ENABLED: "OpenETW.Test.Enabled");

/// Hosts the instance of its environment.
pub(crate) fn be_a_host() {
    let instance = Instance::named().unwrap();
    let host = Host::bind(HostOptions::new(instance), |_| {}).unwrap().spawn().unwrap();
    println!("hosting");
    until_stdin_ends();
    drop(host);
}

/// Writes ten events whenever a session enables the provider.
pub(crate) fn write_when_enabled() {
    std::thread::spawn(|| {
        until_stdin_ends();
        std::process::exit(0);
    });
    ENABLED.register();
    println!("registered");
    let mut number = 0u32;
    loop {
        while !ENABLED.is_enabled() {
            assert_eq!(event!(ENABLED, "E", u32("n", number)), Outcome::NotEnabled);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        for _ in 0..10 {
            assert_eq!(event!(ENABLED, "E", u32("n", number)), Outcome::Written);
            number += 1;
        }
        println!("written");
        until("the session does not end", || !ENABLED.is_enabled());
        println!("disabled");
    }
}

#[test]
fn programs_outlive_hosts() {
    let dir = tempfile::tempdir().unwrap();
    let mut program = start_role(dir.path(), "enabled");
    hears(&mut program, "registered");
    let mut host = TestHost::at(dir);
    let check = |host: &TestHost, from: u32| {
        let texts: Vec<String> = host.stop("S").into_iter().map(|event| event.text).collect();
        assert_eq!(texts, (from..from + 10).map(|n| format!("E n={n}")).collect::<Vec<_>>());
    };
    // A host that starts later, and one after it has stopped.
    for round in 0..2 {
        host.start("S", &[enable("OpenETW.Test.Enabled")]);
        hears(&mut program, "written");
        check(&host, round * 10);
        hears(&mut program, "disabled");
        drop(host.host);
        host = TestHost::at(host.dir);
    }
    // One that is killed.
    let TestHost { host: ends, dir } = host;
    drop(ends);
    let instance = Instance::at(dir.path());
    for _ in 0..3 {
        let mut dying = start_role(dir.path(), "host");
        hears(&mut dying, "hosting");
        let mut controller = Controller::connect_to(&instance).unwrap();
        SessionBuilder::new("Dies").file(dir.path().join("dies.etl")).start(&mut controller).unwrap();
        controller.enable("Dies", &enable("OpenETW.Test.Enabled")).unwrap();
        hears(&mut program, "written");
        dying.kill().unwrap();
        dying.wait().unwrap();
        hears(&mut program, "disabled");
        // Everything written by then can be read.
        let seen = read(&dir.path().join("dies.etl"), &Schemas::new());
        assert!(seen.iter().all(|event| event.text.starts_with("E n=")));
    }
    let host = TestHost::at(dir);
    host.start("S", &[enable("OpenETW.Test.Enabled")]);
    hears(&mut program, "written");
    check(&host, 50);
    ends_well(program);
}
