//! Trace files: what is read of them, and as what.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use arrow_array::RecordBatch;
use openetw::analysis::StackNames;
use openetw::symbols::{SymbolPath, Symbolizer};
use openetw::tables::{IndexHome, IndexPlace, Table as RowTable, TraceIndex, row_tables};
use openetw::{
    EventFilter, FileTime, Predicate, Schemas, StatisticsHandle, StopHandle, TimePoint, TraceBuilder,
};
use pyo3::prelude::*;
use pyo3::types::{PyDateTime, PyDict, PyInt, PyString, PyTuple};

use crate::errors::{Failure, OrRaise};
use crate::events::{Events, warn_of_absent};
use crate::rows::{Batches, Reader, Selection};
use crate::statistics::Statistics;
use crate::table::Table;
use crate::values::OneOrMore;
use crate::work::{SLICE, end_if_stopped, interruptible};
use crate::{fork, kinds, values};

/// Trace files, read together in time order.
///
/// ``where``, ``provider``, ``between`` and ``limit`` return a trace with fewer events. Nothing is read until it is
/// iterated over or made a table; each loop reads the files again.
#[pyclass(frozen, module = "openetw")]
pub(crate) struct Trace {
    files: Vec<PathBuf>,
    builder: TraceBuilder,
    filter: EventFilter,
    symbols: Vec<String>,
    place: Place,
    names: Vec<String>,
    start: FileTime,
    end: FileTime,
    counts: StatisticsHandle,
    /// The tables of the files, which do not depend on the filter.
    tables: Arc<Mutex<Tables>>,
}

/// The tables of the files. Their lock is taken with the GIL only, so that it is free in the child of a fork.
#[derive(Default)]
enum Tables {
    #[default]
    Nothing,
    /// A thread of this process makes them.
    InWork(u32),
    Made(Arc<TraceIndex>),
}

/// Where the tables of the files are kept.
#[derive(Clone)]
enum Place {
    /// In memory, unless there is an index.
    Found,
    Memory,
    /// In an index, in the user's cache directory or another one.
    Index(Option<PathBuf>),
}

/// Opens trace files, to be read together in time order.
///
/// ``schemas`` are manifests, MOF, TMF and PDB files, and directories of them. ``symbols`` are symbol paths, searched
/// before ``_NT_SYMBOL_PATH``. ``process_names`` adds the names of processes to events. ``index`` says where the tables
/// with rows are kept: by default in memory unless there is an index; with ``True`` or a directory in an index; with
/// ``False`` always in memory.
///
/// Raises ``TraceNotFoundError``, ``TraceError``, or ``ArgumentError`` for a wrong schema file or symbol path.
#[pyfunction]
#[pyo3(signature = (*paths, schemas=None, symbols=None, process_names=false, index=None))]
pub(crate) fn open(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    schemas: Option<OneOrMore<PathBuf>>,
    symbols: Option<OneOrMore<String>>,
    process_names: bool,
    index: Option<&Bound<'_, PyAny>>,
) -> PyResult<Trace> {
    let place = match index {
        None => Place::Found,
        Some(index) => match index.extract::<bool>() {
            Ok(true) => Place::Index(None),
            Ok(false) => Place::Memory,
            Err(_) => Place::Index(Some(index.extract()?)),
        },
    };
    let counts = StatisticsHandle::default();
    let opened = py.detach(|| -> Result<_, Failure> {
        let builder = TraceBuilder::default().process_names(process_names).statistics_handle(&counts);
        let builder = match schemas {
            Some(paths) => builder.schemas(&added(&Vec::from(paths))?),
            None => builder,
        };
        let builder = paths.iter().fold(builder, TraceBuilder::file);
        let trace = builder.clone().open()?;
        let names: Vec<String> = trace.source_names().map(str::to_owned).collect();
        let end = trace.headers().iter().map(|header| header.end_time).max().unwrap_or_default();
        Ok((builder, names, trace.start_time(), end))
    });
    let (builder, names, start, end) = opened.or_raise()?;
    let symbols = symbols.map(Vec::from).unwrap_or_default();
    symbolizer(&symbols).or_raise()?;
    Ok(Trace {
        files: paths,
        builder,
        filter: EventFilter::default(),
        symbols,
        place,
        names,
        start,
        end,
        counts,
        tables: Arc::default(),
    })
}

/// Returns the built-in schemas and those of files.
fn added(paths: &[PathBuf]) -> Result<Schemas, Failure> {
    let mut schemas = Schemas::new();
    for file in schemas.add_files(paths) {
        // Of a directory, whatever is a schema is taken.
        let is_named = paths.contains(&file.path);
        if let (true, true, Some(problem)) = (is_named, file.providers.is_empty(), file.problems.first()) {
            return Err(Failure::argument(format_args!("{}: {problem}", file.path.display())));
        }
    }
    Ok(schemas)
}

