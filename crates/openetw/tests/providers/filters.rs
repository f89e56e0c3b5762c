//! Settings with which sessions enable a provider: levels, keywords, filters, groups, state.

use openetw::provider::{ControlCode, Outcome};
use openetw::session::{
    EnableBuilder, EnableProperties, Filter, PayloadFilter, PayloadOperator, PayloadPredicate,
};
use openetw::{EventDescriptor, Guid, Keyword, Level, event, provider};

use crate::{Seen, TestHost, enable, ends_well, hears, until_stdin_ends};

const GROUP: Guid = Guid::from_u128(0x4f50731a_89cf_4782_b3e0_dce8c90476ba);

provider! {
    static NUMBERED: "OpenETW.Test.Numbered";
    static ONE: "OpenETW.Test.GroupOne", group: GROUP;
    static TWO: "OpenETW.Test.GroupTwo", group: GROUP;
    static ALONE: "OpenETW.Test.Alone";
    static STATE: "OpenETW.Test.State";
}

/// Events 1 to 3 by id, and A and B by name.
pub(crate) fn write_numbered() {
    NUMBERED.register();
    let levels = [Level::ERROR, Level::INFORMATION, Level::VERBOSE];
    for (id, level) in (1..).zip(levels) {
        let keyword = Keyword(1 << id);
        NUMBERED.write(&EventDescriptor { id, level, keyword, ..EventDescriptor::ZERO }, &u32::from(id));
    }
    event!(NUMBERED, "A", level: Level::VERBOSE, str8("text", "Some Text"), i32("n", -5));
    event!(NUMBERED, "B", level: Level::ERROR, str8("text", "other"), i32("n", 7));
}

/// Returns `1`, `2`, `3`, `A`, `B` for the events present, followed by `+` for those with a stack.
fn marks(seen: &[Seen]) -> String {
    let mark = |event: &Seen| {
        let name = match event.descriptor.id {
            0 => event.text.chars().next().unwrap(),
            id => char::from(b'0' + id as u8),
        };
        if event.stack_len > 0 { format!("{name}+") } else { name.to_string() }
    };
    seen.iter().map(mark).collect()
}

#[test]
fn sessions_get_the_requested_events_of_one_provider() {
    let us = std::env::current_exe().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let of = |spec: &str| enable(&format!("OpenETW.Test.Numbered{spec}"));
    let payload = |field: &str, operator, value: &str| {
        let predicate = PayloadPredicate { field: field.into(), operator, value: value.into() };
        Filter::Payload(PayloadFilter {
            event: None,
            any: false,
            predicates: vec![predicate],
            layouts: vec![],
        })
    };
    let names = |include, names: &[&str]| Filter::EventNames {
        include,
        level: Level(0),
        any: Keyword(0),
        all: Keyword(0),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
    };
    let stack_levels = |include| Filter::StackWalkLevelKeyword {
        include,
        level: Level::ERROR,
        any: Keyword(0),
        all: Keyword(0),
    };
    let checks: Vec<(EnableBuilder, &str)> = vec![
        (of(""), "123AB"),
        (of(":4"), "12B"),
        (of(":::0x4"), "2AB"),
        (of(":::0x4").properties(EnableProperties::IGNORE_KEYWORD_0), "2"),
        (of(":::0xE:0x8"), "3AB"),
        (of("::1,3"), "13AB"),
        (of("").filter(Filter::EventIds { include: false, ids: vec![1, 3] }), "2AB"),
        (of("").filter(names(true, &["A"])), "123A"),
        (of("").filter(names(false, &["A"])), "123B"),
        (of("").filter(payload("n", PayloadOperator::Greater, "0")), "123B"),
        (of("").filter(payload("text", PayloadOperator::Contains, "SOME")), "123A"),
        (of("").filter(Filter::Pids(vec![1])), ""),
        (of("").filter(Filter::ExecutableNames(vec![us, "other".into()])), "123AB"),
        (of("").filter(Filter::ExecutableNames(vec!["other".into()])), ""),
        (of("").stacks(), "1+2+3+A+B+"),
        (of("").filter(Filter::StackWalkIds { include: true, ids: vec![2] }), "12+3AB"),
        (of("").stacks().filter(Filter::StackWalkIds { include: false, ids: vec![2] }), "1+23+AB"),
        (of("").filter(Filter::StackWalkNames { include: true, names: vec!["B".into()] }), "123AB+"),
        (of("").filter(stack_levels(true)), "1+23AB+"),
        (of("").filter(stack_levels(false)), "12+3+A+B"),
    ];
    // Eight sessions enable the provider at once, each with other settings.
    for checks in checks.chunks(8) {
        let host = TestHost::new();
        for (number, (enable, _)) in checks.iter().enumerate() {
            host.start(&format!("S{number}"), std::slice::from_ref(enable));
        }
        if checks.len() == 8 {
            let mut ninth = host.start("Ninth", &[]);
            let error = ninth.enable("Ninth", &of("")).unwrap_err();
            assert!(error.to_string().contains("8 sessions"), "{error}");
        }
        host.run_role("numbered");
        for (number, (enable, expected)) in checks.iter().enumerate() {
            assert_eq!(marks(&host.stop(&format!("S{number}"))), *expected, "{enable:?}");
        }
    }
}

