//! `etw report --tree`, pages with flame graphs, and `etw compare`, on a real trace.

use etw_testkit::browser::Browser;
use serde_json::Value;

use crate::{Etw, json_lines};

/// The path of a trace of Windows with samples and their stacks.
fn trace() -> Option<String> {
    let find = |trace: &etw_testkit::data::TraceFile| trace.name == "microsoft-perfview/net.4.5.2.x64.etl";
    let trace = etw_testkit::data::traces()?.into_iter().find(find)?;
    Some(trace.path.to_str().unwrap().to_owned())
}

fn tree(etw: &Etw, trace: &str, args: &[&str]) -> Value {
    let output = etw.ok(&[&["report", trace, "--format", "json", "--min-percent", "0"], args].concat());
    let mut report = json_lines(&output).remove(0);
    report["trees"]["functions"].take()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

fn nodes(tree: &Value) -> &[Value] {
    tree["nodes"].as_array().unwrap()
}

/// The sum of the exclusive weights of all nodes.
fn sum(tree: &Value) -> u64 {
    nodes(tree).iter().map(|node| number(&node["exclusive"])).sum()
}

#[test]
fn every_view_of_a_real_trace_has_its_weight() {
    let Some(trace) = trace() else { return };
    let etw = Etw::new();
    let process = ["--process", "Test.x64"];
    let of = |args: &[&str]| tree(&etw, &trace, &[&process, args].concat());
    let functions = json_lines(&etw.ok(&["report", &trace, "--format", "json", "--table", "cpu"])).remove(0);
    let rows = functions["tables"]["cpu"]["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["process"] == "Test.x64.exe").unwrap();
    let weight = number(&row["weight_ns"]);
    for view in ["top-down", "bottom-up", "by-name"] {
        let tree = of(&["--tree", view]);
        assert_eq!((number(&tree["total"]), sum(&tree)), (weight, weight), "{view}");
    }
    let all = tree(&etw, &trace, &["--tree", "top-down"]);
    let without = tree(&etw, &trace, &["--tree", "top-down", "--pid", "0"]);
    // The idle process is left out, and nothing else.
    assert_eq!(number(&all["unselected"]), number(&without["total"]));
    assert!(nodes(&all).iter().all(|node| node["depth"] != 0 || node["name"] != "Idle"));
    let top_down = of(&["--tree", "top-down"]);
    for node in nodes(&top_down) {
        let parent = &node["parent"];
        match number(&node["depth"]) {
            0 => assert_eq!(*parent, Value::Null),
            depth => {
                let parent = &nodes(&top_down)[number(parent) as usize];
                assert_eq!(number(&parent["depth"]) + 1, depth);
                assert!(number(&parent["inclusive"]) >= number(&node["inclusive"]));
            }
        }
    }
    // Callers and callees of what is below the process.
    let name = "ntdll.dll!*";
    let inside = of(&["--tree", "top-down", "--include", name]);
    for view in ["callers", "callees"] {
        let tree = of(&["--tree", &format!("{view}={name}")]);
        assert_eq!(sum(&tree), number(&inside["total"]), "{view}");
        assert_eq!(nodes(&tree).iter().filter(|node| node["depth"] == 0).count(), 1);
    }
    let outside = of(&["--tree", "top-down", "--exclude", name]);
    assert_eq!(number(&inside["total"]) + number(&outside["total"]), weight);
    assert!(number(&inside["total"]) > 0);
}

#[test]
fn trees_are_filtered_by_time_and_thread_and_shaped() {
    let Some(trace) = trace() else { return };
    let etw = Etw::new();
    let total = |args: &[&str]| {
        let args = [&["--process", "Test.x64", "--tree", "top-down"], args].concat();
        number(&tree(&etw, &trace, &args)["total"])
    };
    let all = total(&[]);
    assert_eq!(total(&["--to", "5"]) + total(&["--from", "5"]), all);
    let threads = json_lines(&etw.ok(&[
        "report",
        &trace,
        "--format",
        "json",
        "--table",
        "threads",
        "--process",
        "Test.x64",
    ]));
    let threads = threads[0]["tables"]["threads"]["rows"].as_array().unwrap().clone();
    let by_thread = threads.iter().map(|row| {
        let of_thread = total(&["--tid", &row["thread_id"].to_string()]);
        assert_eq!(of_thread, number(&row["weight_ns"]), "{row}");
        of_thread
    });
    assert_eq!(by_thread.sum::<u64>(), all);
    let names = |args: &[&str]| -> Vec<String> {
        let args = [&["--process", "Test.x64", "--tree", "by-name"], args].concat();
        let tree = tree(&etw, &trace, &args);
        nodes(&tree).iter().map(|node| node["name"].as_str().unwrap().to_owned()).collect()
    };
    let of_kernel = |name: &String| name.starts_with("ntoskrnl.exe!");
    assert_eq!(names(&["--just-my-code"]).iter().filter(|name| of_kernel(name)).count(), 1);
    assert!(
        names(&["--group-modules"]).iter().skip(1).all(|name| !name.contains('!') || name.ends_with("!?"))
    );
    assert!(!names(&["--fold", "ntoskrnl.exe!*"]).iter().any(of_kernel));
    assert!(names(&["--fold-percent", "50"]).len() < names(&[]).len());
    let text = etw.ok(&["report", &trace, "--tree", "top-down", "--process", "Test.x64"]);
    assert!(text.contains("CPU by function (sampled), top-down") && text.contains("Test.x64.exe"), "{text}");
    std::fs::write(
        etw.path("a.stacktags"),
        "<Tag Name=''><Tag Name='Core'><Entrypoint Module='nt*.exe'/></Tag></Tag>",
    )
    .unwrap();
    let tags = ["--tree", "tags", "--stack-tags", "a.stacktags"];
    let tagged = tree(&etw, &trace, &[&["--process", "Test.x64"], &tags[..]].concat());
    assert_eq!(sum(&tagged), all);
    assert!(nodes(&tagged).iter().any(|node| node["name"] == "Core" && number(&node["inclusive"]) > 0));
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let etw = Etw::new();
    crate::generated::write_trace(&etw.path("a.etl"), 10, 0);
    std::fs::write(etw.path("bad.stacktags"), "<Tag>\n<Tag Priority='x'/></Tag>").unwrap();
    let check = |args: &[&str], status: i32, part: &str| {
        let (code, text) = etw.fails(&[&["report", "a.etl"], args].concat());
        assert!(code == status && text.contains(part), "{args:?}: {code} {text}");
    };
    check(&["--tree", "sideways"], 2, "top-down");
    check(&["--tree", "callers="], 2, "callers=NAME");
    check(&["--tree", "tags"], 2, "--stack-tags");
    check(&["--tree", "top-down", "--format", "html"], 2, "text and JSON");
    check(&["--tree", "top-down", "--table", "cpu"], 2, "--stacks");
    check(&["--fold-percent", "5"], 2, "--tree");
    check(&["--tree", "top-down", "--fold-percent", "500"], 2, "0 to 100");
    check(&["--min-percent", "5"], 2, "--tree");
    check(&["--tid", "5", "--table", "disk"], 2, "no threads");
    check(&["--stacks", "waits,disk", "--format", "folded"], 2, "one of --stacks");
    check(&["--tree", "top-down", "--stack-tags", "none.stacktags"], 1, "none.stacktags");
    check(&["--tree", "top-down", "--stack-tags", "bad.stacktags"], 1, "line 2: the priority `x`");
    let (code, text) = etw.fails(&["compare", "a.etl", "a.etl", "--fail-if", "gpu > 5%"]);
    assert!(code == 2 && text.contains("`gpu` is none of"), "{text}");
    let (code, text) = etw.fails(&["compare", "a.etl", "a.etl", "--fail-if", "cpu > 5%"]);
    assert!(code == 1 && text.contains("neither trace has stacks"), "{text}");
    let (code, text) = etw.fails(&["compare", "a.etl", "none.etl"]);
    assert!(code == 1 && text.contains("none.etl"), "{text}");
    let (code, _) = etw.fails(&["compare", "a.etl"]);
    assert_eq!(code, 2);
    let empty = etw.ok(&["report", "a.etl", "--tree", "top-down"]);
    assert!(empty.contains("No stacks; they are recorded by: PROC_THREAD+LOADER+PROFILE"), "{empty}");
}

/// The data of a flame graph of a page, after checks of the page.
fn graph(page: &str, id: &str) -> Value {
    let (_, rest) = page.split_once(&format!("<script id=\"{id}-data\" type=\"application/json\">")).unwrap();
    let data: Value = serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
    // One script besides the data, which the policy allows by its hash.
    assert_eq!(page.matches("<script>").count(), 1);
    assert!(page.contains("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-"));
    assert!(["<img", "<link", "<iframe", "@import"].iter().all(|loaded| !page.contains(loaded)));
    data
}

/// The weight of the outermost calls, each with that of its own callees at least.
fn outermost(data: &Value, side: usize) -> u64 {
    let depths = data["depth"].as_array().unwrap();
    let weights = data["weights"][side].as_array().unwrap();
    let names = data["name"].as_array().unwrap();
    assert!(depths.len() == weights.len() && depths.len() == names.len());
    let mut path: Vec<u64> = Vec::new();
    let mut sum = 0;
    for (depth, weight) in depths.iter().zip(weights) {
        let (depth, weight) = (number(depth) as usize, number(weight));
        path.truncate(depth);
        assert_eq!(path.len(), depth);
        match path.last_mut() {
            Some(left) => {
                assert!(*left >= weight, "callees weigh more than their caller");
                *left -= weight;
            }
            None => sum += weight,
        }
        path.push(weight);
    }
    sum
}

#[test]
fn a_page_has_flame_graphs() {
    let Some(trace) = trace() else { return };
    let etw = Etw::new();
    let page = etw.ok(&["report", &trace, "--format", "html"]);
    let data = graph(&page, "flame-functions");
    let samples = tree(&etw, &trace, &["--tree", "top-down"]);
    assert_eq!(number(&data["totals"][0]) * 100, number(&samples["total"]));
    let weight = outermost(&data, 0);
    assert!(weight <= number(&data["totals"][0]) && weight * 100 > number(&data["totals"][0]) * 95);
    assert!(number(&data["depth"].as_array().unwrap().len().into()) <= 20_000);
    let page = etw.ok(&["report", &trace, "--format", "html", "--stacks", "events", "--process", "Test.x64"]);
    let data = graph(&page, "flame-events-by-function");
    assert_eq!(data["unit"], "count");
    assert_eq!(data["names"].as_array().unwrap().iter().filter(|name| *name == "Test.x64.exe").count(), 1);
    // Without stacks there is no script at all.
    crate::generated::write_trace_of(&etw.path("a.etl"), "</script><script>alert(1)</script>", 30);
    let page = etw.ok(&["report", "a.etl", "--format", "html"]);
    assert!(!page.contains("<script") && page.contains("default-src 'none'; style-src 'unsafe-inline'\""));
}

#[test]
fn traces_are_compared() {
    let Some(trace) = trace() else { return };
    let etw = Etw::new();
    let json = |args: &[&str]| {
        json_lines(&etw.ok(&[&["compare", &trace, &trace, "--format", "json"], args].concat())).remove(0)
    };
    let same = json(&["--stacks", "samples,events"]);
    let tables = same["tables"].as_object().unwrap();
    assert_eq!(tables.keys().collect::<Vec<_>>(), ["functions", "events-by-function"]);
    for (name, table) in tables {
        assert!(number(&table["all"]["before"]) > 0, "{name}");
        assert_eq!(table["all"]["before"], table["all"]["after"]);
        for rows in ["processes", "functions", "with_callees", "stacks"] {
            let rows = table[rows].as_array().unwrap();
            assert!(!rows.is_empty() && rows.iter().all(|row| row["change_per_second"] == 0.0), "{name}");
        }
    }
    let text = etw.ok(&["compare", &trace, &trace, "--process", "Test.x64"]);
    assert!(text.contains("CPU by function (sampled)") && text.contains("Nothing changed."), "{text}");
    // The same part of time, then one with and without a process.
    let table = &same["tables"]["functions"];
    let of_rows: u64 = table["processes"].as_array().unwrap().iter().map(|row| number(&row["before"])).sum();
    assert_eq!(of_rows, number(&table["all"]["before"]));
    let run = |args: &[&str]| {
        let output = etw.run(&[&["compare", &trace, &trace], args].concat());
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let check = |condition: &str, status: i32, part: &str| {
        let (code, text) = run(&["--fail-if", condition]);
        assert!(code == status && text.contains(part), "{condition}: {code} {text}");
    };
    check("cpu > 0%", 0, "");
    check("cpu >= 0%", 1, "--fail-if cpu >= 0%");
    check("process:Test.x64 < 5%", 1, "process:Test.x64");
    check("events function:ntdll.dll!* > 1pp", 0, "");
    check("function:no_such_function > 5%", 1, "neither trace has a stack");
    let (code, text) = run(&["--fail-if", "cpu > 5%", "--fail-if", "cpu <= 0%"]);
    assert!(code == 1 && !text.contains("cpu > 5%"), "{text}");
    let page = etw.ok(&["compare", &trace, &trace, "--format", "html"]);
    let data = graph(&page, "flame-functions");
    assert_eq!(data["weights"].as_array().unwrap().len(), 2);
    assert_eq!(data["weights"][0], data["weights"][1]);
    assert_eq!(outermost(&data, 0), outermost(&data, 1));
}

/// What a browser shows of a flame graph: the name, level, place and width of each call.
const SHOWN: &str = "[...document.querySelectorAll('.flame div')].map(call => ({
    name: call.getAttribute('aria-label').replace(/: .*/, ''), level: +call.getAttribute('aria-level'),
    top: call.offsetTop, width: parseFloat(call.style.width), isHit: call.classList.contains('hit'),
    isFocused: call === document.activeElement}))";