/// Returns what the symbol paths name, and then the environment.
fn symbolizer(paths: &[String]) -> Result<Symbolizer, Failure> {
    // As in the command line, an unusable `_NT_SYMBOL_PATH` only costs names.
    let symbolizer = Symbolizer::from_environment().unwrap_or_else(|_| Symbolizer::new());
    paths.iter().rev().try_fold(symbolizer, |symbolizer, path| {
        Ok(symbolizer.search(path.parse::<SymbolPath>().map_err(Failure::argument)?))
    })
}

/// Returns a time: seconds from the start of the trace, a `datetime`, or a text.
pub(crate) fn time_point(time: &Bound<'_, PyAny>) -> PyResult<TimePoint> {
    if let Ok(seconds) = time.extract::<f64>() {
        return format!("{seconds}s").parse().or_raise();
    }
    if let Ok(time) = time.cast::<PyDateTime>() {
        if time.getattr("tzinfo")?.is_none() {
            return Err(Failure::argument("a datetime needs a time zone").into());
        }
        let text: String = time.call_method0("isoformat")?.extract()?;
        return text.parse().or_raise();
    }
    time.cast::<PyString>()?.to_cow()?.parse().or_raise()
}

impl Trace {
    fn with(&self, filter: EventFilter) -> Trace {
        Trace {
            files: self.files.clone(),
            builder: self.builder.clone(),
            filter,
            symbols: self.symbols.clone(),
            place: self.place.clone(),
            names: self.names.clone(),
            start: self.start,
            end: self.end,
            counts: self.counts.clone(),
            tables: self.tables.clone(),
        }
    }

    /// Returns the files with a filter. Reads them for the names of functions if the filter has conditions on stacks.
    fn filtered(&self, filter: EventFilter) -> Result<TraceBuilder, Failure> {
        if !filter.needs_stacks() {
            return Ok(self.builder.clone().filter(&filter));
        }
        let names = StackNames::from_traces(self.builder.clone(), &filter, &symbolizer(&self.symbols)?)?;
        Ok(self.builder.clone().filter(&Arc::new(names).filter(filter)))
    }

    /// Returns the tables of the files, which are made on the first call.
    fn index(&self, py: Python<'_>, stop: &StopHandle) -> PyResult<Arc<TraceIndex>> {
        let lock = || self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match &mut *lock() {
                Tables::Made(index) => return Ok(index.clone()),
                Tables::InWork(process) if *process == fork::process() => {}
                tables => {
                    *tables = Tables::InWork(fork::process());
                    break;
                }
            }
            py.detach(|| thread::sleep(SLICE));
            py.check_signals()?;
        }
        let made = interruptible(py, stop, || self.make_index(stop).map(Arc::new));
        *lock() = made.as_ref().map_or(Tables::Nothing, |index| Tables::Made(index.clone()));
        made
    }

    fn make_index(&self, stop: &StopHandle) -> Result<TraceIndex, Failure> {
        let symbolizer = symbolizer(&self.symbols)?;
        let mut progress = |_: FileTime| end_if_stopped(stop);
        let home = match &self.place {
            Place::Index(Some(directory)) => IndexHome::Directory(directory.clone()),
            _ => IndexHome::default(),
        };
        // As the command line names it, so that both use one index.
        let names =
            ["_NT_SYMBOL_PATH", "DEBUGINFOD_URLS"].into_iter().filter_map(|name| std::env::var(name).ok());
        let names = self.symbols.iter().cloned().chain(names).filter(|part| !part.is_empty());
        let place = IndexPlace::new(&self.files, &home, &names.collect::<Vec<_>>().join(";"));
        let open = || Ok::<_, Failure>(self.builder.clone().open()?);
        let in_memory = |progress: &mut dyn FnMut(FileTime)| -> Result<TraceIndex, Failure> {
            Ok(TraceIndex::in_memory(&mut open()?, &symbolizer, progress)?)
        };
        match (&self.place, place) {
            (Place::Index(_), Ok(place)) => {
                TraceIndex::open_or_build(&place, open, &symbolizer, &mut progress, &mut |_| ())
            }
            (Place::Index(_), Err(error)) => Err(error.into()),
            (Place::Found, Ok(place)) => match place.open(&mut Vec::new()) {
                Some(index) => Ok(index),
                None => in_memory(&mut progress),
            },
            (Place::Memory, _) | (Place::Found, Err(_)) => in_memory(&mut progress),
        }
    }

    /// Returns the rows of tables that count: those in the range of time that meet a condition on columns.
    fn selection<'a>(&self, condition: Option<&'a str>) -> Result<Selection<'a>, Failure> {
        if self.filter.predicate().is_some() || self.filter.limit.is_some() {
            let text =
                "a table is made of whole traces: filter its rows with where=, or read a kind of events";
            return Err(Failure::argument(text));
        }
        Ok(Selection { from: self.filter.from, to: self.filter.to, condition, start: self.start })
    }

    /// Reads a table with rows.
    fn rows(
        &self,
        py: Python<'_>,
        name: &str,
        raw: bool,
        read: impl for<'i> FnOnce(&mut Reader<'i>, RowTable<'i>) -> Result<Batches, Failure> + Send,
    ) -> PyResult<Table> {
        if !row_tables().any(|table| table.name == name) {
            let known: Vec<&str> = row_tables().map(|table| &*table.name).collect();
            let known = known.join(", ");
            let text = format!("no table '{name}'; there are: {known}, and PROVIDER/EVENT of the trace");
            return Err(Failure::argument(text).into());
        }
        let stop = StopHandle::default();
        let index = self.index(py, &stop)?;
        interruptible(py, &stop, || {
            let table = index.index().table(name);
            let table =
                table.ok_or_else(|| Failure::argument(format_args!("the index has no table '{name}'")))?;
            let (schema, batches) = read(&mut Reader::new(index.index(), raw), table)?;
            Ok(Table::new(name, schema, batches))
        })
    }

    fn kind(&self, name: &str, filter: EventFilter, stop: &StopHandle) -> Result<Table, Failure> {
        let open = |filter| -> Result<_, Failure> { Ok(self.filtered(filter)?.open()?) };
        let mut batches = kinds::read_one(&mut open(filter)?, name, stop)?;
        if batches.is_none() {
            batches = kinds::columns_of(&mut open(EventFilter::default())?, name)?;
        }
        let batches = batches.ok_or_else(|| {
            Failure::argument(format_args!("the trace has no events '{name}'; kinds() has those that it has"))
        })?;
        Ok(table_of(name, batches))
    }
}

