//! Stacks, beside `etw report --tree`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use etw_report::{Format, Request, TreeKind, TreeRequest};
use etw_testkit::problems::Problem;
use etw_viewer::{Options, Viewer};
use openetw::analysis::{FramePattern, ProcessFilter, StackWeight, TableKind, TreeShape, TreeView};
use serde_json::{Value, json};

use crate::{Client, PERFVIEW, Page, arrow, number, real, start};

fn report(path: &Path, view: TreeView, shape: TreeShape) -> Value {
    report_of(path, TreeKind::View(view), shape, &[], &[])
}

/// Returns the tree of `etw report`, of what is counted by stack or of samples.
fn report_of(
    path: &Path,
    kind: TreeKind,
    shape: TreeShape,
    stacks: &[TableKind],
    stack_tags: &[PathBuf],
) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("tree.json");
    etw_report::run(&Request {
        files: vec![path.to_owned()],
        tables: Vec::new(),
        top: None,
        stacks: stacks.to_vec(),
        tree: Some(TreeRequest { kind, min_percent: Some(0.0), top: None }),
        shape,
        stack_tags: stack_tags.to_vec(),
        processes: ProcessFilter::default(),
        from: None,
        to: None,
        symbols: etw_app::symbols::SymbolOptions::default(),
        tiers: false,
        format: Format::Json,
        output: Some(output.clone()),
    })
    .unwrap();
    let mut value: Value = serde_json::from_slice(&std::fs::read(output).unwrap()).unwrap();
    value["trees"][stacks.first().map_or("functions", |kind| kind.name())].take()
}

/// Compares a tree of the server with one of a report, without the order of nodes of one weight.
fn check_same(nodes: &[HashMap<String, Value>], expected: &Value, question: &Value) {
    let text = |node: &dyn Fn(&str) -> Value| {
        let [depth, inclusive, exclusive, events] =
            ["depth", "inclusive", "exclusive", "inclusive_events"].map(|name| number(&node(name)));
        format!("{depth} {} {inclusive} {exclusive} {events}", node("name"))
    };
    let mut shown: Vec<String> = nodes.iter().map(|node| text(&|name| node[name].clone())).collect();
    let wanted = expected["nodes"].as_array().unwrap();
    let mut wanted: Vec<String> = wanted.iter().map(|node| text(&|name| node[name].clone())).collect();
    shown.sort();
    wanted.sort();
    assert!(!shown.is_empty(), "{question}");
    assert_eq!(shown, wanted, "{question}");
}

fn question(view: &str) -> Value {
    json!({ "table": "cpu_sampled", "weight": "weight", "view": view, "filters": [], "min_percent": 0 })
}

#[test]
fn trees_are_those_of_reports() {
    let Some(path) = real(PERFVIEW) else { return };
    let viewer = start(path.clone());
    let client = Client::enter(&viewer);
    let pattern = || FramePattern::new("ntoskrnl.exe!*");
    let check = |question: &Value, view: TreeView, shape: TreeShape| {
        let (info, nodes) = arrow(&client.ask("/api/stacks", question));
        let expected = report(&path, view, shape);
        assert_eq!(number(&info["total"]["weight"]), number(&expected["total"]), "{question}");
        assert_eq!(number(&info["unselected"]["weight"]), number(&expected["unselected"]), "{question}");
        let wanted = expected["nodes"].as_array().unwrap();
        // Nodes of one weight may have another order; nodes without weight that are equal are compared by their sums.
        let mut sums = [Vec::new(), Vec::new()];
        for node in &nodes {
            sums[0].push(format!(
                "{} {} {} {}",
                node["depth"], node["name"], node["inclusive"], node["exclusive"]
            ));
        }
        for node in wanted {
            let float = |name: &str| json!(number(&node[name]));
            sums[1].push(format!(
                "{} {} {} {}",
                float("depth"),
                node["name"],
                float("inclusive"),
                float("exclusive")
            ));
        }
        sums.iter_mut().for_each(|sum| sum.sort());
        assert_eq!(sums[0].len(), sums[1].len(), "{question}");
        assert_eq!(sums[0], sums[1], "{question}");
        assert!(!sums[0].is_empty());
    };
    check(&question("top-down"), TreeView::TopDown, TreeShape::default());
    check(&question("bottom-up"), TreeView::BottomUp, TreeShape::default());
    check(&question("by-name"), TreeView::ByName, TreeShape::default());
    let mut callers = question("callers");
    callers["function"] = json!("ntoskrnl.exe!*");
    check(&callers, TreeView::Callers(pattern()), TreeShape::default());
    callers["view"] = json!("callees");
    check(&callers, TreeView::Callees(pattern()), TreeShape::default());
    let mut shaped = question("top-down");
    shaped["include"] = json!(["Test.x64*"]);
    shaped["fold"] = json!(["ntoskrnl.exe!*"]);
    shaped["group"] = json!(["ntdll.dll"]);
    let shape = TreeShape {
        include: vec![FramePattern::new("Test.x64*")],
        fold: vec![pattern()],
        group_modules: vec![FramePattern::new("ntdll.dll")],
        ..TreeShape::default()
    };
    check(&shaped, TreeView::TopDown, shape);
    let mut mine = question("top-down");
    mine["just_my_code"] = json!(true);
    mine["fold_percent"] = json!(2.5);
    let shape = TreeShape { just_my_code: true, fold_percent: 2.5, ..TreeShape::default() };
    check(&mine, TreeView::TopDown, shape);
    let mut excluded = question("top-down");
    excluded["exclude"] = json!(["ntoskrnl.exe!*"]);
    let shape = TreeShape { exclude: vec![pattern()], ..TreeShape::default() };
    check(&excluded, TreeView::TopDown, shape);
}

