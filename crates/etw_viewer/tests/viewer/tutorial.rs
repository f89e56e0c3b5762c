//! The tutorials: each step as `docs/viewer-tutorial.md` says it, and what is shown then beside `etw report`.

use std::path::{Path, PathBuf};

use etw_report::{Format, Request, TreeKind, TreeRequest};
use etw_testkit::problems::{CPU_CAUSE, DISK_CAUSE, GC_CAUSE, LOCK_CAUSE, Problem};
use etw_testkit::traces::START;
use openetw::analysis::{ProcessFilter, StackWeight, TableKind, TreeShape, TreeView};
use openetw::{FileTime, TimePoint};
use serde_json::{Value, json};

use crate::Page;

/// Maximum number of clicks of a tutorial.
const MAX_CLICKS: usize = 9;

/// A tutorial while a person follows it. The last column of a row is what its cells say on hover.
struct Tutorial {
    page: Page,
    path: PathBuf,
    /// The steps that are left.
    steps: Vec<String>,
    clicks: usize,
    _folder: tempfile::TempDir,
}

impl Tutorial {
    /// Opens the trace of a section of the tutorials.
    fn open(problem: Problem, section: &str) -> Option<Tutorial> {
        let folder = tempfile::tempdir().unwrap();
        let (name, _) = Problem::ALL.iter().find(|(_, known)| *known == problem).unwrap();
        let path = folder.path().join(format!("{name}.etl"));
        std::fs::write(&path, problem.bytes().unwrap()).unwrap();
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/viewer-tutorial.md");
        let text = std::fs::read_to_string(docs).unwrap();
        let (_, rest) = text.split_once(&format!("\n## {section}\n")).unwrap();
        let text = rest.split_once("\n## ").map_or(rest, |(text, _)| text);
        assert!(text.contains(&format!("etw view {name}.etl")), "{section}");
        let numbered = |line: &str| {
            let (number, step) = line.split_once(". ")?;
            number.parse::<u32>().ok().map(|_| step.to_owned())
        };
        let steps: Vec<String> = text.lines().filter_map(numbered).collect();
        let page = Page::open(path.clone(), "")?;
        Some(Tutorial { page, path, steps, clicks: 0, _folder: folder })
    }

    /// The next step must be this one.
    fn step(&mut self, text: &str) {
        assert!(!self.steps.is_empty(), "the page ends before: {text}");
        assert_eq!(self.steps.remove(0), text);
        self.page.wait("!document.querySelector('.busy')");
    }

    /// Returns the middle of the element that an expression finds, and its left end.
    fn place(&mut self, element: &str) -> (f64, f64, f64) {
        self.page.wait(element);
        let place = self.page.browser.value(&format!(
            "(() => {{ const one = {element}; one.scrollIntoView({{ block: 'nearest' }}); \
             const box = one.getBoundingClientRect(); \
             return [box.x + box.width / 2, box.y + box.height / 2, box.x]; }})()"
        ));
        let at = |number: usize| place[number].as_f64().unwrap();
        (at(0), at(1), at(2))
    }

    fn click(&mut self, element: &str) {
        let (x, y, _) = self.place(element);
        self.page.browser.click_at((x, y));
        self.clicks += 1;
    }

    /// Clicks the element of a kind with this text.
    fn click_text(&mut self, selector: &str, text: &str) {
        self.click(&format!(
            "[...document.querySelectorAll('{selector}')].find((one) => one.textContent.trim() === {})",
            json!(text)
        ));
    }

    /// Clicks a table in the list.
    fn click_table(&mut self, name: &str) {
        self.click(&format!("document.querySelector('.explorer button[data-table={name}]')"));
        self.page.wait(&format!("new URLSearchParams(location.hash.slice(1)).get('table') === '\"{name}\"'"));
    }

    /// Clicks the triangle before a group.
    fn open_group(&mut self, text: &str) {
        let cell = format!(
            "[...document.querySelectorAll('.virtual td[data-toggle=closed]')].find((one) => one.textContent === {})",
            json!(text)
        );
        let (_, y, left) = self.place(&cell);
        let padding = self.page.browser.value(&format!("Number.parseFloat(({cell}).style.paddingLeft)"));
        self.page.browser.click_at((left + padding.as_f64().unwrap() + 6.0, y));
        self.clicks += 1;
        self.page.wait(&format!("!({cell})"));
        self.page.wait("!document.querySelector('.busy')");
    }

