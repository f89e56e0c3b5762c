//! The SQL of a table.

use serde_json::json;

use crate::{Client, PERFVIEW, Page, question, real, start};

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
    page.click_on("[...document.querySelectorAll('[role=tab]')].find((one) => one.textContent === 'SQL')");
    page.wait("document.querySelector('.sql pre')?.textContent.includes('from \"cpu_sampled\" t')");
    page.wait("document.querySelectorAll('.sql pre')[1].textContent.includes('create view \"processes\"')");
    page.browser.value("navigator.clipboard.writeText = async (text) => { window.copied = text; }");
    page.click_on("document.querySelector('.sql button')");
    page.wait("window.copied?.startsWith('select')");
    page.click_on("[...document.querySelectorAll('[role=tab]')].find((one) => one.textContent === 'Table')");
    page.wait("document.querySelector('.virtual td')");
    page.check();
}