#[test]
fn stacks_are_of_the_rows_that_are_shown() {
    let Some(path) = real(PERFVIEW) else { return };
    let viewer = start(path);
    let client = Client::enter(&viewer);
    let catalog = client.get("/api/catalog").json();
    let length = catalog["length"].as_i64().unwrap();
    let events = |question: &Value| {
        let (info, _) = arrow(&client.ask("/api/stacks", question));
        number(&info["total"]["events"])
    };
    for table in catalog["tables"].as_array().unwrap() {
        let name = table["name"].as_str().unwrap();
        // Rows that last for a time are in both halves.
        if !table["all"].as_array().unwrap().iter().any(|column| column["name"] == "time") {
            continue;
        }
        for weight in table["weights"].as_array().unwrap() {
            let mut question =
                json!({ "table": name, "weight": weight["name"], "view": "top-down", "filters": [] });
            let all = events(&question);
            (question["from"], question["to"]) = (json!(0), json!(length / 2));
            let first = events(&question);
            (question["from"], question["to"]) = (json!(length / 2), json!(length));
            assert_eq!(first + events(&question), all, "{name} {weight}");
        }
    }
    let answer = client.ask(
        "/api/stacks",
        &json!({ "table": "dpc_isr", "weight": "duration", "view": "top-down", "filters": [] }),
    );
    assert_eq!(answer.status, 422);
    assert!(answer.text().contains("no stacks"));
    let (info, _) = arrow(&client.ask("/api/stacks", &question("top-down")));
    let symbols = &info["symbols"];
    let missing: f64 = symbols["missing"].as_array().unwrap().iter().map(|one| number(&one["percent"])).sum();
    assert!(missing > 0.0 && number(&symbols["named_percent"]) + missing <= 100.0 + 1e-6, "{symbols}");
}