#[test]
fn a_browser_searches_zooms_and_turns_the_graph() {
    let Some(trace) = trace() else { return };
    let etw = Etw::new();
    let page = etw.ok(&["report", &trace, "--format", "html"]);
    let data = graph(&page, "flame-functions");
    std::fs::write(etw.path("page.html"), &page).unwrap();
    let Some(mut browser) = Browser::start() else { return };
    let url = format!("file://{}", etw.path("page.html"));
    browser.open(&url);
    let shown = |browser: &mut Browser| browser.value(SHOWN).as_array().unwrap().clone();
    let of = |calls: &[Value], name: &str| calls.iter().find(|call| call["name"] == name).cloned();
    let width = |calls: &[Value], name: &str| of(calls, name).unwrap()["width"].as_f64().unwrap();
    // The width of a process is its share.
    let calls = shown(&mut browser);
    assert!(calls.len() > 100, "{}", calls.len());
    let index =
        |name: &str| data["names"].as_array().unwrap().iter().position(|other| other == name).unwrap();
    let process = index("Test.x64.exe");
    let call = data["name"].as_array().unwrap().iter().position(|name| *name == process).unwrap();
    let weight = |value: &Value| value.as_f64().unwrap();
    let share = weight(&data["weights"][0][call]) / weight(&data["totals"][0]) * 100.0;
    assert!((width(&calls, "Test.x64.exe") - share).abs() < 0.01);
    // A click zooms in; Escape shows all again.
    let before = calls.len();
    browser.click(".flame div[aria-label^='Test.x64.exe:']");
    let zoomed = shown(&mut browser);
    assert!((width(&zoomed, "Test.x64.exe") - 100.0).abs() < 0.01);
    assert!(of(&zoomed, "PerfView.exe").is_none() && of(&calls, "PerfView.exe").is_some());
    browser.press("Escape");
    assert_eq!(shown(&mut browser).len(), before);
    // Keys: from the process to its first callee, into it, and back.
    browser.press("ArrowDown");
    let focused = shown(&mut browser).into_iter().find(|call| call["isFocused"] == true).unwrap();
    assert_eq!(focused["level"], 3);
    browser.press("Enter");
    assert!((width(&shown(&mut browser), focused["name"].as_str().unwrap()) - 100.0).abs() < 0.01);
    browser.press("Escape");
    // The search.
    browser.press("/");
    browser.type_text("CLR.DLL");
    let calls = shown(&mut browser);
    let (hits, others): (Vec<&Value>, Vec<&Value>) = calls.iter().partition(|call| call["isHit"] == true);
    let matches = |call: &&Value| call["name"].as_str().unwrap().to_lowercase().contains("clr.dll");
    assert!(!hits.is_empty() && hits.iter().all(matches) && !others.iter().any(matches));
    let found = browser.value("document.querySelector('.flame-found').textContent");
    assert!(found.as_str().unwrap().ends_with(" % matched"), "{found}");
    // The other way round: the root is below.
    browser.click(".flame-invert");
    let calls = shown(&mut browser);
    let top = |call: &Value| call["top"].as_u64().unwrap();
    assert_eq!(top(&of(&calls, "all").unwrap()), calls.iter().map(top).max().unwrap());
    browser.click(".flame-reset");
    assert!(shown(&mut browser).iter().all(|call| call["isHit"] == false));
    // Nothing was fetched and nothing went wrong.
    assert_eq!(browser.requested(), [url]);
    assert_eq!(browser.errors(), [""; 0]);
    // A comparison has widths to choose.
    etw.ok(&["compare", &trace, &trace, "--format", "html", "-o", "difference.html"]);
    browser.open(&format!("file://{}", etw.path("difference.html")));
    let both = width(&shown(&mut browser), "Test.x64.exe");
    browser.value(
        "(() => { const widths = document.querySelector('.flame-widths'); widths.value = 'after';
        widths.dispatchEvent(new Event('change')); })()",
    );
    assert!((width(&shown(&mut browser), "Test.x64.exe") - both).abs() < 0.01);
    assert_eq!(browser.errors(), [""; 0]);
}

