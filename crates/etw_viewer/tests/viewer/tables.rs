//! Tables of the server, beside `etw report --table`.

use serde_json::{Value, json};

use crate::{Client, PERFVIEW, arrow, number, question, real, report, start};

#[test]
fn groups_are_those_of_reports() {
    let Some(path) = real(PERFVIEW) else { return };
    let viewer = start(path.clone());
    let client = Client::enter(&viewer);
    for (table, key, value) in [
        ("cpu_sampled", "thread.process", "sum(weight)"),
        ("cpu_sampled", "frame.module", "sum(count)"),
        ("disk", "thread.process", "sum(size)"),
        ("disk", "operation", "max(duration)"),
        ("disk", "file", "sum(duration)"),
        ("hard_faults", "thread.process", "sum(duration)"),
        ("events", "kind.event", "sum(size)"),
        ("network", "process", "sum(size)"),
    ] {
        let mut view = question(table, &[key], &[value]);
        view["sort"] = json!({ "by": "label", "descending": false });
        let (info, rows) = arrow(&client.ask("/api/rows", &json!({ "view": view, "limit": 5000 })));
        let expected = report(&path, table, &[key], &[value], None);
        assert_eq!(number(&info["count"]) as usize, expected.len(), "{table} {key}");
        for wanted in &expected {
            let label = wanted[key].as_str().unwrap_or("(none)");
            let same: Vec<_> = rows.iter().filter(|row| row["label"] == label).collect();
            let same = same.iter().find(|row| row["rows"] == number(&wanted["rows"]));
            let found = same.unwrap_or_else(|| panic!("{table} {wanted}"));
            assert_eq!(found[value], number(&wanted[value]), "{table} {wanted}");
        }
    }
}

#[test]
fn groups_open_and_filter() {
    let Some(path) = real(PERFVIEW) else { return };
    let viewer = start(path);
    let client = Client::enter(&viewer);
    let values = ["sum(weight)", "percent(sum(weight))", "rows"];
    let mut view = question("cpu_sampled", &["thread.process", "thread"], &values);
    let ask = |view: &Value| arrow(&client.ask("/api/rows", &json!({ "view": view, "limit": 5000 })));
    let (info, closed) = ask(&view);
    let total = number(&info["totals"][0]);
    let sum = |rows: &[std::collections::HashMap<String, Value>], depth: f64, name: &str| -> f64 {
        rows.iter().filter(|row| row["depth"] == depth).map(|row| number(&row[name])).sum()
    };
    assert_eq!(sum(&closed, 0.0, "sum(weight)"), total);
    assert!((sum(&closed, 0.0, "percent(sum(weight))") - 100.0).abs() < 1e-6);
    assert!(closed.iter().all(|row| row["state"] == 1.0));
    // The heaviest comes first.
    let first = &closed[0];
    assert!(closed.windows(2).all(|pair| number(&pair[0]["sum(weight)"]) >= number(&pair[1]["sum(weight)"])));
    let place: Value = serde_json::from_str(first["path"].as_str().unwrap()).unwrap();
    view["expanded"] = json!([place]);
    let (info, open) = ask(&view);
    assert_eq!(open[0]["state"], 2.0);
    assert_eq!(number(&info["count"]) as usize, open.len());
    assert_eq!(sum(&open, 1.0, "sum(weight)"), number(&first["sum(weight)"]));
    assert_eq!(sum(&open, 0.0, "sum(weight)"), total);
    // Filters to a group and out of it are complements.
    let with = |op: &str| {
        let mut view = view.clone();
        view["expanded"] = json!([]);
        view["filters"] = json!([{ "column": "thread.process", "op": op, "value": place[0] }]);
        number(&ask(&view).0["totals"][0])
    };
    assert_eq!(with("is"), number(&first["sum(weight)"]));
    assert_eq!(with("is") + with("not"), total);
    // So are the parts of the time.
    let length = client.get("/api/catalog").json()["length"].as_i64().unwrap();
    let part = |from: i64, to: i64| {
        let mut view = question("cpu_sampled", &["thread.process"], &values);
        (view["from"], view["to"]) = (json!(from), json!(to));
        number(&ask(&view).0["rows"])
    };
    let rows = number(&ask(&question("cpu_sampled", &["thread.process"], &values)).0["rows"]);
    assert_eq!(part(0, length / 3) + part(length / 3, length), rows);
    // Texts.
    let mut named = question("cpu_sampled", &["thread.process"], &values);
    named["filters"] = json!([{ "column": "thread.process", "op": "contains", "value": "test.X64" }]);
    let (_, rows) = ask(&named);
    assert!(
        !rows.is_empty() && rows.iter().all(|row| row["label"].as_str().unwrap().starts_with("Test.x64"))
    );
}