    /// Drags over a part of the timeline, at the height of a lane.
    fn drag(&mut self, lane: &str, [from, to]: [f64; 2]) {
        let lane = format!(
            "[...document.querySelectorAll('.lanes .lane')].find((one) => one.textContent === {})",
            json!(lane)
        );
        let (_, y, _) = self.place(&lane);
        let box_of = "(() => { const box = document.querySelector('.lanes canvas').getBoundingClientRect(); \
                      return [box.x, box.width]; })()";
        let place = self.page.browser.value(box_of);
        let (x, width) = (place[0].as_f64().unwrap(), place[1].as_f64().unwrap());
        self.page.browser.drag((x + width * from, y), (x + width * to, y));
        self.clicks += 1;
        self.page.wait("document.querySelector('.filter.time')");
    }

    /// Returns the selected time.
    fn selected(&mut self) -> [Option<TimePoint>; 2] {
        let text = self.page.browser.value("new URLSearchParams(location.hash.slice(1)).get('select')");
        let Some(text) = text.as_str() else { return [None, None] };
        let range: [i64; 2] = serde_json::from_str(text).unwrap();
        range.map(|time| Some(TimePoint::At(FileTime(START.0 + time))))
    }

    /// Returns the rows that are shown: the texts of the cells, and what they say on hover.
    fn rows(&mut self) -> Vec<Vec<[String; 2]>> {
        self.page.wait("!document.querySelector('.busy')");
        let rows = self.page.browser.value(
            "[...document.querySelectorAll('.virtual tbody tr')].map((row) => \
             [...row.querySelectorAll('td')].map((cell) => [cell.textContent, cell.title]))",
        );
        serde_json::from_value(rows).unwrap()
    }

    /// Returns the lines of a call tree: name, exact inclusive weight, and number of events.
    fn tree(&mut self) -> Vec<(String, f64, f64)> {
        self.page.wait("document.querySelector('.stacks .virtual tbody td')");
        let rows = self.rows();
        let number = |text: &str| -> f64 {
            let digits: String =
                text.chars().take_while(|c| c.is_ascii_digit() || *c == ',' || *c == '.').collect();
            digits.replace(',', "").parse().unwrap_or_else(|_| panic!("{text}"))
        };
        rows.iter().map(|row| (row[0][0].clone(), number(&row[1][1]), number(&row[5][0]))).collect()
    }

    /// Compares the lines of the call tree with a report, and returns the one of a function.
    fn check_tree(&mut self, expected: &Value, name: &str) -> (f64, f64) {
        let lines = self.tree();
        let nodes = expected["nodes"].as_array().unwrap();
        for (name, weight, events) in &lines {
            let is_same = |node: &&Value| {
                node["name"] == *name
                    && node["inclusive"].as_f64() == Some(*weight)
                    && node["inclusive_events"].as_f64() == Some(*events)
            };
            assert!(nodes.iter().any(|node| is_same(&node)), "{name} {weight} {events}: {expected}");
        }
        let found = lines.iter().find(|(known, ..)| known == name);
        let (_, weight, events) = found.unwrap_or_else(|| panic!("{name}: {lines:?}"));
        (*weight, *events)
    }

    /// All steps have been done, in few clicks.
    fn finish(self, clicks: usize) {
        assert_eq!(self.steps, Vec::<String>::new());
        assert_eq!(self.clicks, clicks);
        assert!(self.clicks <= MAX_CLICKS);
        self.page.check();
    }
}

/// Returns the call tree of `etw report`.
fn report_tree(path: &Path, stacks: &[TableKind], [from, to]: [Option<TimePoint>; 2], mine: bool) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("tree.json");
    etw_report::run(&Request {
        files: vec![path.to_owned()],
        tables: Vec::new(),
        top: None,
        stacks: stacks.to_vec(),
        tree: Some(TreeRequest {
            kind: TreeKind::View(TreeView::TopDown),
            min_percent: Some(0.0),
            top: None,
        }),
        shape: TreeShape { just_my_code: mine, ..TreeShape::default() },
        stack_tags: Vec::new(),
        processes: ProcessFilter::default(),
        from,
        to,
        symbols: etw_app::symbols::SymbolOptions::default(),
        tiers: false,
        format: Format::Json,
        output: Some(output.clone()),
    })
    .unwrap();
    let mut value: Value = serde_json::from_slice(&std::fs::read(output).unwrap()).unwrap();
    let name = stacks.first().map_or("functions", |kind| kind.name());
    value["trees"][name].take()
}

