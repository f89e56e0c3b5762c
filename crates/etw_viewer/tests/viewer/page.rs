//! The page in a real browser: what a person does, and what is shown then.

use serde_json::{Value, json};

use crate::{PERFVIEW, Page, real, report, small};

/// What the URL says after `#`.
fn state(page: &mut Page, name: &str) -> Value {
    let text = page.browser.value(&format!("new URLSearchParams(location.hash.slice(1)).get('{name}')"));
    text.as_str().map_or(Value::Null, |text| serde_json::from_str(text).unwrap())
}

/// Returns the left, top, width and height of an element.
fn place(page: &mut Page, selector: &str) -> [f64; 4] {
    let found = page.browser.value(&format!(
        "(() => {{ const box = document.querySelector('{selector}').getBoundingClientRect(); \
         return [box.x, box.y, box.width, box.height]; }})()"
    ));
    serde_json::from_value(found).unwrap()
}

/// A number as a cell shows it.
fn number(text: &str) -> f64 {
    text.replace(',', "").parse().unwrap_or_else(|_| panic!("{text}"))
}

fn menu(page: &mut Page, text: &str) {
    page.wait("document.querySelector('.menu button')");
    page.click_on(&format!(
        "[...document.querySelectorAll('.menu button')].find((one) => one.textContent.startsWith('{text}'))"
    ));
}

#[test]
fn a_table_is_grouped_sorted_filtered_searched_and_copied() {
    let Some(path) = real(PERFVIEW) else { return };
    let Some(mut page) = Page::open(path.clone(), "table=\"cpu_sampled\"") else { return };
    let expected = report(&path, "cpu_sampled", &["thread.process"], &["sum(count)"], None);
    let cells = page.cells();
    for wanted in expected.iter().take(3) {
        let row = cells.iter().find(|row| row[0] == wanted["thread.process"].as_str().unwrap()).unwrap();
        // Process, thread, module, function, count.
        assert_eq!(number(&row[4]), wanted["sum(count)"].as_f64().unwrap());
    }
    assert_eq!(cells[0][0], expected[0]["thread.process"]);
    // Open the first group by the keyboard.
    page.browser.click(".virtual tbody td");
    page.key("ArrowRight");
    page.wait("document.querySelectorAll('.virtual tr[aria-expanded=true]').length === 1");
    let opened = page.cells();
    let inner: f64 = opened.iter().filter(|row| !row[1].is_empty()).map(|row| number(&row[4])).sum();
    assert_eq!(inner, number(&cells[0][4]));
    assert_eq!(state(&mut page, "open").as_array().unwrap().len(), 1);
    page.key("ArrowLeft");
    page.wait("document.querySelectorAll('.virtual tr[aria-expanded=true]').length === 0");
    // Sort by name.
    page.click_on("document.querySelector('.virtual thead th')");
    page.wait("JSON.parse(new URLSearchParams(location.hash.slice(1)).get('sort')).by === 'label'");
    page.wait("document.querySelector('.virtual thead th').textContent.includes('▴')");
    let sorted: Vec<String> = page.cells().into_iter().map(|row| row[0].clone()).collect();
    assert!(sorted.windows(2).all(|pair| pair[0] <= pair[1]), "{sorted:?}");
    // Filter to a group by the menu.
    let first = sorted[0].clone();
    page.browser.value(
        "document.querySelector('.virtual tbody td').dispatchEvent(new MouseEvent('contextmenu', { bubbles: true, \
         cancelable: true, button: 2, clientX: 300, clientY: 500 }))",
    );
    menu(&mut page, "Filter to");
    page.wait("document.querySelectorAll('.virtual tbody tr').length === 1");
    assert_eq!(page.cells()[0][0], first);
    assert_eq!(state(&mut page, "filters")[0]["op"], "is");
    page.click_on("document.querySelector('.filter .close')");
    page.wait("document.querySelectorAll('.virtual tbody tr').length > 1");
    // Find.
    page.click_on(
        "[...document.querySelectorAll('.titlebar button')].find((one) => one.textContent === 'Find')",
    );
    page.wait("document.activeElement.type === 'search'");
    page.browser.type_text("test.x64");
    page.key("Enter");
    page.wait("document.querySelector('td.cursor')?.textContent.startsWith('Test.x64')");
    // Copy.
    page.browser.value("navigator.clipboard.writeText = async (text) => { window.copied = text; }");
    page.browser.value("document.querySelector('.virtual').focus()");
    page.browser.value(
        "document.querySelector('.virtual').dispatchEvent(new KeyboardEvent('keydown', { key: 'c', ctrlKey: true, bubbles: true }))",
    );
    page.wait("window.copied");
    let copied = page.browser.value("window.copied");
    let lines: Vec<&str> = copied.as_str().unwrap().lines().collect();
    assert!(
        lines.len() == 2 && lines[0].starts_with("Process\tThread") && lines[1].starts_with("Test.x64"),
        "{lines:?}"
    );
    page.check();
}