fn table_of(name: &str, batches: Vec<RecordBatch>) -> Table {
    let schema =
        batches.first().map(|batch| batch.schema()).unwrap_or_else(|| arrow_schema::Schema::empty().into());
    Table::new(name, schema, batches)
}

#[pymethods]
impl Trace {
    /// Names of the files.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// When the trace starts, in UTC.
    #[getter]
    fn start<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDateTime>>> {
        values::datetime(py, self.start)
    }

    /// When the trace starts, in nanoseconds since 1970.
    #[getter]
    fn start_ns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyInt>> {
        values::time_ns(py, self.start)
    }

    /// When the trace ends, in UTC; ``None`` if its session never closed the file.
    #[getter]
    fn end<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDateTime>>> {
        if self.end == FileTime::default() { Ok(None) } else { values::datetime(py, self.end) }
    }

    /// Counts of the last pass over the files.
    #[getter]
    fn statistics(&self) -> Statistics {
        self.counts.read().into()
    }

    /// Keeps the events that meet a filter expression, such as ``"pid == 4 and level <= Warning"``.
    ///
    /// Columns of the header and fields of the payload are named alike. Several calls keep what meets all of them. Raises
    /// ``FilterError`` for a wrong expression.
    fn r#where(&self, expression: &str) -> PyResult<Trace> {
        Ok(self.with(self.filter.clone().expression(expression).or_raise()?))
    }

    /// Keeps the events of providers, each as ``"Name:Level:Ids:Keywords"``, of which all but the name may be missing.
    ///
    /// Events of any of these providers, and of those of earlier calls, are kept.
    #[pyo3(signature = (*specs))]
    fn provider(&self, specs: Vec<String>) -> PyResult<Trace> {
        let filter = specs.iter().try_fold(self.filter.clone(), |filter, spec| filter.provider(spec));
        Ok(self.with(filter.or_raise()?))
    }

    /// Keeps the events from ``start`` to before ``end``.
    ///
    /// Times are seconds from the start of the trace, texts (``"2026-01-02T03:04:05Z"``) or ``datetime`` with a time zone.
    #[pyo3(signature = (start=None, end=None))]
    fn between(&self, start: Option<&Bound<'_, PyAny>>, end: Option<&Bound<'_, PyAny>>) -> PyResult<Trace> {
        let mut filter = self.filter.clone();
        filter.from = start.map(time_point).transpose()?.or(filter.from);
        filter.to = end.map(time_point).transpose()?.or(filter.to);
        if let (Some(from), Some(to)) = (filter.from, filter.to)
            && from.resolve(self.start) >= to.resolve(self.start)
        {
            return Err(Failure::argument("the start is not before the end").into());
        }
        Ok(self.with(filter))
    }

    /// Keeps the first ``events`` events.
    fn limit(&self, events: u64) -> Trace {
        let mut filter = self.filter.clone();
        filter.limit = Some(events);
        self.with(filter)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Events> {
        let stop = StopHandle::default();
        let builder = match self.filter.needs_stacks() {
            true => interruptible(py, &stop, || self.filtered(self.filter.clone()))?,
            false => self.filtered(self.filter.clone()).or_raise()?,
        };
        Events::start(py, builder, self.counts.clone(), None, None)
    }

    /// Returns the number of events of each kind, ``{"Provider/Event": 12}``, in the order of their first events.
    fn kinds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stop = StopHandle::default();
        let counts = interruptible(py, &stop, || {
            let builder = self.filtered(self.filter.clone())?;
            kinds::count(&mut builder.stop_handle(&stop).open()?, &stop)
        })?;
        let kinds = PyDict::new(py);
        counts.into_iter().try_for_each(|(name, events)| kinds.set_item(name, events))?;
        Ok(kinds)
    }

    /// Returns a table with rows (``"disk"``), or the events of a kind (``"Provider/Event"``, ``"Provider/12"``).
    ///
    /// ``columns`` selects and orders columns; those of tables with rows may be paths (``"thread.process.name"``). ``where``
    /// keeps the rows that meet an expression. With ``raw``, references to rows and frames stay numbers of rows.
    #[pyo3(signature = (name, columns=None, r#where=None, *, raw=false))]
    fn table(
        &self,
        py: Python<'_>,
        name: &str,
        columns: Option<OneOrMore<String>>,
        r#where: Option<&str>,
        raw: bool,
    ) -> PyResult<Table> {
        let columns = columns.map(Vec::from);
        if name.contains('/') {
            let stop = StopHandle::default();
            let mut filter = self.filter.clone();
            if let Some(condition) = r#where {
                filter = filter.expression(condition).map_err(Failure::from)?;
            }
            let predicate = filter.predicate();
            let table = interruptible(py, &stop, || {
                let table = self.kind(name, filter, &stop)?;
                match columns {
                    Some(columns) => table.select(&columns),
                    None => Ok(table),
                }
            })?;
            warn_of_absent(py, &predicate.iter().flat_map(Predicate::absent_properties).collect::<Vec<_>>())?;
            return Ok(table);
        }
        let selection = self.selection(r#where).or_raise()?;
        self.rows(py, name, raw, |reader, table| reader.read(table, columns.as_deref(), &selection))
    }

    /// Returns the events of all kinds as tables, in one pass.
    fn tables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stop = StopHandle::default();
        let all = interruptible(py, &stop, || {
            let builder = self.filtered(self.filter.clone())?;
            kinds::read_all(&mut builder.stop_handle(&stop).open()?, &stop)
        })?;
        let tables = PyDict::new(py);
        for (name, batches) in all {
            tables.set_item(&name, table_of(&name, batches))?;
        }
        Ok(tables)
    }

    /// Groups the rows of a table by the columns ``by``, and computes ``values`` of each group.
    ///
    /// Values are ``"sum(size)"``, ``min``, ``max``, ``mean``, ``count``, ``unique`` and percentiles (``"p95(duration)"``),
    /// also of some rows: ``"sum(size) where operation == Read"``.
    /// The column ``rows`` counts the rows of each group. Groups are sorted by the first value, largest first, or by
    /// ``sort``: a value, ``"rows"``, or a column of ``by``, smallest first. ``top`` keeps the first groups.
    #[pyo3(signature = (name, by, values=None, r#where=None, *, sort=None, top=None, raw=false))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn pivot(
        &self,
        py: Python<'_>,
        name: &str,
        by: OneOrMore<String>,
        values: Option<OneOrMore<String>>,
        r#where: Option<&str>,
        sort: Option<&str>,
        top: Option<usize>,
        raw: bool,
    ) -> PyResult<Table> {
        let (by, values) = (Vec::from(by), values.map(Vec::from).unwrap_or_default());
        let selection = self.selection(r#where).or_raise()?;
        self.rows(py, name, raw, |reader, table| reader.pivot(table, &by, &values, sort, top, &selection))
    }

    /// Returns a table or kind of events as a ``pyarrow.Table``. The arguments are those of ``table``.
    #[pyo3(signature = (*args, **options))]
    fn to_arrow<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.call_method("table", args, options)?.call_method0("to_arrow")
    }

    /// Returns a table or kind of events as a ``pandas.DataFrame``. The arguments are those of ``table``.
    #[pyo3(signature = (*args, **options))]
    fn to_pandas<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.call_method("table", args, options)?.call_method0("to_pandas")
    }

    /// Returns a table or kind of events as a ``polars.DataFrame``. The arguments are those of ``table``.
    #[pyo3(signature = (*args, **options))]
    fn to_polars<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.call_method("table", args, options)?.call_method0("to_polars")
    }

    fn __repr__(&self) -> String {
        format!("<openetw.Trace {}>", self.names.join(", "))
    }
}