#[test]
fn lines_have_their_weight_over_time() {
    let Some(path) = real(PERFVIEW) else { return };
    let viewer = start(path);
    let client = Client::enter(&viewer);
    let length = client.get("/api/catalog").json()["length"].as_i64().unwrap();
    for (view, function) in [
        ("top-down", ""),
        ("bottom-up", ""),
        ("by-name", ""),
        ("callers", "ntoskrnl.exe!*"),
        ("callees", "ntoskrnl.exe!*"),
    ] {
        let mut asked = question(view);
        asked["function"] = json!(function);
        let (_, plain) = arrow(&client.ask("/api/stacks", &asked));
        asked["periods"] = json!(4);
        let (_, nodes) = arrow(&client.ask("/api/stacks", &asked));
        assert_eq!(nodes.len(), plain.len());
        // The weight of each quarter, asked for alone.
        let mut quarters = Vec::new();
        for quarter in 0..4 {
            let mut alone = question(view);
            alone["function"] = json!(function);
            alone["from"] = json!(length * quarter / 4);
            alone["to"] = json!(length * (quarter + 1) / 4);
            let (_, nodes) = arrow(&client.ask("/api/stacks", &alone));
            quarters.push(nodes);
        }
        for node in nodes.iter().filter(|node| number(&node["depth"]) == 0.0) {
            let weight = |nodes: &Vec<std::collections::HashMap<String, Value>>| {
                let found =
                    nodes.iter().find(|one| one["name"] == node["name"] && one["depth"] == node["depth"]);
                found.map_or(0.0, |one| number(&one["inclusive"]))
            };
            let weights: Vec<f64> = quarters.iter().map(weight).collect();
            let most = weights.iter().copied().fold(0.0, f64::max);
            assert_eq!(number(&node["when_most"]), most, "{view} {node:?}");
            let heights: Vec<u32> =
                node["when"].as_str().unwrap().chars().map(|digit| digit.to_digit(36).unwrap()).collect();
            let expected: Vec<u32> = weights
                .iter()
                .map(|weight| if *weight > 0.0 { ((weight * 35.0 / most) as u32).max(1) } else { 0 })
                .collect();
            assert_eq!(heights, expected, "{view} {node:?}");
        }
    }
}

#[test]
fn two_periods_are_compared() {
    let Some(path) = real(PERFVIEW) else { return };
    let viewer = start(path);
    let client = Client::enter(&viewer);
    let length = client.get("/api/catalog").json()["length"].as_i64().unwrap();
    let mut asked = question("top-down");
    (asked["from"], asked["to"]) = (json!(0), json!(length / 3));
    let (_, before) = arrow(&client.ask("/api/stacks", &asked));
    (asked["from"], asked["to"]) = (json!(length / 3), json!(length));
    let (after_info, after) = arrow(&client.ask("/api/stacks", &asked));
    asked["base"] = json!([0, length / 3]);
    let (info, changes) = arrow(&client.ask("/api/stacks", &asked));
    assert_eq!(info["total"], after_info["total"]);
    let sum = |nodes: &[std::collections::HashMap<String, Value>], column: &str| {
        let mut found: Vec<String> = nodes
            .iter()
            .filter(|node| number(&node["depth"]) == 0.0 && number(&node[column]) > 0.0)
            .map(|node| format!("{} {}", node["name"], node[column]))
            .collect();
        found.sort();
        found
    };
    assert_eq!(sum(&changes, "before"), sum(&before, "inclusive"));
    assert_eq!(sum(&changes, "inclusive"), sum(&after, "inclusive"));
    assert!(sum(&before, "inclusive") != sum(&after, "inclusive"));
    asked["view"] = json!("by-name");
    let (_, functions) = arrow(&client.ask("/api/stacks", &asked));
    let by = |node: &std::collections::HashMap<String, Value>| {
        (number(&node["exclusive"]) - number(&node["exclusive_before"])).abs()
    };
    assert!(functions.len() > 10 && functions.windows(2).all(|pair| by(&pair[0]) >= by(&pair[1])));
    asked["view"] = json!("callers");
    let refused = client.ask("/api/stacks", &asked);
    assert!(refused.status == 422 && refused.text().contains("compare"), "{}", refused.text());
}

#[test]
fn waits_are_those_of_reports() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("convoy.etl");
    std::fs::write(&path, Problem::LockConvoy.bytes().unwrap()).unwrap();
    let mut traces = vec![path];
    traces.extend(real(PERFVIEW));
    let kind = [TableKind::ByFunction(StackWeight::Waits)];
    for path in traces {
        let viewer = start(path.clone());
        let client = Client::enter(&viewer);
        let catalog = client.get("/api/catalog").json();
        let tables = catalog["tables"].as_array().unwrap();
        let switches = tables.iter().find(|table| table["name"] == "cpu_precise").unwrap();
        if switches["rows"] == 0 {
            continue;
        }
        let names: Vec<&str> =
            switches["weights"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        let in_rows: Vec<&str> = names.iter().copied().filter(|name| !name.starts_with("trace:")).collect();
        assert_eq!(in_rows, ["waits", "ready", "rows"]);
        for (name, view) in [
            ("top-down", TreeView::TopDown),
            ("bottom-up", TreeView::BottomUp),
            ("by-name", TreeView::ByName),
        ] {
            let question = json!({ "table": "cpu_precise", "weight": "waits", "view": name, "filters": [], "min_percent": 0 });
            let (info, nodes) = arrow(&client.ask("/api/stacks", &question));
            let expected = report_of(&path, TreeKind::View(view), TreeShape::default(), &kind, &[]);
            if expected["nodes"].as_array().unwrap().is_empty() {
                assert!(nodes.is_empty());
                continue;
            }
            assert_eq!(number(&info["total"]["weight"]), number(&expected["total"]), "{name}");
            check_same(&nodes, &expected, &question);
        }
    }
}

