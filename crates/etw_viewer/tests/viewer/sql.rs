//! The SQL of a table.

use std::path::PathBuf;

use etw_viewer::{Options, Viewer};
use serde_json::json;

use crate::{Client, PERFVIEW, Page, question, real, small, start};

#[test]
fn groups_and_rows_have_their_sql() {
    let Some(path) = real(PERFVIEW) else { return };
    let viewer = start(path);
    let client = Client::enter(&viewer);
    let mut view =
        question("disk", &["operation", "thread.process"], &["rows", "sum(size)", "percent(sum(size))"]);
    view["filters"] = json!([
        { "column": "", "op": "rows", "value": "size >= 4096 and not operation == \"Wri'te\"" },
        { "column": "thread.process", "op": "contains", "value": "Test" }
    ]);
    let sql =
        |view: &serde_json::Value| client.ask("/api/sql", view).json()["sql"].as_str().unwrap().to_owned();
    assert_eq!(
        sql(&view),
        "select\n  t.\"operation\" as \"operation\",\n  count(*) as \"rows\",\n  sum(t.\"size\") as \"sum(size)\",\n  \
         100.0 * sum(t.\"size\") / sum(sum(t.\"size\")) over () as \"percent(sum(size))\"\n\
         from \"disk\" t\n  left join \"threads\" j1 on t.\"thread\" = j1.\"row\"\n  \
         left join \"processes\" j2 on j1.\"process\" = j2.\"row\"\n\
         where ((coalesce(t.\"size\" >= 4096, false) and not (coalesce(t.\"operation\" = 'Wri''te', false))) \
         and coalesce(strpos(lower(j2.\"process\"), lower('Test')) > 0, false))\n\
         group by 1\norder by \"rows\" desc nulls last\nlimit 1000;\n"
    );
    // The levels that are open are grouped by too.
    view["expanded"] = json!([["sRead"]]);
    assert!(sql(&view).contains("group by 1, 2\n"), "{}", sql(&view));
    view["keys"] = json!([]);
    view["columns"] = json!(["time", "file"]);
    view["sort"] = json!({ "by": "time", "descending": true });
    let rows = sql(&view);
    assert!(rows.contains("j3.\"path\" as \"file\"") || rows.contains(".\"path\" as \"file\""), "{rows}");
    assert!(rows.contains("order by t.\"time\" desc nulls last"), "{rows}");
    let mut events = question("events", &["kind.provider"], &["rows"]);
    (events["from"], events["to"]) = (0.into(), 10_000_000.into());
    let text = sql(&events);
    assert!(
        text.contains("t.\"time\" >= timestamp '") && text.contains("t.\"time\" < timestamp '"),
        "{text}"
    );
    events["filters"] = json!([{ "column": "", "op": "where", "value": "id == 1" }]);
    assert_eq!(client.ask("/api/sql", &events).status, 422);
}

#[test]
fn the_tab_shows_and_copies_it() {
    let Some(path) = real(PERFVIEW) else { return };
    let Some(mut page) = Page::open(path, "table=\"cpu_sampled\"") else { return };
    open_tab(&mut page);
    page.wait("document.querySelector('.sql textarea')?.value.includes('from \"cpu_sampled\" t')");
    page.browser.value("navigator.clipboard.writeText = async (text) => { window.copied = text; }");
    page.click_on("[...document.querySelectorAll('.sql button')].find((one) => one.textContent === 'Copy')");
    page.wait("window.copied?.startsWith('select')");
    // Names of columns are inserted; the statement of the table comes back.
    page.click_on("[...document.querySelectorAll('.schema li button')].find((one) => one.textContent === 'weight' || one.textContent === 'time')");
    page.wait("location.hash.includes('sql=')");
    page.click_on(
        "[...document.querySelectorAll('.sql button')].find((one) => one.textContent === 'Of the table')",
    );
    page.wait("!location.hash.includes('sql=')");
    page.click_on("[...document.querySelectorAll('[role=tab]')].find((one) => one.textContent === 'Table')");
    page.wait("document.querySelector('.virtual td')");
    page.check();
}

fn open_tab(page: &mut Page) {
    page.click_on("[...document.querySelectorAll('[role=tab]')].find((one) => one.textContent === 'SQL')");
    page.wait("document.querySelector('.sql textarea')?.value");
}

/// Returns the path of `etw-sql` in the directory of the build, if it was built.
fn engine() -> Option<PathBuf> {
    let own = std::env::current_exe().unwrap();
    let found = own.parent()?.parent()?.join("etw-sql");
    if !found.is_file() {
        etw_testkit::skip!("{} is not built", found.display());
        return None;
    }
    Some(found)
}

#[test]
fn without_the_engine_the_answer_says_how_to_build_it() {
    let Some(path) = real(PERFVIEW) else { return };
    let viewer = start(path);
    let client = Client::enter(&viewer);
    let answer = client.ask("/api/query", &json!({ "sql": "select 1" }));
    assert_eq!(answer.status, 422);
    assert!(
        answer.text().contains("build it with: cargo build --release --package etw_sql"),
        "{}",
        answer.text()
    );
}

#[test]
fn statements_of_tables_give_what_the_tables_show() {
    let Some(path) = real(PERFVIEW) else { return };
    let Some(engine) = engine() else { return };
    let options = Options { files: vec![path], sql_program: Some(engine), ..Options::default() };
    let viewer = Viewer::start(options).unwrap();
    let Some(mut page) = Page::from_viewer(viewer, "table=\"disk\"") else { return };
    page.wait("document.querySelector('.virtual td')");
    let shown = page
        .browser
        .value("[...document.querySelectorAll('.virtual td')].slice(0, 1).map((one) => one.textContent)[0]");
    open_tab(&mut page);
    page.click_on("document.querySelector('.sql .run')");
    page.wait("document.querySelector('.sql .virtual td')");
    let answered = page.browser.value("document.querySelector('.sql .virtual td').textContent");
    assert_eq!(answered, shown);
    page.click_on("[...document.querySelectorAll('.sql button')].find((one) => one.textContent === 'Chart')");
    page.wait("document.querySelector('.chart svg rect')");
    page.check();
    // An error names its place. The browser reports the status of the answer.
    page.browser.value("{ const area = document.querySelector('.sql textarea'); area.value = 'select nothing from disk'; area.dispatchEvent(new Event('input', { bubbles: true })); }");
    page.click_on("document.querySelector('.sql .run')");
    page.wait("document.querySelector('.sql .problem')?.textContent.includes('line 1')");
}

#[test]
fn statements_of_the_page_only_read() {
    let folder = tempfile::tempdir().unwrap();
    let Some(engine) = engine() else { return };
    let options =
        Options { files: vec![small(folder.path())], sql_program: Some(engine), ..Options::default() };
    let viewer = Viewer::start(options).unwrap();
    let client = Client::enter(&viewer);
    let out = folder.path().join("out.csv");
    for sql in [
        "SET datafusion.runtime.temp_directory = '/'",
        "select 1; RESET datafusion.runtime.memory_limit",
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'",
        &format!("EXPLAIN ANALYZE COPY (SELECT 1) TO '{}'", out.display()),
    ] {
        let answer = client.ask("/api/query", &json!({ "sql": sql }));
        assert_eq!(answer.status, 422, "{sql}");
        assert!(
            answer.text().contains("only queries") || answer.text().contains("parser"),
            "{}",
            answer.text()
        );
    }
    assert!(!out.exists());
    assert_eq!(client.ask("/api/query", &json!({ "sql": "select 1 as a" })).status, 200);
}
