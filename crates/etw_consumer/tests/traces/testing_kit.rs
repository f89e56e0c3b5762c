//! Filters, predicates and callbacks on synthetic events.

use std::cell::RefCell;

use etw_consumer::testing::{EventBuilder, PackError, Proxy, SyntheticRecord, TestValue};
use etw_consumer::{Callbacks, EventError, EventFilter, Predicate, Subscription, Trace};
use etw_etl::encode::RecordBuilder;
use etw_event::{EventDescriptor, Guid, PointerSize};

const KERNEL_PROCESS: &str = "Microsoft-Windows-Kernel-Process";
const IMAGE: &str = r"\Device\HarddiskVolume2\Windows\System32\notepad.exe";

fn process_start() -> EventBuilder {
    EventBuilder::built_in(KERNEL_PROCESS, 1, 0)
        .unwrap()
        .property("ProcessID", 4711)
        .property("CreateTime", 132_445_973_972_118_091_i64)
        .property("ParentProcessID", 4)
        .property("SessionID", 1)
        .property("ImageName", IMAGE)
        .process(4, 8)
}

#[test]
fn predicates_see_headers_properties_and_extended_data() {
    let record = process_start()
        .sid(&[1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0])
        .activity_id(Guid::from_u128(7))
        .stack(&[0x7FF0, 0x7FF8])
        .container_id(Guid::from_u128(9))
        .process_start_key(77)
        .pack()
        .unwrap();
    let mut proxy = Proxy::new();
    let mut check = |expression: &str, expected: bool| {
        let predicate: Predicate = expression.parse().unwrap();
        assert_eq!(proxy.matches(&predicate, &record), expected, "{expression}");
        let filter = EventFilter::default().expression(expression).unwrap();
        assert_eq!(proxy.passes(&filter, &record), expected, "{expression}");
    };
    check("id == 1 and pid == 4 and tid == 8", true);
    check("ProcessID == 4711 and ParentProcessID in (4, 8)", true);
    check(r#"ImageName endswith "\notepad.exe""#, true);
    check(r#"ImageName endswith "\NOTEPAD.EXE""#, false);
    check(r#"ImageName iendswith "\NOTEPAD.EXE""#, true);
    check("user == S-1-5-18", true);
    check("NoSuchProperty == 1", false);
    check("not NoSuchProperty == 1", true);
    proxy
        .event(&record, |event| {
            assert_eq!(event.get::<u32>("ProcessID"), Ok(4711));
            assert_eq!(event.record.stack_trace().unwrap().addresses().collect::<Vec<_>>(), [0x7FF0, 0x7FF8]);
            assert!(matches!(event.get::<u32>("ImageName"), Err(EventError::Property(_))));
        })
        .unwrap();
}

#[test]
fn what_cannot_be_packed_says_why() {
    let check = |builder: EventBuilder, expected: &str| {
        let error = builder.pack().unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    };
    check(EventBuilder::built_in(KERNEL_PROCESS, 1, 0).unwrap(), "property 'ProcessID' has no value");
    check(process_start().property("Nothing", 1), "the event has no property 'Nothing'; it has ProcessID");
    check(process_start().property("ProcessID", "text"), "property 'ProcessID' of type UInt32 cannot hold");
    check(
        process_start().property("ProcessID", 1i64 << 40),
        "property 'ProcessID' of type UInt32 cannot hold",
    );
    let error = EventBuilder::built_in("No-Such-Provider", 1, 0).unwrap_err();
    assert!(matches!(error, PackError::NoSchema { .. }));
}

#[test]
fn incomplete_events_have_zeros_and_empty_texts() {
    let builder = EventBuilder::built_in(KERNEL_PROCESS, 1, 0).unwrap();
    let record = builder.property("ParentProcessID", 4).pack_incomplete().unwrap();
    let mut proxy = Proxy::new();
    proxy
        .event(&record, |event| {
            assert_eq!(event.get::<u32>("ProcessID"), Ok(0));
            assert_eq!(event.get::<u32>("ParentProcessID"), Ok(4));
            assert_eq!(event.get::<String>("ImageName"), Ok(String::new()));
            assert!(event.properties.unwrap().error().is_none());
        })
        .unwrap();
    let cut = process_start().pack_raw(&[1, 0, 0, 0, 2]).unwrap();
    assert!(proxy.matches(&"ProcessID == 1".parse().unwrap(), &cut));
    assert!(!proxy.matches(&Predicate::property_is("CreateTime"), &cut));
}

#[test]
fn callbacks_match_provider_level_keyword_and_id() {
    let seen = RefCell::new(Vec::new());
    let note = |what: &'static str| {
        let seen = &seen;
        move |event: &etw_consumer::Event<'_>| {
            seen.borrow_mut().push((what, event.record.descriptor().id));
            Ok(())
        }
    };
    let provider = |text: &str| Subscription::to(text.parse().unwrap());
    let mut callbacks = Callbacks::new()
        .subscribe(
            provider(KERNEL_PROCESS)
                .on_event(note("all"))
                .on(Predicate::property_iends_with("ImageName", r"\NOTEPAD.EXE"), note("notepad"))
                .on(Predicate::id_is(2), note("never"))
                .on(Predicate::any_event(), |event| {
                    event.get::<u32>("NoSuchProperty")?;
                    Ok(())
                })
                .on_error(|_, error| {
                    assert!(error.to_string().contains("NoSuchProperty"), "{error}");
                    seen.borrow_mut().push(("error", 0));
                }),
        )
        .subscribe(provider(&format!("{KERNEL_PROCESS}:Error")).on_event(note("errors only")))
        .subscribe(provider(&format!("{KERNEL_PROCESS}::2,3")).on_event(note("ids 2 and 3")))
        .subscribe(provider(&format!("{KERNEL_PROCESS}::1:0x10")).on_event(note("keyword 0x10")))
        .subscribe(provider(&format!("{KERNEL_PROCESS}::1:0x20")).on_event(note("keyword 0x20")))
        .otherwise(|event| seen.borrow_mut().push(("otherwise", event.record.descriptor().id)));

    let other = EventDescriptor { id: 9, ..EventDescriptor::default() };
    let other = RecordBuilder::event(PointerSize::Eight, Guid::from_u128(1), &other).build().unwrap();
    let mut proxy = Proxy::new();
    proxy.push(&mut callbacks, &process_start().pack().unwrap());
    proxy.push(&mut callbacks, &SyntheticRecord::from_bytes(other).unwrap());
    drop(callbacks);
    assert_eq!(
        *seen.borrow(),
        [("all", 1), ("notepad", 1), ("error", 0), ("keyword 0x10", 1), ("otherwise", 9)]
    );
}

#[test]
fn values_take_the_form_of_their_property() {
    let record = EventBuilder::built_in(KERNEL_PROCESS, 1, 0)
        .unwrap()
        .property("ImageName", TestValue::Bytes(vec![b'x', 0]))
        .pack_incomplete()
        .unwrap();
    assert!(record.as_bytes().ends_with(&[0, 0, b'x', 0]), "bytes are taken as they are");
    let text = process_start().pack().unwrap();
    assert!(text.as_bytes().ends_with(&[b'e', 0, 0, 0]), "UTF-16 with its null");
    assert!(SyntheticRecord::from_bytes(vec![1, 2, 3]).is_err());
}

#[test]
fn keywords_by_name_are_looked_up_or_refused() {
    let open = |provider: &str| {
        let filter = EventFilter::default().provider(provider).unwrap();
        let error = Trace::builder().filter(&filter).file("no such file").open().unwrap_err();
        error.to_string()
    };
    assert!(open(&format!("{KERNEL_PROCESS}:::WINEVENT_KEYWORD_PROCESS")).contains("no such file"));
    let error = open(&format!("{KERNEL_PROCESS}:::NO_SUCH_KEYWORD"));
    assert!(error.contains("has no keyword 'NO_SUCH_KEYWORD'; it has "), "{error}");
}
