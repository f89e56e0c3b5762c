//! Writes `docs/header.md`: the fields of an event's header, from their declarations.

use std::fmt::Write;

use anyhow::Result;
use openetw::schema::{HeaderField, HeaderType};

use crate::Files;

const PAGE: &str = "docs/header.md";

const HEAD: &str = "# Fields of an event's header

What every event has beside its payload, in every output.
`cargo xtask header` writes this page from the declarations (`HeaderField`).

| column | JSON and `--fields` | filters | values | meaning |
|---|---|---|---|---|
";

const TAIL: &str = "
- **column**: the name in SQL, in Parquet, Arrow and pandas, and in `event.header` of Python.
  All are columns of the table `events` of SQL but `stack`, and those marked with * of tables of one kind of events; Parquet and Arrow files have these and `stack`, and with `--source` those that begin with `source_`.
- **JSON**: the place in an event's JSON ([layout](json.md)), which is also a column of `etw dump --format csv --fields`, ignoring case.
  `System.Level`, `System.Opcode`, `System.Task` and `System.Provider` stand for the name, or else for the number or GUID; `System.Correlation`, `System.Keywords`, `System.TimeCreated` and `System.Source` for their first field. CSV has the names of keywords with blanks between them.
- **filters**: the names in [expressions](filters.md). The paths of JSON work too, but for `System.Computer` and `System.Source`; those of a name or GUID compare the field that has filter names (`System.Level.Name` is `level`).
- A field that an event does not have is absent in JSON, empty in CSV, and null or missing elsewhere.
";

/// Returns the page.
pub(super) fn made() -> Result<Files> {
    let mut page = HEAD.to_owned();
    let code = |names: &mut dyn Iterator<Item = String>| {
        names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    let of_kinds: Vec<HeaderField> = HeaderField::kind_columns().collect();
    for field in HeaderField::ALL {
        let column =
            code(&mut Some(field.column()).filter(|name| !name.is_empty()).map(str::to_owned).into_iter());
        let star = if of_kinds.contains(field) { " *" } else { "" };
        let json = code(&mut field.path().into_iter());
        let filters = code(&mut field.filter_names().iter().map(|name| (*name).to_owned()));
        let (values, summary) = (values(field.value_type()), field.summary());
        writeln!(page, "| {column}{star} | {json} | {filters} | {values} | {summary} |")?;
    }
    page.push_str(TAIL);
    Ok(vec![(PAGE, page)])
}

fn values(of: HeaderType) -> &'static str {
    match of {
        HeaderType::U8 => "number, 8 bits",
        HeaderType::U16 => "number, 16 bits",
        HeaderType::U32 => "number, 32 bits",
        HeaderType::U64 => "number, 64 bits",
        HeaderType::Mask => "64 bits, hexadecimal in JSON and CSV",
        HeaderType::I64 => "signed number, 64 bits",
        HeaderType::Time => "time in UTC",
        HeaderType::Guid => "GUID",
        HeaderType::Names => "texts",
        HeaderType::Bytes => "bytes",
        HeaderType::Addresses => "list of addresses",
        _ => "text",
    }
}
