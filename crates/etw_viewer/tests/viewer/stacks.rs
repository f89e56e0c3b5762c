//! Stacks, beside `etw report --tree`.

use std::path::Path;

use etw_report::{Format, Request, TreeKind, TreeRequest};
use openetw::analysis::{FramePattern, ProcessFilter, TreeShape, TreeView};
use serde_json::{Value, json};

use crate::{Client, PERFVIEW, arrow, number, real, start};

fn report(path: &Path, view: TreeView, shape: TreeShape) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("tree.json");
    etw_report::run(&Request {
        files: vec![path.to_owned()],
        tables: Vec::new(),
        top: None,
        stacks: Vec::new(),
        tree: Some(TreeRequest { kind: TreeKind::View(view), min_percent: Some(0.0), top: None }),
        shape,
        stack_tags: Vec::new(),
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
    value["trees"]["functions"].take()
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
    let answer = client
        .ask("/api/stacks", &json!({ "table": "disk", "weight": "size", "view": "top-down", "filters": [] }));
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
