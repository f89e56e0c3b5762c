//! Tables of the report that are declared ([`Summary`]): their rows are counted as they come, and not kept.

mod query;

use etw_columns::{
    Aggregate, ColumnsError, CountedRows, Index, IndexWriter, Pivot, Table, TableId, TableSchema,
};
use etw_consumer::Event;
use etw_event::{Guid, Opcode};
use etw_filter::Expression;
use etw_kernel_events::ids::EventId;
use etw_machine::{Fact, HashMap, Model, Names, Space};

use super::frames::Frames;
use super::list;
use super::objects::Objects;
use super::source::{EventContext, RowContext, RowSource, process_of, thread_of};
use super::summary::split_value;
use super::table::RowWriter;
use crate::cell::Cell;
use crate::context::ReportContext;
use crate::summary::{ColumnSource, Summary};
use query::{SelectedRows, selected_rows, without_limits};
pub use query::{SummarySelection, summary_rows};

/// Maximum number of kinds of events of programs that are remembered.
const MAX_KINDS: usize = 1 << 16;

/// Counts the rows of the tables that declared tables of the report are made of.
#[derive(Debug)]
pub struct Summaries {
    tables: Result<Tables, ColumnsError>,
}

#[derive(Debug)]
struct Tables {
    writer: RowWriter,
    frames: Frames,
    objects: Objects,
    sources: Vec<Box<dyn RowSource>>,
    /// By the number of the kind of facts: the sources that make rows of them.
    wanting: [Option<Box<[usize]>>; Fact::KINDS],
    /// By the provider, id and opcode of events of programs: the sources that make rows of them.
    wanting_of_programs: HashMap<(Guid, u16, Opcode), Box<[usize]>>,
    ids: Vec<(&'static str, TableId)>,
}

impl Default for Summaries {
    /// Counts nothing.
    fn default() -> Summaries {
        Summaries::new(&[])
    }
}

impl Summaries {
    /// Starts to count for some tables of the report.
    pub fn new(summaries: &[&'static Summary]) -> Summaries {
        Summaries { tables: Tables::new(summaries) }
    }

    /// Adds a fact of an event.
    #[inline]
    pub fn add(&mut self, event: &Event<'_>, id: Option<EventId>, fact: &Fact, model: &mut Model) {
        if let Ok(tables) = &mut self.tables {
            tables.add(event, id, fact, model);
        }
    }

    /// Adds an event that is not of the kernel, and not of a runtime of .NET.
    #[inline]
    pub fn add_of_program(&mut self, event: &Event<'_>, model: &mut Model) {
        if let Ok(tables) = &mut self.tables {
            tables.add_of_program(event, model);
        }
    }

    /// Adds what is known at the end.
    pub fn finish(&mut self, model: &mut Model) {
        let Ok(Tables { writer, frames, objects, sources, .. }) = &mut self.tables else { return };
        for source in sources {
            source.finish(&mut RowContext { writer, model, frames, objects });
        }
    }

    /// Returns the addresses whose names are needed.
    pub fn places(&self) -> impl Iterator<Item = (Space, u64)> {
        self.tables.iter().flat_map(|tables| tables.frames.places())
    }

    /// Completes the counts.
    pub fn counted(self, names: &Names) -> CountedTables {
        let complete = |mut tables: Tables| -> Result<_, ColumnsError> {
            tables.frames.write(names, &mut tables.writer);
            let (index, counted) = tables.writer.finish()?;
            let name = |id: TableId| tables.ids.iter().find(|(_, known)| *known == id).map(|(name, _)| *name);
            let counted = counted.into_iter().filter_map(|(id, rows)| Some((name(id)?, rows)));
            Ok((index, counted.collect()))
        };
        CountedTables { tables: self.tables.and_then(complete) }
    }
}

impl Tables {
    fn new(summaries: &[&'static Summary]) -> Result<Tables, ColumnsError> {
        let is_counted = |name: &str| summaries.iter().any(|summary| summary.table == name);
        let mut wanted: Vec<&str> = summaries.iter().map(|summary| summary.table).collect();
        refer(&mut wanted);
        let is_wanted = |schema: &TableSchema| wanted.contains(&&*schema.name);
        let mut writer = RowWriter::new(IndexWriter::in_memory(), list::TYPED, is_wanted)?;
        let mut ids = Vec::new();
        for (number, schema) in list::TYPED.iter().enumerate().filter(|(_, schema)| is_counted(&schema.name))
        {
            let of_table = summaries.iter().filter(|summary| summary.table == schema.name);
            let pivots: Vec<Pivot> = of_table.map(|summary| counting(summary, schema)).collect();
            ids.extend(writer.count(number, &pivots)?.map(|id| (&*schema.name, id)));
        }
        Ok(Tables {
            sources: list::sources(&writer),
            writer,
            frames: Frames::default(),
            objects: Objects::default(),
            wanting: Default::default(),
            wanting_of_programs: HashMap::default(),
            ids,
        })
    }

    #[inline]
    fn add(&mut self, event: &Event<'_>, id: Option<EventId>, fact: &Fact, model: &mut Model) {
        let Tables { writer, frames, objects, sources, wanting, .. } = self;
        let wanting = &mut wanting[fact.kind()];
        if wanting.as_ref().is_some_and(|wanting| wanting.is_empty()) {
            return;
        }
        let event = &EventContext { id, fact: Some(fact), ..context_of(event, model) };
        let wanting = wanting.get_or_insert_with(|| sources_that_want(event, sources));
        let context = &mut RowContext { writer, model, frames, objects };
        for source in wanting.iter() {
            sources[*source].event(event, context);
        }
    }

    fn add_of_program(&mut self, event: &Event<'_>, model: &mut Model) {
        let Tables { writer, frames, objects, sources, wanting_of_programs, .. } = self;
        let (provider, descriptor) = (event.record.provider_id(), event.record.descriptor());
        if wanting_of_programs.len() >= MAX_KINDS {
            wanting_of_programs.clear();
        }
        let wanting = wanting_of_programs
            .entry((provider, descriptor.id, descriptor.opcode))
            .or_insert_with(|| sources_that_want(&context_of(event, model), sources));
        if wanting.is_empty() {
            return;
        }
        let thread = thread_of(event.record, &mut model.processes);
        let process = process_of(thread, event.record, &mut model.processes);
        let event = &EventContext { process, thread, ..context_of(event, model) };
        let context = &mut RowContext { writer, model, frames, objects };
        for source in wanting.iter() {
            sources[*source].event(event, context);
        }
    }
}

/// Returns an event without what is known of it; what threads ran before it counts in tables that are code.
#[inline]
fn context_of<'e, 'r>(event: &'e Event<'r>, model: &Model) -> EventContext<'e, 'r> {
    EventContext {
        event,
        id: None,
        fact: None,
        machine: model.processes.machine(),
        kind: 0,
        process: None,
        thread: None,
        processor: model.processes.machines.processor(event.record) as u32,
        stack: None,
        stack_thread: None,
        ran: None,
    }
}

fn sources_that_want(event: &EventContext<'_, '_>, sources: &[Box<dyn RowSource>]) -> Box<[usize]> {
    let sources = sources.iter().enumerate();
    sources.filter(|(_, source)| source.wants(event)).map(|(number, _)| number).collect()
}

/// Adds the tables that rows of some tables refer to.
fn refer(tables: &mut Vec<&str>) {
    let mut next = 0;
    while let Some(name) = tables.get(next).copied() {
        next += 1;
        let schema = list::TYPED.iter().find(|schema| schema.name == name);
        for column in schema.iter().flat_map(|schema| schema.columns.iter()) {
            if !column.table.is_empty() && !tables.contains(&&*column.table) {
                tables.push(&column.table);
            }
        }
    }
}

/// Returns a pivot that has the columns that a table of the report needs.
fn counting(summary: &Summary, schema: &TableSchema) -> Pivot {
    let mut names: Vec<&str> = summary.by.to_vec();
    names.extend([summary.process, summary.thread]);
    let mut aggregates = Vec::new();
    let mut conditions = vec![summary.condition];
    let mut value = |text: &'static str, conditions: &mut Vec<&'static str>| {
        let (value, condition) = split_value(text);
        conditions.extend(condition);
        if let Ok((aggregate, column)) = Aggregate::parse(value)
            && let Some(number) = schema.column(column)
        {
            aggregates.push(aggregate.with_column(number));
        }
    };
    for column in summary.columns {
        match column.source {
            ColumnSource::Code => {}
            ColumnSource::Key { paths, .. } => names.extend(paths),
            ColumnSource::Value { value: text, known_by } => {
                value(text, &mut conditions);
                value(known_by, &mut conditions);
            }
            ColumnSource::ProcessorShare(text) => value(text, &mut conditions),
            ColumnSource::All { column, .. } => names.push(column),
        }
    }
    summary.order.iter().for_each(|text| value(text, &mut conditions));
    let expressions = conditions.iter().filter_map(|text| text.parse::<Expression>().ok());
    let mut keys: Vec<usize> = Vec::new();
    let mut add = |name: &str| keys.extend(schema.column(name.split('.').next().unwrap_or(name)));
    names.iter().for_each(|name| add(name));
    expressions.for_each(|expression| each_name(&expression, &mut add));
    without_limits(Pivot::new(keys, aggregates))
}

fn each_name(expression: &Expression, each: &mut impl FnMut(&str)) {
    match expression {
        Expression::Any(operands) | Expression::All(operands) => {
            operands.iter().for_each(|operand| each_name(operand, each));
        }
        Expression::Not(operand) => each_name(operand, each),
        Expression::Has(name) => each(&name.text),
        Expression::Compare(comparison) => each(&comparison.name.text),
    }
}

/// The counted tables, and the tables that their rows refer to.
#[derive(Debug)]
pub struct CountedTables {
    tables: Result<(Index, Vec<(&'static str, CountedRows)>), ColumnsError>,
}

impl CountedTables {
    /// Returns the rows of a table of the report, and its notes.
    pub fn table(
        &self,
        summary: &Summary,
        model: &Model,
        context: &ReportContext<'_>,
    ) -> (Vec<Vec<Cell>>, Vec<String>) {
        match self.rows(summary, context) {
            Ok(rows) => {
                let notes = (summary.notes)(model, !rows.is_empty());
                (rows, notes)
            }
            Err(error) => (Vec::new(), vec![format!("The rows could not be counted: {error}.")]),
        }
    }

    fn rows(&self, summary: &Summary, context: &ReportContext<'_>) -> Result<Vec<Vec<Cell>>, String> {
        let (index, counted) = self.tables.as_ref().map_err(|error| error.to_string())?;
        let found = counted.iter().find(|(name, _)| *name == summary.table);
        let (_, rows) = found.ok_or_else(|| format!("the table {} was not made", summary.table))?;
        let ReportContext { filter, start, processor_time, .. } = *context;
        let selection = SummarySelection { filter, start, processor_time };
        let run = |pivot: &Pivot, table: Table<'_>| rows.run(pivot, table);
        let wanted = SelectedRows::from_context(context);
        selected_rows(summary, index, &selection, &wanted, &run).map_err(|error| error.to_string())
    }
}