#[test]
fn single_rows_are_paged_sorted_found_and_exported() {
    let Some(path) = real(PERFVIEW) else { return };
    let viewer = start(path.clone());
    let client = Client::enter(&viewer);
    let mut view = question("disk", &[], &[]);
    view["columns"] = json!(["time", "thread", "operation", "file", "size", "duration"]);
    let page = |view: &Value, offset: usize, limit: usize| {
        arrow(&client.ask("/api/rows", &json!({ "view": view, "offset": offset, "limit": limit })))
    };
    let (info, all) = page(&view, 0, 5000);
    let expected = report(&path, "disk", &["operation", "file", "size"], &[], Some(5000));
    assert_eq!(all.len(), expected.len());
    for (row, wanted) in all.iter().zip(&expected) {
        for column in ["operation", "file"] {
            assert_eq!(row[column], wanted[column]);
        }
        assert_eq!(row["size"].as_f64(), wanted["size"].as_f64());
    }
    let (_, second) = page(&view, 100, 7);
    assert_eq!(second, all[100..107].to_vec());
    view["sort"] = json!({ "by": "size", "descending": true });
    let (_, sorted) = page(&view, 0, 5000);
    let sizes: Vec<f64> = sorted.iter().filter_map(|row| row["size"].as_f64()).collect();
    assert!(sizes.windows(2).all(|pair| pair[0] >= pair[1]) && sizes[0] > 0.0);
    let find = |view: &Value, text: &str, from: usize| {
        client.ask("/api/find", &json!({ "view": view, "text": text, "from": from })).json()["place"].as_u64()
    };
    for view in [&view, &{
        let mut unsorted = view.clone();
        unsorted["sort"] = Value::Null;
        unsorted
    }] {
        let text = ".DLL";
        let mut place = find(view, text, 0).unwrap() as usize;
        for _ in 0..5 {
            let (_, row) = page(view, place, 1);
            assert!(row[0]["file"].as_str().unwrap().to_lowercase().contains(".dll"), "{row:?}");
            let next = find(view, text, place + 1).unwrap() as usize;
            assert_ne!(next, place);
            place = next;
        }
        assert_eq!(find(view, "no such text", 0), None);
    }
    let csv = client.ask("/api/csv", &view).text();
    assert!(csv.starts_with("time,thread,operation,file,size,duration\r\n"), "{csv:.100}");
    assert_eq!(csv.lines().count() as f64, number(&info["count"]) + 1.0);
}

#[test]
fn cells_that_a_spreadsheet_would_compute_are_quoted() {
    let folder = tempfile::tempdir().unwrap();
    let viewer = start(crate::small(folder.path()));
    let client = Client::enter(&viewer);
    let mut view = question("events", &["kind.provider", "kind.event"], &["rows"]);
    view["sort"] = json!({ "by": "label" });
    let csv = client.ask("/api/csv", &view).text();
    assert!(csv.lines().next().unwrap() == "kind.provider,kind.event,rows,rows", "{csv}");
    assert!(!csv.lines().any(|line| line.split(',').any(|cell| cell.starts_with(['=', '+', '@']))), "{csv}");
}
