//! Compares our pivots with what DuckDB answers from the Parquet files that we export.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use openetw::Trace;
use openetw::analysis::Machines;
use openetw::symbols::Symbolizer;
use openetw::tables::{
    Aggregate, ColumnType, Comparison, Filter, Index, IndexWriter, Pivot, RowTables, Table, TextPattern,
    TextPosition, Value, arrow,
};
use serde_json::{Value as Json, json};

use peers::python;
use shell::random::Random;
use shell::{output, root};

/// Traces of Windows with many kinds of tables.
const TRACES: [&str; 5] = [
    "microsoft-perfview/net.4.5.2.x64.etl",
    "airbus-cert-etl-parser/ShutdownPerfDiagLogger.etl",
    "mikesart-gpuvis/wintracecmd.etl.zst",
    "microsoft-Tx/KernelNetwork.etl",
    "microsoft-perfview/diaghub/diaghub.kernel.1.etl",
];
/// Number of pivots for each trace.
const PIVOTS: usize = 100;
/// Seed of the random numbers of the first trace.
const SEED: u64 = 0x5DEE_CE66_D1CE_4E5B;
/// Most references that a column is looked for behind.
const MAX_STEPS: usize = 3;
/// The Unix epoch as a FILETIME, in 100 ns.
const UNIX_EPOCH: i64 = 116_444_736_000_000_000;

/// Compares; returns the number of differences.
pub(super) fn compare(directory: &Path) -> Result<usize> {
    let Some(data) = etw_testkit::data::data_dir() else { return Ok(0) };
    let mut differences = 0;
    for (number, name) in TRACES.iter().enumerate() {
        let seed = SEED ^ number as u64;
        let folder = directory.join(number.to_string());
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let found = compare_one(&data.join("etl").join(name), &folder, seed)
            .with_context(|| format!("{name}, seed {seed:#x}"))?;
        for difference in found["differences"].as_array().into_iter().flatten() {
            eprintln!("pivots: {name}, seed {seed:#x}: {difference}");
            differences += 1;
        }
        let (pivots, groups) = (&found["pivots"], &found["groups"]);
        if pivots.as_u64() != Some(PIVOTS as u64) {
            bail!("{name}: DuckDB answered {pivots} pivots of {PIVOTS}");
        }
        eprintln!("pivots: {name}, seed {seed:#x}: {pivots} pivots with {groups} groups");
    }
    Ok(differences)
}

fn compare_one(trace: &Path, folder: &Path, seed: u64) -> Result<Json> {
    let index = read(trace)?;
    for table in index.tables() {
        let file = File::create(folder.join(format!("{}.parquet", table.schema().name)))?;
        arrow::write_parquet(table, BufWriter::new(file))?;
    }
    let filled: Vec<Table<'_>> = index.tables().filter(|table| table.rows() > 0).collect();
    let mut random = Random(seed);
    let mut pivots = Vec::new();
    while pivots.len() < PIVOTS {
        let table = filled[random.below(filled.len() as u64) as usize];
        pivots.push(Question::random(table, &mut random).answered()?);
    }
    let path = folder.join("pivots.json");
    fs::write(&path, json!(pivots).to_string())?;
    let script = root().join("bench/peers/pivots.py");
    let text = output(Command::new(python()).arg(script).arg(&path))?;
    serde_json::from_str(&text).with_context(|| format!("no JSON: {text}"))
}

fn read(path: &Path) -> Result<Index> {
    let mut trace = Trace::open_file(path)?;
    let stacks = trace.stacks()?;
    let mut tables = RowTables::new(IndexWriter::in_memory())?.of_machines(Machines::from_trace(&trace));
    trace.for_each_event(|event| tables.add(event, &stacks.of(event.record)))?;
    tables.add_losses(trace.statistics());
    Ok(tables.finish(&Symbolizer::new())?)
}

/// A pivot over a table, which says of each column how it is reached.
struct Question<'i> {
    table: Table<'i>,
    pivot: Pivot,
    /// For each aggregate: its name.
    names: Vec<&'static str>,
    /// The filter in the form of the script.
    filter: Json,
}