#[test]
fn stacks_have_the_tags_of_files() {
    const TAGS: &str = r#"<Tag Name=""><Tag Name="Orders"><Entrypoint Module="Orders" Method="*"/>
        <Tag Name="Locks" Priority="2"><Entrypoint Module="System.Private.CoreLib" Method="*Monitor.Enter*"/></Tag></Tag>
        <Tag Name="Disk" Priority="3"><Entrypoint Module="System.Private.CoreLib" Method="*Flush*"/></Tag></Tag>"#;
    let folder = tempfile::tempdir().unwrap();
    let (path, file) = (folder.path().join("convoy.etl"), folder.path().join("a.stacktags"));
    std::fs::write(&path, Problem::LockConvoy.bytes().unwrap()).unwrap();
    std::fs::write(&file, TAGS).unwrap();
    let question = |table: &str, weight: &str, view: &str, tagged: bool| json!({ "table": table, "weight": weight, "view": view, "filters": [], "min_percent": 0, "tagged": tagged });
    // Without a file there are none.
    let viewer = start(path.clone());
    let client = Client::enter(&viewer);
    assert_eq!(client.get("/api/catalog").json()["has_tags"], false);
    let refused = client.ask("/api/stacks", &question("cpu_sampled", "weight", "tags", false));
    assert!(refused.status == 422 && refused.text().contains("--stack-tags"), "{}", refused.text());
    let options = Options { files: vec![path.clone()], stack_tags: vec![file.clone()], ..Options::default() };
    let viewer = Viewer::start(options.clone()).unwrap();
    let client = Client::enter(&viewer);
    assert_eq!(client.get("/api/catalog").json()["has_tags"], true);
    let waits = [TableKind::ByFunction(StackWeight::Waits)];
    let tags = [file.clone()];
    for (table, weight, stacks) in [("cpu_sampled", "weight", &[][..]), ("cpu_precise", "waits", &waits[..])]
    {
        let asked = question(table, weight, "tags", false);
        let (_, nodes) = arrow(&client.ask("/api/stacks", &asked));
        check_same(&nodes, &report_of(&path, TreeKind::Tags, TreeShape::default(), stacks, &tags), &asked);
        let asked = question(table, weight, "by-name", true);
        let (_, nodes) = arrow(&client.ask("/api/stacks", &asked));
        let expected =
            report_of(&path, TreeKind::View(TreeView::ByName), TreeShape::default(), stacks, &tags);
        check_same(&nodes, &expected, &asked);
        assert!(nodes.iter().any(|node| node["name"] == "[Orders]" || node["name"] == "Orders"), "{nodes:?}");
    }
    // Each line has its weight over time.
    let mut asked = question("cpu_sampled", "weight", "tags", false);
    asked["periods"] = json!(4);
    let (_, nodes) = arrow(&client.ask("/api/stacks", &asked));
    assert!(nodes.iter().all(|node| node["when"].as_str().unwrap().contains('z')), "{nodes:?}");
    // A session remembers the file.
    let session = client.ask("/api/session", &json!({ "state": "" })).json();
    assert_eq!(session["stack_tags"], json!([file]));
    let Some(mut page) = Page::from_viewer(viewer, "table=\"cpu_precise\"&tab=\"stacks\"") else { return };
    let button = |name: &str| {
        format!(
            "[...document.querySelectorAll('.stacks button')].find((one) => one.textContent === '{name}')"
        )
    };
    page.click_on(&button("By tag"));
    page.wait(
        "[...document.querySelectorAll('.virtual td')].some((one) => one.textContent.includes('Locks'))",
    );
    page.click_on(&button("Call tree"));
    page.wait("[...document.querySelectorAll('.virtual td')].some((one) => one.textContent.includes('Monitor.Enter'))");
    page.click_on(
        "[...document.querySelectorAll('.stacks label')].find((one) => one.textContent.includes('Stack tags')).querySelector('input')",
    );
    page.wait("![...document.querySelectorAll('.virtual td')].some((one) => one.textContent.includes('Monitor.Enter'))");
    page.check();
    std::fs::write(&file, "<Other/>").unwrap();
    let refused = format!("{:#}", Viewer::start(options).unwrap_err());
    assert!(refused.contains("a.stacktags"), "{refused}");
}