/// Returns groups of `etw report` in a period.
fn report_rows(
    path: &Path,
    table: &str,
    columns: &[&str],
    values: &[&str],
    [from, to]: [Option<TimePoint>; 2],
) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("rows.json");
    let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    etw_report::rows::run(&etw_report::rows::RowsRequest {
        files: vec![path.to_owned()],
        table: table.to_owned(),
        columns: own(columns),
        is_grouped: true,
        values: own(values),
        condition: None,
        sort: None,
        top: None,
        from,
        to,
        regions: Vec::new(),
        symbols: etw_app::symbols::SymbolOptions::default(),
        index: etw_app::index::IndexOptions::default(),
        format: etw_report::rows::RowsFormat::Json,
        output: Some(output.clone()),
    })
    .unwrap();
    let value: Value = serde_json::from_slice(&std::fs::read(output).unwrap()).unwrap();
    value["rows"].as_array().unwrap().clone()
}

/// Returns the exact number that a cell says on hover.
fn exact(cell: &[String; 2]) -> f64 {
    let digits: String =
        cell[1].chars().take_while(|c| c.is_ascii_digit() || matches!(c, ',' | '.' | '-')).collect();
    digits.replace(',', "").parse().unwrap_or_else(|_| panic!("{cell:?}"))
}

#[test]
fn a_busy_processor() {
    let Some(mut tutorial) = Tutorial::open(Problem::Cpu, "A busy processor") else { return };
    tutorial
        .step("In the timeline, drag over the busy time of *Orders.exe (4720)* below *Samples by process*.");
    tutorial.drag("Orders.exe (4720)", [0.41, 0.69]);
    tutorial.step("Click *Stacks*.");
    tutorial.click_text(".titlebar [role=tab]", "Stacks");
    let selected = tutorial.selected();
    let expected = report_tree(&tutorial.path, &[], selected, false);
    let (weight, _) = tutorial.check_tree(&expected, CPU_CAUSE);
    assert!(weight > 0.8 * expected["total"].as_f64().unwrap(), "{weight} {expected}");
    let regex =
        "System.Text.RegularExpressions!System.Text.RegularExpressions.Regex..ctor(class System.String)";
    assert!(tutorial.tree().iter().any(|(name, ..)| name == regex));
    tutorial.step("Tick *Just my code*.");
    tutorial.click("document.querySelector('.stacks .patterns input[type=checkbox]')");
    tutorial.page.wait(
        "[...document.querySelectorAll('.virtual td')].some((one) => one.textContent === 'System.Text.RegularExpressions!?')",
    );
    let selected = tutorial.selected();
    let expected = report_tree(&tutorial.path, &[], selected, true);
    tutorial.check_tree(&expected, CPU_CAUSE);
    tutorial.finish(3);
}

#[test]
fn a_slow_disk() {
    let Some(mut tutorial) = Tutorial::open(Problem::Disk, "A slow disk") else { return };
    tutorial.step("In the timeline, drag over the full part of *SATA disk* below *Disk queue*.");
    tutorial.drag("SATA disk", [0.32, 0.68]);
    tutorial.step("Click ▸ before *SATA disk* in the table.");
    tutorial.open_group("SATA disk");
    tutorial.step("Click ▸ before *Write*.");
    tutorial.open_group("Write");
    tutorial.step("Click ▸ before *Read*.");
    tutorial.open_group("Read");
    tutorial.step("Click ▸ before *backup.exe (6400)*.");
    tutorial.open_group("backup.exe (6400)");
    let selected = tutorial.selected();
    let keys = ["disk", "operation", "thread.process", "file"];
    let values = ["sum(size)", "p50(duration)"];
    let expected = report_rows(&tutorial.path, "disk", &keys, &values, selected);
    let of = |rows: &[Value], name: &str, column: &str| -> f64 {
        let found: Vec<&Value> =
            rows.iter().filter(|row| row.to_string().contains(&json!(name).to_string())).collect();
        assert_eq!(found.len(), 1, "{name}: {rows:?}");
        found[0][column].as_f64().unwrap()
    };
    let rows = tutorial.rows();
    // Four columns with names, then rows, size, duration and its median.
    let shown = |name: &str, column: usize| {
        let row = rows.iter().find(|row| row.iter().any(|cell| cell[0] == name));
        exact(&row.unwrap_or_else(|| panic!("{name}: {rows:?}"))[column])
    };
    assert_eq!(shown(DISK_CAUSE, 5), of(&expected, DISK_CAUSE, "sum(size)"));
    let slow = shown("editor.exe (5200)", 7);
    let median = of(&expected, r"C:\Users\ann\Documents\Report.docx", "p50(duration)");
    // JSON has units of 100 ns.
    assert!((slow - median).abs() <= 100.0, "{slow} {median}: {rows:?}");
    // Without the backup the same writes take a twentieth.
    let whole = report_rows(&tutorial.path, "disk", &["file"], &["min(duration)"], [None, None]);
    assert!(slow > 20.0 * of(&whole, r"C:\Users\ann\Documents\Report.docx", "min(duration)"), "{slow}");
    tutorial.finish(5);
}