#[test]
fn columns_move_over_the_golden_bar() {
    let Some(path) = real(PERFVIEW) else { return };
    let Some(mut page) = Page::open(path.clone(), "table=\"disk\"") else { return };
    let keys = state(&mut page, "keys");
    assert_eq!(keys, json!(["disk", "operation", "thread.process", "file"]));
    // Bring the second column before the first by the keyboard.
    page.browser.value("document.querySelectorAll('.chip.keys')[1].focus()");
    page.key("ArrowLeft");
    page.wait("document.querySelector('.virtual thead th').textContent.startsWith('Operation')");
    let expected = report(&path, "disk", &["operation"], &["sum(size)"], None);
    let cells = page.cells();
    assert_eq!(cells.len(), expected.len());
    for wanted in &expected {
        let row = cells.iter().find(|row| row[0] == wanted["operation"].as_str().unwrap()).unwrap();
        assert_eq!(number(&row[4]), wanted["rows"].as_f64().unwrap());
    }
    // Add a count, and remove a key.
    page.browser.value(
        "(() => { const add = document.querySelector('.zone.values .add'); add.value = 'unique(file)'; \
         add.dispatchEvent(new Event('change', { bubbles: true })); })()",
    );
    page.wait("[...document.querySelectorAll('.virtual thead th')].some((one) => one.textContent === 'File (Unique)')");
    page.browser.value("document.querySelectorAll('.chip.keys')[2].focus()");
    page.key("Delete");
    page.wait("document.querySelectorAll('.chip.keys').length === 3");
    // The editor lists every column with its meaning.
    page.click_on(
        "[...document.querySelectorAll('.titlebar button')].find((one) => one.textContent === 'Columns')",
    );
    page.wait("document.querySelector('.editor tbody tr')");
    page.click_on(
        "[...document.querySelectorAll('.editor button')].find((one) => one.textContent.startsWith('Reset'))",
    );
    page.wait("document.querySelectorAll('.chip.keys').length === 4");
    page.check();
}