#[test]
fn hostile_names_are_text_in_a_browser() {
    let etw = Etw::new();
    let hostile = "</script><script>document.title='hit'</script><img src=x onerror=document.title='hit'>";
    crate::generated::write_trace_of(&etw.path("a.etl"), hostile, 30);
    let page = etw.ok(&["report", "a.etl", "--format", "html"]);
    assert!(page.contains("document.title"), "the name is shown");
    std::fs::write(etw.path("page.html"), page).unwrap();
    let Some(mut browser) = Browser::start() else { return };
    let url = format!("file://{}", etw.path("page.html"));
    browser.open(&url);
    assert_ne!(browser.value("document.title"), "hit");
    assert_eq!(browser.value("document.images.length"), 0);
    assert_eq!((browser.requested(), browser.errors()), (vec![url], Vec::new()));
}

#[test]
fn flags_and_priorities_of_a_real_trace_have_names_and_files_have_drives() {
    let Some(trace) = trace() else { return };
    let etw = Etw::new();
    let report = json_lines(&etw.ok(&["report", &trace, "--table", "disk", "--format", "json"])).remove(0);
    let rows = report["tables"]["disk"]["rows"].as_array().unwrap();
    let all = |key: &str, separator: &str| -> std::collections::BTreeSet<String> {
        let texts = rows.iter().filter_map(|row| row[key].as_str());
        texts.flat_map(|text| text.split(separator)).map(str::to_owned).collect()
    };
    // By the numbers in the events.
    let events = json_lines(&etw.ok(&["dump", &trace, "--format", "json", "--where", "IrpFlags >= 0"]));
    let numbers: Vec<u32> = events
        .iter()
        .map(|event| event["EventData"]["IrpFlags"].as_str().unwrap().trim_start_matches("0x"))
        .map(|digits| u32::from_str_radix(digits, 16).unwrap())
        .collect();
    assert!(numbers.len() > 1000);
    let named = |is_it: &dyn Fn(u32) -> bool, name: &str, found: &std::collections::BTreeSet<String>| {
        let is_expected = numbers.iter().any(|number| is_it(*number));
        assert_eq!(found.contains(name), is_expected, "{name}: {found:?}");
    };
    let (priorities, flags) = (all("priority", ", "), all("irp_flags", "|"));
    for (number, name) in (0..).zip(["not set", "very low", "low", "normal", "high", "critical"]) {
        named(&|flags| flags >> 17 & 7 == number, name, &priorities);
    }
    for (bits, name) in
        [(1, "NOCACHE"), (2, "PAGING_IO"), (0x42, "SYNCHRONOUS_PAGING_IO"), (0x400, "CLOSE_OPERATION")]
    {
        named(&|flags| flags & bits == bits, name, &flags);
    }
    assert!(priorities.len() == 2 && flags.len() >= 4, "{priorities:?} {flags:?}");
    let files: Vec<&str> = rows.iter().filter_map(|row| row["file"].as_str()).collect();
    assert!(files.len() > 40 && files.iter().all(|file| file.starts_with(r"C:\")), "{files:?}");
}

#[test]
fn shapes_keep_the_weight_in_every_format() {
    let Some(trace) = trace() else { return };
    let Some(directory) = etw_testkit::data::data_dir().map(|directory| directory.join("wpa-profiles"))
    else {
        return;
    };
    let etw = Etw::new();
    let office = directory.join("microsoft-MSO-Scripts/OfficeBasic.stacktags");
    let shapes: [&[&str]; 5] = [
        &["--just-my-code"],
        &["--fold", "ntdll.dll!*", "--fold", "ntoskrnl.exe!*"],
        &["--group-modules=clr.dll,mscorlib*"],
        &["--fold-percent", "20"],
        &["--stack-tags", office.to_str().unwrap()],
    ];
    for (stacks, table, exclusive) in
        [("samples", "functions", "exclusive_weight_ns"), ("events", "events-by-function", "exclusive_count")]
    {
        let of = |args: &[&str]| {
            etw.ok(&[&["report", &trace, "--stacks", stacks, "--process", "Test.x64"], args].concat())
        };
        let folded = |args: &[&str]| -> (Vec<String>, u64) {
            let text = of(&[args, &["--format", "folded"]].concat());
            let lines = text.lines().map(|line| line.rsplit_once(' ').unwrap());
            let sum = lines.clone().map(|(_, number)| number.parse::<u64>().unwrap()).sum();
            (lines.map(|(stack, _)| stack.to_owned()).collect(), sum)
        };
        let rows = |args: &[&str]| -> (Vec<String>, u64) {
            let report = json_lines(&of(&[args, &["--format", "json"]].concat())).remove(0);
            let rows = report["tables"][table]["rows"].as_array().unwrap().clone();
            let sum = rows.iter().map(|row| number(&row[exclusive])).sum();
            (rows.iter().map(|row| row["function"].as_str().unwrap().to_owned()).collect(), sum)
        };
        let (plain_lines, plain_sum) = folded(&[]);
        let (plain_rows, plain_weight) = rows(&[]);
        assert!(plain_sum > 100 && plain_rows.len() > 100, "{stacks}");
        for shape in shapes {
            let (lines, sum) = folded(shape);
            let (functions, weight) = rows(shape);
            assert_eq!((sum, weight), (plain_sum, plain_weight), "{stacks} {shape:?}");
            assert!(lines != plain_lines && functions != plain_rows, "{stacks} {shape:?}");
            let text = of(&[shape, &["--top", "3"]].concat());
            assert!(text.contains(&functions[0]), "{stacks} {shape:?}: {text}");
            let page = of(&[shape, &["--format", "html"]].concat());
            assert!(page.contains(&format!("id=\"flame-{table}")), "{stacks} {shape:?}");
            let xml = of(&[shape, &["--format", "xml"]].concat());
            assert!(xml.contains(&format!("<Table name=\"{table}\"")), "{stacks} {shape:?}");
        }
    }
}