#[test]
fn a_lock_convoy() {
    let Some(mut tutorial) = Tutorial::open(Problem::LockConvoy, "A lock convoy") else { return };
    tutorial.step("In the timeline, click the name *UserRequest* below *Waits by reason*.");
    tutorial.click_text(".lanes .lane", "UserRequest");
    tutorial.page.wait("new URLSearchParams(location.hash.slice(1)).get('table') === '\"cpu_precise\"'");
    tutorial.step("Click *Stacks*.");
    tutorial.click_text(".titlebar [role=tab]", "Stacks");
    let expected =
        report_tree(&tutorial.path, &[TableKind::ByFunction(StackWeight::Waits)], [None, None], false);
    let (weight, waits) = tutorial.check_tree(&expected, LOCK_CAUSE);
    assert_eq!(weight, expected["total"].as_f64().unwrap());
    assert!(waits > 2000.0, "{waits}");
    tutorial.step("In the timeline, drag over a short time in the middle, less than a tenth of a second.");
    tutorial.drag("UserRequest", [0.5, 0.51]);
    tutorial.step("Click *Zoom* at the top.");
    tutorial.click_text(".top button", "Zoom");
    tutorial.page.wait("window.etwFrame.arrows > 5");
    let [from, to] = tutorial.selected();
    let rows = report_rows(&tutorial.path, "cpu_precise", &["readying_thread"], &["sum(ready)"], [from, to]);
    let readied: f64 = rows
        .iter()
        .filter(|row| !row["readying_thread"].is_null())
        .map(|row| row["rows"].as_f64().unwrap())
        .sum();
    assert_eq!(tutorial.page.browser.value("window.etwFrame.arrows").as_f64(), Some(readied));
    tutorial.finish(4);
}

#[test]
fn long_garbage_collections() {
    let Some(mut tutorial) = Tutorial::open(Problem::GarbageCollections, "Long garbage collections") else {
        return;
    };
    tutorial.step("Click *.NET GC* in the list on the left.");
    tutorial.click_table("gc");
    tutorial.step("Click ▸ before *Orders.exe (4720)* in the table.");
    tutorial.open_group("Orders.exe (4720)");
    tutorial.step("Click ▸ before *2*.");
    tutorial.open_group("2");
    let expected = report_rows(
        &tutorial.path,
        "gc",
        &["generation", "reason"],
        &["sum(pause)", "max(pause)"],
        [None, None],
    );
    let large = expected.iter().find(|row| row["reason"] == "AllocLarge").unwrap();
    assert_eq!(large["generation"].as_f64(), Some(2.0));
    let rows = tutorial.rows();
    // Three columns with names, then rows, pauses and the longest one.
    let row = rows.iter().find(|row| row[2][0] == "AllocLarge").unwrap();
    assert_eq!(exact(&row[4]), large["sum(pause)"].as_f64().unwrap());
    assert_eq!(exact(&row[5]), large["max(pause)"].as_f64().unwrap());
    tutorial.step("Click *.NET Allocations* in the list on the left.");
    tutorial.click_table("allocations");
    tutorial.step("Click *Stacks*.");
    tutorial.click_text(".titlebar [role=tab]", "Stacks");
    let expected =
        report_tree(&tutorial.path, &[TableKind::ByFunction(StackWeight::Allocations)], [None, None], false);
    let (bytes, count) = tutorial.check_tree(&expected, GC_CAUSE);
    assert!(bytes > 0.8 * expected["total"].as_f64().unwrap() && count == 8.0, "{bytes} {count}");
    tutorial.finish(5);
}