#[test]
fn a_time_is_selected_zoomed_and_marked() {
    let Some(path) = real(PERFVIEW) else { return };
    let Some(mut page) = Page::open(path, "table=\"events\"") else { return };
    page.wait("window.etwFrame.lanes > 3");
    let rows = |page: &mut Page| -> f64 {
        page.wait("!document.querySelector('.busy')");
        let text = page.browser.value("document.querySelector('.status').textContent");
        let text = text.as_str().unwrap().to_owned();
        let (_, rest) = text.split_once(", ").unwrap_or_else(|| panic!("{text}"));
        number(rest.split_once(" rows").unwrap().0)
    };
    let all = rows(&mut page);
    let [x, y, width, height] = place(&mut page, ".lanes canvas");
    page.browser.drag((x + width * 0.25, y + height / 2.0), (x + width * 0.5, y + height / 2.0));
    page.wait("document.querySelector('.filter.time')");
    let select = state(&mut page, "select");
    let length =
        page.browser.value("fetch('/api/catalog').then((one) => one.json()).then((one) => one.length)");
    let part = |value: &Value| value.as_f64().unwrap() / length.as_f64().unwrap();
    assert!((part(&select[0]) - 0.25).abs() < 0.01 && (part(&select[1]) - 0.5).abs() < 0.01, "{select}");
    std::thread::sleep(std::time::Duration::from_millis(300));
    let selected = rows(&mut page);
    assert!(selected < all, "{selected} {all}");
    // The same from the server.
    let question =
        json!({ "table": "events", "filters": [], "from": select[0], "to": select[1], "buckets": 10 });
    let counts = page.browser.value(&format!(
        "fetch('/api/strip', {{ method: 'POST', headers: {{ 'X-OpenETW': '1', 'Content-Type': 'application/json' }}, \
         body: JSON.stringify({question}) }}).then((one) => one.json()).then((one) => one.counts.reduce((a, b) => a + b))"
    ));
    // On a busy machine the last answer takes a while.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while counts.as_f64() != Some(rows(&mut page)) {
        assert!(std::time::Instant::now() < end, "{counts} {selected}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    page.key("z");
    page.wait("new URLSearchParams(location.hash.slice(1)).has('view')");
    assert_eq!(state(&mut page, "view"), select);
    page.key("w");
    page.wait("new URLSearchParams(location.hash.slice(1)).get('view') !== new URLSearchParams(location.hash.slice(1)).get('select')");
    page.key("d");
    page.key("m");
    page.wait("new URLSearchParams(location.hash.slice(1)).has('marks')");
    page.key("Backspace");
    page.wait("new URLSearchParams(location.hash.slice(1)).get('view') === new URLSearchParams(location.hash.slice(1)).get('select')");
    page.key("Backspace");
    page.wait("!new URLSearchParams(location.hash.slice(1)).has('view')");
    page.key("Escape");
    page.wait("!document.querySelector('.filter.time')");
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while rows(&mut page) != all {
        assert!(std::time::Instant::now() < end, "{all}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let ms = page.browser.value("window.etwFrame.ms");
    println!("script for a frame: {ms} ms");
    page.check();
}

#[test]
fn lanes_and_tables_lead_to_each_other() {
    let Some(path) = real(PERFVIEW) else { return };
    let Some(mut page) = Page::open(path.clone(), "table=\"events\"") else { return };
    let expected = report(&path, "cpu_sampled", &["thread.process"], &["sum(count)"], None);
    let process = expected
        .iter()
        .filter_map(|row| row["thread.process"].as_str())
        .find(|name| name.starts_with("Test.x64"));
    let process = process.unwrap();
    page.click_on(&format!(
        "[...document.querySelectorAll('.lanes .lane')].find((one) => one.textContent === '{process}')"
    ));
    page.wait("new URLSearchParams(location.hash.slice(1)).get('table') === '\"cpu_sampled\"'");
    page.wait(&format!("document.querySelector('.virtual tbody td')?.textContent === '{process}'"));
    assert_eq!(page.cells().len(), 1);
    // The selected group lights its lane.
    page.browser.click(".virtual tbody td");
    page.wait(&format!("document.querySelector('.lanes .lit')?.textContent === '{process}'"));
    page.check();
}

#[test]
fn stacks_are_a_tree_and_a_graph() {
    let Some(path) = real(PERFVIEW) else { return };
    let Some(mut page) = Page::open(path, "table=\"cpu_sampled\"&tab=\"stacks\"") else { return };
    let cells = page.cells();
    assert!(cells.len() > 1 && !cells[0][0].contains('!'), "{:?}", cells[0]);
    let shares: Vec<f64> = cells.iter().map(|row| number(&row[2])).collect();
    assert!(shares[0] > 0.0 && shares.iter().all(|share| *share <= 100.0));
    assert!(
        page.browser
            .value("document.querySelector('.symbols').title")
            .as_str()
            .unwrap()
            .contains("to fetch it")
    );
    page.click_on(
        "[...document.querySelectorAll('.stacks .tabs button')].find((one) => one.textContent === 'By name')",
    );
    page.wait("document.querySelector('.virtual td')?.textContent.length > 0 && !document.querySelector('.stacks .busy')");
    page.wait("[...document.querySelectorAll('.virtual tbody td[data-toggle]')].every((one) => one.dataset.toggle === 'none')");
    // Callers of a function by the menu.
    page.browser.value(
        "[...document.querySelectorAll('.virtual tbody td')].find((one) => one.textContent.includes('!')).dispatchEvent(\
         new MouseEvent('contextmenu', { bubbles: true, cancelable: true, button: 2, clientX: 300, clientY: 500 }))",
    );
    menu(&mut page, "Callers");
    page.wait("JSON.parse(new URLSearchParams(location.hash.slice(1)).get('stack')).view === 'callers'");
    page.wait("!document.querySelector('.stacks .busy')");
    let function = state(&mut page, "stack")["function"].as_str().unwrap().to_owned();
    page.wait(&format!("document.querySelector('.virtual tbody td').textContent === {}", json!(function)));
    page.click_on("[...document.querySelectorAll('.stacks .tabs button')].find((one) => one.textContent === 'Flame graph')");
    page.wait(
        "document.querySelectorAll('.flame div').length > 2 && !document.querySelector('.stacks .busy')",
    );
    // From the root to the function that is asked for, and to a caller of it.
    page.click_on("document.querySelectorAll('.flame div')[2]");
    page.wait("document.querySelector('.flame .outer')");
    page.browser.value("document.querySelector('.flame div[tabindex=\"0\"]').focus()");
    page.wait("document.querySelector('.flame-detail').textContent.includes('inclusive')");
    page.key("Escape");
    page.wait("!document.querySelector('.flame .outer')");
    // The search, and the other way up.
    page.key("/");
    page.browser.type_text("!");
    page.wait("document.querySelector('.flame-found').textContent.endsWith('% matched')");
    page.wait("document.querySelector('.flame .hit')");
    let root = "document.querySelector('.flame .root').offsetTop";
    assert_eq!(page.browser.value(root), json!(0));
    page.browser.click(".flame-invert");
    page.wait(&format!("{root} > 0"));
    page.browser.click(".flame-reset");
    page.wait("!document.querySelector('.flame .hit')");
    page.check();
}

#[test]
fn stacks_around_a_function_over_time_and_of_two_times() {
    let Some(path) = real(PERFVIEW) else { return };
    let Some(mut page) = Page::open(path, "table=\"cpu_sampled\"&tab=\"stacks\"") else { return };
    let button = |name: &str| {
        format!(
            "[...document.querySelectorAll('.stacks button')].find((one) => one.textContent === '{name}')"
        )
    };
    // When: bars for parts of the time, explained on hover.
    let headings = page
        .browser
        .value("[...document.querySelectorAll('.virtual thead th')].map((one) => one.textContent)");
    assert!(headings.as_array().unwrap().contains(&json!("When")), "{headings}");
    let bars = page.browser.value("document.querySelector('.virtual tbody td.when').textContent");
    assert_eq!(bars.as_str().unwrap().chars().count(), 32, "{bars}");
    assert!(bars.as_str().unwrap().contains('█'), "{bars}");
    let about = page.browser.value("document.querySelector('.virtual tbody td.when').title");
    assert!(about.as_str().unwrap().contains("the highest is"), "{about}");
    // A sandwich by the menu: the function is outermost in both parts.
    page.browser.value(
        "[...document.querySelectorAll('.virtual tbody td')].find((one) => one.textContent.includes('!')).dispatchEvent(\
         new MouseEvent('contextmenu', { bubbles: true, cancelable: true, button: 2, clientX: 300, clientY: 500 }))",
    );
    menu(&mut page, "Sandwich");
    page.wait("document.querySelectorAll('.stacks .virtual').length === 2");
    let function = state(&mut page, "stack")["function"].as_str().unwrap().to_owned();
    page.wait(&format!(
        "[...document.querySelectorAll('.stacks .virtual')].every((one) => \
         one.querySelector('tbody td')?.textContent === {})",
        json!(function)
    ));
    assert_eq!(page.browser.value("document.querySelector('.between').textContent"), json!(function));
    page.click_on(&button("Flame graph"));
    page.wait("document.querySelectorAll('.stacks .flame').length === 2");
    page.click_on(&button("Call tree"));
    page.wait("document.querySelectorAll('.stacks .virtual').length === 1");
    // Just my code: functions of the system are their modules.
    page.click_on("document.querySelector('.stacks input[type=checkbox]')");
    page.wait("JSON.parse(new URLSearchParams(location.hash.slice(1)).get('stack')).mine === true");
    page.click_on(&button("By name"));
    page.wait("!document.querySelector('.stacks .busy')");
    page.wait("[...document.querySelectorAll('.virtual tbody td')].some((one) => /^nt(oskrnl.exe|dll.dll)!\\?$/.test(one.textContent))");
    let system = page.cells().into_iter().filter(|row| row[0].starts_with("ntoskrnl.exe!")).count();
    assert_eq!(system, 1);
    // The difference of two times.
    let length =
        page.browser.value("fetch('/api/catalog').then((answer) => answer.json()).then((one) => one.length)");
    let length = length.as_i64().unwrap();
    let select = |from: i64, to: i64| {
        format!(
            "(() => {{ const all = new URLSearchParams(location.hash.slice(1)); all.set('select', '[{from},{to}]'); \
             location.hash = all.toString(); }})()"
        )
    };
    page.browser.value(&select(0, length / 2));
    page.wait(&format!("{}.disabled === false", button("Compare")));
    page.click_on(&button("Compare"));
    page.browser.value(&select(length / 2, length));
    page.wait(
        "[...document.querySelectorAll('.virtual thead th')].some((one) => one.textContent === 'Change')",
    );
    page.wait("!document.querySelector('.stacks .busy')");
    assert_eq!(state(&mut page, "stack")["base"], json!([0, length / 2]));
    page.wait("document.querySelector('.virtual tbody td.more, .virtual tbody td.less')");
    page.click_on("document.querySelector('[aria-label=\"End the comparison\"]')");
    page.wait(
        "[...document.querySelectorAll('.virtual thead th')].some((one) => one.textContent === 'When')",
    );
    page.check();
}

#[test]
fn an_event_has_details() {
    let Some(path) = real(PERFVIEW) else { return };
    let Some(mut page) = Page::open(path, "table=\"events\"&flat=true") else { return };
    page.browser.click(".virtual tbody tr:nth-child(5) td");
    page.key("Enter");
    page.wait("document.querySelector('.details .hex')?.textContent.length > 40");
    assert_eq!(state(&mut page, "event"), 4);
    let before = page.browser.value("document.querySelector('.details').textContent");
    assert!(
        before.as_str().unwrap().contains("Provider") || before.as_str().unwrap().contains("Header"),
        "{before}"
    );
    page.key("ArrowDown");
    page.wait("document.querySelector('.details h2').textContent === 'Event 5'");
    page.key("Escape");
    page.wait("!document.querySelector('.details')");
    page.check();
}

#[test]
fn a_link_shows_the_same() {
    let Some(path) = real(PERFVIEW) else { return };
    let link = "table=\"disk\"&keys=[\"operation\",\"disk\"]&values=[\"rows\",\"max(size)\"]&select=[1000000,20000000]\
                &filters=[{\"column\":\"operation\",\"op\":\"is\",\"value\":\"sRead\"}]&theme=\"dark\"";
    let Some(mut page) = Page::open(path, link) else { return };
    let cells = page.cells();
    assert_eq!(cells[0][0], "Read");
    assert_eq!(page.browser.value("getComputedStyle(document.documentElement).colorScheme"), "dark");
    let hash = page.browser.value("location.href");
    page.browser.open("about:blank");
    page.browser.open(hash.as_str().unwrap());
    page.wait("document.querySelector('.virtual td')");
    assert_eq!(page.cells(), cells);
    assert_eq!(page.browser.value("location.href"), hash);
    // Damaged links show what can be read of them.
    let broken = format!("http://{}/#table=%22disk%22&keys=%5B%22operation&view=%22x&none=1", page.address);
    page.browser.open("about:blank");
    page.browser.open(&broken);
    page.wait("document.querySelector('.analysis')");
    assert_eq!(state(&mut page, "table"), "disk");
}

#[test]
fn everything_has_a_name_and_the_keyboard_reaches_it() {
    let Some(path) = real(PERFVIEW) else { return };
    let Some(mut page) = Page::open(path, "table=\"cpu_sampled\"") else { return };
    let nameless = page.browser.value(
        "[...document.querySelectorAll('button, select, input, [role=treegrid], [role=group], nav, section')]\
         .filter((one) => !(one.textContent.trim() && one.tagName === 'BUTTON') && !one.ariaLabel && !one.closest('label') \
         && one.tagName !== 'SECTION').map((one) => one.outerHTML.slice(0, 120))",
    );
    assert_eq!(nameless, json!([]));
    page.key("?");
    page.wait("document.querySelector('.help')");
    page.key("Escape");
    page.wait("!document.querySelector('.help')");
    page.key("F6");
    page.wait("document.activeElement !== document.body");
    page.browser.value("document.querySelector('.virtual').focus()");
    page.key("Enter");
    page.wait("document.querySelectorAll('.virtual tr[aria-expanded=true]').length === 1");
    page.key("ArrowDown");
    page.wait("document.querySelector('tr[aria-selected=true]').ariaRowIndex === '3'");
    let said = page.browser.value("document.querySelector('.grid .sr').textContent");
    assert!(!said.as_str().unwrap().is_empty());
    page.key("ContextMenu");
    page.wait("document.activeElement.role === 'menuitem'");
    page.key("ArrowDown");
    page.key("Escape");
    page.wait("!document.querySelector('.menu') && document.activeElement.classList.contains('virtual')");
    page.check();
}

#[test]
fn the_page_says_when_the_server_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let Some(page) = Page::open(small(folder.path()), "") else { return };
    let Page { mut browser, _viewer: viewer, .. } = page;
    drop(viewer);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while browser.value("document.querySelector('.gone')?.textContent ?? ''") == "" {
        assert!(std::time::Instant::now() < end);
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let text = browser.value("document.querySelector('.gone').textContent");
    assert!(text.as_str().unwrap().contains("etw view has ended"), "{text}");
}

/// Writes a trace whose names and texts are markup, with texts of 30,000 characters and times at the ends of what a clock
/// can hold.
fn write_hostile(path: &std::path::Path) {
    use openetw::etl::encode::{EventMetadata, RecordBuilder, provider_traits};
    use openetw::etl::{EtlWriter, WriterOptions};
    use openetw::{Clock, ClockType, EventDescriptor, ExtendedType, FileTime, Guid, PointerSize, Ticks};
    let clock = Clock::new(ClockType::Qpc, Ticks(1000), FileTime(133_000_000_000_000_000), 10_000_000);
    let file = std::fs::File::create(path).unwrap();
    let mut writer = EtlWriter::new(file, WriterOptions::new(clock, 0x10000, 2)).unwrap();
    let name = "<img src=x onerror=window.hacked=1>";
    let metadata = EventMetadata::new("</script><script>window.hacked=1</script>").field(name, 2).build();
    let traits = provider_traits(name);
    for (number, time) in [2000, 3000, 4000, i64::MAX / 4, 5000].into_iter().enumerate() {
        let mut payload = format!("<svg onload=window.hacked=1>{}", "\u{202e}<b>".repeat(6000)).into_bytes();
        payload.push(0);
        let record = RecordBuilder::event(
            PointerSize::Eight,
            Guid::from_provider_name(name),
            &EventDescriptor::default(),
        )
        .time(Ticks(time))
        .process(100, 7)
        .item(ExtendedType::EVENT_SCHEMA_TL, &metadata)
        .item(ExtendedType::PROVIDER_TRAITS, &traits)
        .payload(&payload)
        .build()
        .unwrap();
        writer.write((number % 2) as u16, &record).unwrap();
    }
    writer.finish(clock.to_filetime(Ticks(6000))).unwrap();
}

#[test]
fn names_with_markup_are_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("<b>.etl");
    write_hostile(&path);
    let Some(mut page) = Page::open(path, "table=\"events\"") else { return };
    let cells = page.cells();
    assert!(cells.iter().any(|row| row[0].contains("<img src=x")), "{cells:?}");
    page.browser.value("document.querySelector('.virtual').focus()");
    page.key("Enter");
    page.wait(
        "[...document.querySelectorAll('.virtual td')].some((one) => one.textContent.includes('<script>'))",
    );
    page.click_on(
        "[...document.querySelectorAll('.titlebar button')].find((one) => one.textContent === 'Rows')",
    );
    page.wait("document.querySelector('.virtual thead th').textContent.startsWith('Time')");
    page.browser.click(".virtual tbody tr:nth-child(4) td");
    page.key("Enter");
    page.wait("document.querySelector('.details .hex')");
    page.wait("document.querySelector('.details').textContent.includes('<svg')");
    page.key("w");
    page.key("s");
    assert_eq!(page.browser.value("typeof window.hacked"), "undefined");
    assert_eq!(page.browser.value("document.querySelectorAll('img, svg, b').length"), 2);
    page.check();
}