#[test]
fn a_filter_of_processes_lets_one_of_them_through() {
    let host = TestHost::new();
    let mut controller = host.start("Pid", &[]);
    // The first waits for its providers to be enabled, so its id is known by then.
    let mut first = host.start_role("enabled");
    hears(&mut first, "registered");
    let filter = Filter::Pids(vec![first.id()]);
    controller.enable("Pid", &enable("OpenETW.Test.Enabled").filter(filter)).unwrap();
    hears(&mut first, "written");
    let mut second = host.start_role("enabled");
    hears(&mut second, "registered");
    let pid = first.id();
    ends_well(first);
    second.kill().unwrap();
    second.wait().unwrap();
    let seen = host.stop("Pid");
    assert!(!seen.is_empty() && seen.iter().all(|event| event.pid == pid));
}

pub(crate) fn write_group() {
    ONE.register();
    TWO.register();
    ALONE.register();
    event!(ONE, "E", u32("n", 1));
    event!(TWO, "E", u32("n", 2));
    event!(ALONE, "E", u32("n", 3));
}

#[test]
fn a_group_is_enabled_with_all_its_members() {
    let host = TestHost::new();
    let group = enable(&GROUP.to_string()).properties(EnableProperties::PROVIDER_GROUP);
    host.start("Group", &[group]);
    host.start("Member", &[enable("OpenETW.Test.GroupTwo")]);
    host.run_role("group");
    let texts = |session: &str| host.stop(session).into_iter().map(|event| event.text).collect::<Vec<_>>();
    assert_eq!(texts("Group"), ["E n=1", "E n=2"]);
    assert_eq!(texts("Member"), ["E n=2"]);
}

pub(crate) fn answer_for_state() {
    STATE.register_with(|control| match control.code {
        ControlCode::CaptureState => {
            assert_eq!(event!(STATE, "State", u64("any", control.any.0)), Outcome::Written);
            println!("state");
        }
        ControlCode::Enable => {
            event!(STATE, "Enabled", u8("level", control.level.0));
            println!("on {}", control.level.0);
        }
        ControlCode::Disable => println!("off {}", control.is_enabled),
    });
    println!("registered");
    until_stdin_ends();
}

#[test]
fn callbacks_see_sessions_and_write_state_to_one_of_them() {
    let host = TestHost::new();
    let mut controller = host.start("A", &[enable("OpenETW.Test.State:4")]);
    let mut child = host.start_role("state");
    hears(&mut child, "registered");
    host.start("B", &[enable("OpenETW.Test.State:5")]);
    hears(&mut child, "on 5");
    controller.capture_state("B", STATE.guid(), Level(0), Keyword(0x30)).unwrap();
    hears(&mut child, "state");
    controller.disable("A", STATE.guid()).unwrap();
    hears(&mut child, "off true");
    let (a, b) = (host.stop("A"), host.stop("B"));
    hears(&mut child, "off false");
    ends_well(child);
    let texts = |seen: Vec<Seen>| seen.into_iter().map(|event| event.text).collect::<Vec<_>>();
    // Events from the callback for B are ordinary events, so A receives them too if its level permits.
    assert!(!texts(a).iter().any(|text| text.starts_with("State")));
    assert_eq!(texts(b).iter().filter(|text| *text == "State any=48").count(), 1);
}