impl<'i> Question<'i> {
    /// Makes a pivot up: one to three keys, one to three aggregates, and for most a filter.
    fn random(table: Table<'i>, random: &mut Random) -> Question<'i> {
        let mut question = Question {
            table,
            pivot: Pivot::new([], []),
            names: Vec::new(),
            filter: json!({ "kind": "all", "of": [] }),
        };
        for _ in 0..=random.below(3) {
            let column = question.column(random, |_| true);
            question.pivot.keys.push(column);
        }
        question.pivot.levels = question.pivot.keys.len();
        for _ in 0..=random.below(3) {
            let column = question.column(random, |_| true);
            let kind = question.kind(column);
            let mut choices: Vec<(&str, Aggregate)> =
                vec![("count", Aggregate::Count(column)), ("unique", Aggregate::Unique(column))];
            if !kind.is_code() {
                choices.extend([("min", Aggregate::Min(column)), ("max", Aggregate::Max(column))]);
            }
            if kind.is_number() {
                choices.extend([("sum", Aggregate::Sum(column)), ("mean", Aggregate::Mean(column))]);
            }
            let (name, aggregate) = choices[random.below(choices.len() as u64) as usize];
            question.names.push(name);
            question.pivot.aggregates.push(aggregate);
        }
        let count = random.below(4);
        let conditions = (0..count).map(|_| question.condition(random)).collect::<Vec<_>>();
        let (filters, texts): (Vec<Filter>, Vec<Json>) = conditions.into_iter().unzip();
        (question.pivot.filter, question.filter) = match random.below(3) {
            0 if !filters.is_empty() => (Filter::Any(filters), json!({ "kind": "any", "of": texts })),
            _ => (Filter::All(filters), json!({ "kind": "all", "of": texts })),
        };
        question
    }

    /// Chooses a column of the table or of one that it refers to; returns its number in the pivot.
    fn column(&mut self, random: &mut Random, is_wanted: impl Fn(ColumnType) -> bool) -> usize {
        loop {
            let (mut path, mut table) = (Vec::new(), self.table);
            let kind = loop {
                let number = random.below(table.schema().columns.len() as u64) as usize;
                let column = &table.schema().columns[number];
                path.push(number);
                let target = self.table.index().table(&column.table);
                match target.filter(|_| path.len() < MAX_STEPS && random.below(4) > 0) {
                    Some(target) => table = target,
                    None => break column.column_type,
                }
            };
            if !is_wanted(kind) {
                continue;
            }
            if let [own] = path[..] {
                return own;
            }
            self.pivot.through.push(path);
            return self.table.schema().columns.len() + self.pivot.through.len() - 1;
        }
    }

    /// Returns the columns that lead to a column of the pivot.
    fn path(&self, column: usize) -> Vec<usize> {
        match column.checked_sub(self.table.schema().columns.len()) {
            Some(number) => self.pivot.through[number].clone(),
            None => vec![column],
        }
    }

    fn kind(&self, column: usize) -> ColumnType {
        self.table.path_column(&self.path(column)).map_or(ColumnType::Text, |column| column.column_type)
    }

    /// Returns the path of a column with the table of each step.
    fn steps(&self, column: usize) -> Json {
        let mut table = self.table;
        let mut steps = Vec::new();
        for number in self.path(column) {
            let column = &table.schema().columns[number];
            steps.push(json!([table.schema().name, column.name]));
            table = self.table.index().table(&column.table).unwrap_or(table);
        }
        json!(steps)
    }

    /// Makes a condition up, with a value that the column has.
    fn condition(&mut self, random: &mut Random) -> (Filter, Json) {
        let column = self.column(random, |kind| kind != ColumnType::Stack);
        let (steps, path) = (self.steps(column), self.path(column));
        let row = random.below(self.table.rows());
        let value = self.table.path_value(row, &path).unwrap_or(Value::Null);
        let is_opposite = random.below(4) == 0;
        let (filter, text) = match value {
            Value::Null => (Filter::Null { column }, json!({ "kind": "null", "column": steps })),
            Value::Code(code) if self.kind(column) == ColumnType::Text && random.below(2) == 0 => {
                let text = self.table.index().texts().ok().and_then(|texts| texts.get(code)).unwrap_or("");
                let part: String = text.chars().take(1 + random.below(4) as usize).collect();
                let (position, name) = match random.below(2) {
                    0 => (TextPosition::Start, "starts"),
                    _ => (TextPosition::Anywhere, "contains"),
                };
                let pattern = TextPattern { text: part.clone(), position, ignore_case: false };
                let text = json!({ "kind": name, "column": steps, "value": part });
                (Filter::Text { column, pattern }, text)
            }
            Value::Code(_) | Value::Bool(_) => {
                let text = json!({ "kind": "==", "column": steps, "value": self.shown(column, value) });
                (Filter::is(column, value), text)
            }
            _ => {
                let all = [
                    (Comparison::Less, "<"),
                    (Comparison::LessOrEqual, "<="),
                    (Comparison::Greater, ">"),
                    (Comparison::GreaterOrEqual, ">="),
                ];
                let (comparison, name) = all[random.below(all.len() as u64) as usize];
                let text = json!({ "kind": name, "column": steps, "value": self.shown(column, value) });
                (Filter::Compare { column, comparison, value }, text)
            }
        };
        match is_opposite {
            true => (Filter::Not(Box::new(filter)), json!({ "kind": "not", "of": [text] })),
            false => (filter, text),
        }
    }

    /// Returns a value of a column: whole numbers as texts, times in nanoseconds since 1970, stacks as their frames.
    fn shown(&self, column: usize, value: Value) -> Json {
        let index = self.table.index();
        match (value, self.kind(column)) {
            (Value::Null, _) => Json::Null,
            (Value::Bool(value), _) => json!(value),
            (Value::Integer(value), _) => json!(value.to_string()),
            (Value::Float(value), _) => json!(value),
            (Value::Time(time), _) => json!(((time.0 - UNIX_EPOCH) * 100).to_string()),
            (Value::Code(code), ColumnType::Text) => {
                json!(index.texts().ok().and_then(|texts| texts.get(code)))
            }
            (Value::Code(code), ColumnType::Guid) => {
                json!(index.guids().ok().and_then(|guids| guids.get(code)).map(|guid| guid.to_string()))
            }
            (Value::Code(code), ColumnType::Stack) => {
                let frames = index.stacks().map(|stacks| stacks.frames(code).collect::<Vec<_>>());
                json!(frames.unwrap_or_default().iter().map(u64::to_string).collect::<Vec<_>>())
            }
            (Value::Code(code), _) => json!(code.to_string()),
        }
    }

    /// Returns the pivot with our answer.
    fn answered(&self) -> Result<Json> {
        let result = self.pivot.run(self.table, 2)?;
        let mut groups = Vec::new();
        for group in &result.groups {
            let keys: Vec<Json> = self
                .pivot
                .keys
                .iter()
                .zip(&group.keys)
                .map(|(column, value)| self.shown(*column, *value))
                .collect();
            let values: Vec<Json> = self
                .pivot
                .aggregates
                .iter()
                .zip(&group.values)
                .map(|(aggregate, value)| self.shown(aggregate.column().unwrap_or_default(), *value))
                .collect();
            groups.push(json!([keys, group.rows, values]));
        }
        let columns = self.pivot.aggregates.iter().filter_map(|aggregate| aggregate.column());
        let values: Vec<Json> =
            self.names.iter().zip(columns).map(|(name, column)| json!([name, self.steps(column)])).collect();
        Ok(json!({
            "table": self.table.schema().name,
            "keys": self.pivot.keys.iter().map(|column| self.steps(*column)).collect::<Vec<_>>(),
            "values": values,
            "filter": self.filter,
            "groups": groups,
        }))
    }
}
