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