#[test]
fn stacks_that_no_table_has_are_those_of_reports() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("convoy.etl");
    std::fs::write(&path, Problem::LockConvoy.bytes().unwrap()).unwrap();
    let viewer = start(path.clone());
    let client = Client::enter(&viewer);
    let question = |weight: &str, view: &str| json!({ "table": "cpu_precise", "weight": weight, "view": view, "filters": [], "min_percent": 0 });
    for (name, weight) in [
        ("trace:wait-chains", StackWeight::WaitChains),
        ("trace:ready", StackWeight::Ready),
        ("trace:running", StackWeight::Running),
        ("trace:offcpu", StackWeight::OffCpu),
    ] {
        for (view, tree) in [("top-down", TreeView::TopDown), ("by-name", TreeView::ByName)] {
            let asked = question(name, view);
            let (info, nodes) = arrow(&client.ask("/api/stacks", &asked));
            let stacks = [TableKind::ByFunction(weight)];
            let expected = report_of(&path, TreeKind::View(tree), TreeShape::default(), &stacks, &[]);
            check_same(&nodes, &expected, &asked);
            assert_eq!(number(&info["total"]["weight"]), number(&expected["total"]), "{asked}");
        }
    }
    // The catalog offers them, and says what they are.
    let catalog = client.get("/api/catalog").json();
    let tables = catalog["tables"].as_array().unwrap();
    let precise = tables.iter().find(|table| table["name"] == "cpu_precise").unwrap();
    let weights = precise["weights"].as_array().unwrap();
    assert!(weights.iter().any(|one| one["name"] == "trace:ready" && one["title"] == "readying stacks"));
    // Filters of the table mean nothing there; a period does.
    let mut asked = question("trace:ready", "by-name");
    let (whole, _) = arrow(&client.ask("/api/stacks", &asked));
    let length = catalog["length"].as_i64().unwrap();
    (asked["from"], asked["to"]) = (json!(0), json!(length / 2));
    let (half, _) = arrow(&client.ask("/api/stacks", &asked));
    let total = |info: &Value| number(&info["total"]["events"]);
    assert!(total(&half) > 0.0 && total(&half) < total(&whole) * 0.6, "{half} {whole}");
    asked["filters"] = json!([{ "column": "processor", "op": "is", "value": "i0" }]);
    let refused = client.ask("/api/stacks", &asked);
    assert!(refused.status == 422 && refused.text().contains("Include"), "{}", refused.text());
    // In the page: chosen as the weight of the stacks, then kept when the trace is gone.
    let Some(mut page) = Page::from_viewer(viewer, "table=\"cpu_precise\"&tab=\"stacks\"") else { return };
    page.browser.value(
        "(() => { const select = document.querySelector('.stacks select'); select.value = 'trace:wait-chains'; \
         select.dispatchEvent(new Event('change', { bubbles: true })); })()",
    );
    page.wait(
        "JSON.parse(new URLSearchParams(location.hash.slice(1)).get('stack')).weight === 'trace:wait-chains'",
    );
    page.wait("!document.querySelector('.stacks .busy') && document.querySelector('.virtual td')");
    page.wait("[...document.querySelectorAll('.virtual td')].some((one) => one.textContent.includes('Monitor.Enter'))");
    page.check();
    std::fs::remove_file(&path).unwrap();
    let asked = question("trace:offcpu", "top-down");
    assert_eq!(client.ask("/api/stacks", &asked).status, 200);
    let mut other = asked.clone();
    other["to"] = json!(1000);
    let gone = client.ask("/api/stacks", &other);
    assert!(gone.status == 422 && gone.text().contains("is gone"), "{}", gone.text());
}
