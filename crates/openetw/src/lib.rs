//! Event Tracing for Windows as an open system: the crate that programs depend on.
//!
//! It contains little code: each module re-exports the parts of a workspace crate that programs need. Each feature adds
//! modules; all but `columns` are on by default. [`Guid`], [`Level`], [`Keyword`] and the other basic types of events
//! are always available.
//!
//! | feature | modules | purpose |
//! |---|---|---|
//! | `read` | the crate itself, `schema`, `etl`, `filter`, `relog`, `testing` | reading traces: files merged in time order, filters, schemas, rewriting |
//! | `provider` | `provider`, `provider!`, `event!` | writing events (Linux, Windows) |
//! | `session` | `session` | hosts, sessions, and enabling providers in them (Linux; on Windows the system's own; includes `provider`) |
//! | `kernel` | `kernel`, `profile` | the system's own events in sessions, and recording profiles (Linux, Windows; includes `session`) |
//! | `export` | `export` | events as JSON, CSV, XML, Windows event logs, packet captures and text; timelines for other viewers (includes `read`) |
//! | `columns` | `export::ColumnsWriter`, `tables::arrow` | events and tables as Parquet and Arrow files; compiles longer than everything else together (includes `analysis` and `export`) |
//! | `recording` | `recording` | recordings that can be read on any machine (Linux, Windows; includes `analysis` and `session`) |
//! | `analysis` | `analysis`, `symbols` | tables over the kernel's events, and the names of functions (includes `read`) |
//!
//! A program that only writes events compiles a small part of the crate:
//!
//! ```toml
//! openetw = { version = "0.1", default-features = false, features = ["provider"] }
//! ```
//!
//! # Reading: `read`
//!
//! ```no_run
//! let mut trace = openetw::Trace::open_file("trace.etl")?;
//! trace.for_each_event(|event| {
//!     println!("{} {:?}", event.record.time(), event.names().provider());
//! })?;
//! # Ok::<(), openetw::TraceError>(())
//! ```
//!
//! # Writing events: `provider`
//!
#![cfg_attr(target_os = "linux", doc = "```")]
#![cfg_attr(not(target_os = "linux"), doc = "```ignore")]
//! use openetw::{Level, event, provider};
//!
//! provider!(static APP: "MyCompany.MyApp");
//!
//! APP.register();
//! event!(APP, "ItemDone", level: Level::INFORMATION, u32("number", 7), str8("text", "seven"));
//! ```
//!
//! # Sessions: `session`
//!
#![cfg_attr(target_os = "linux", doc = "```no_run")]
#![cfg_attr(not(target_os = "linux"), doc = "```ignore")]
//! use openetw::session::{EnableBuilder, Runtime, SessionBuilder};
//!
//! // The running host, or one in this process.
//! let mut runtime = Runtime::connect_or_host()?;
//! SessionBuilder::new("MySession").file("trace.etl").start(runtime.controller())?;
//! runtime.controller().enable("MySession", &EnableBuilder::new("MyCompany.MyApp".parse()?))?;
//! // ...
//! let status = runtime.controller().stop("MySession")?;
//! println!("{} events; {}", status.events_written, status.loss());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A session with its providers and callbacks in one object, as `UserTrace` or, for the system's own events, as
//! `KernelTrace`:
//!
#![cfg_attr(all(target_os = "linux", feature = "read"), doc = "```no_run")]
#![cfg_attr(not(all(target_os = "linux", feature = "read")), doc = "```ignore")]
//! use openetw::session::{TracedProvider, UserTrace};
//!
//! let app = TracedProvider::new("MyCompany.MyApp:Information".parse()?).on_event(|event| {
//!     println!("{}", event.get::<u32>("number")?);
//!     Ok(())
//! });
//! let end = UserTrace::new("MySession").enable(app).start()?;
//! println!("{} events", end.statistics.delivered);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The system's own events: `kernel`
//!
#![cfg_attr(target_os = "linux", doc = "```")]
#![cfg_attr(not(target_os = "linux"), doc = "```ignore")]
//! use openetw::kernel::EnableFlags;
//! use openetw::profile::{self, LoggingMode, Recording};
//!
//! let profiles = profile::built_in()?;
//! let profile = profiles.resolve(profiles.find("CPU", LoggingMode::File)?)?;
//! let recording = Recording::new(&[profile]);
//! assert!(recording.sessions.iter().any(|session| session.flags.contains(EnableFlags::PROFILE)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Other formats: `export`
//!
//! ```
//! use openetw::export::{JsonWriter, Options};
//! use openetw::testing::{EventBuilder, Proxy};
//!
//! let start = EventBuilder::built_in("Microsoft-Windows-Kernel-Process", 1, 0)?
//!     .property("ProcessID", 4711)
//!     .pack_incomplete()?;
//! let mut line = Vec::new();
//! Proxy::new().event(&start, |event| JsonWriter::new(&Options::default()).put(&mut line, event));
//! assert!(String::from_utf8_lossy(&line).contains(r#""ProcessID":4711"#));
//! # Ok::<(), openetw::testing::PackError>(())
//! ```
//!
//! A trace as a timeline for Perfetto, Chrome, the Firefox Profiler or speedscope:
//!
//! ```no_run
//! use openetw::export::timeline::{self, Format, Selection, Symbolizer};
//!
//! let mut trace = openetw::Trace::open_file("trace.etl")?;
//! let mut out = std::io::BufWriter::new(std::fs::File::create("trace.pftrace")?);
//! let (all, symbols) = (Selection::default(), Symbolizer::new());
//! let summary = timeline::write(&mut trace, Format::Perfetto, &all, &symbols, &mut out, &|_| ())?;
//! println!("{} events, {} context switches", summary.events, summary.switches);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Tables: `analysis`
//!
//! ```no_run
//! use openetw::analysis::{Analysis, ReportOptions, Window};
//!
//! let mut trace = openetw::Trace::open_file("trace.etl")?;
//! let mut analysis = Analysis::new(Window::ALL);
//! trace.for_each_event(|event| analysis.add(event))?;
//! for table in analysis.report(&ReportOptions::from_headers(trace.headers())).tables {
//!     println!("{}: {} rows", table.kind.title(), table.rows.len());
//! }
//! # Ok::<(), openetw::TraceError>(())
//! ```
//!
//! Programs that log through the crates `tracing` and `log` write events with `tracing-openetw` and `openetw-logger`.

#![forbid(unsafe_code)]

#[cfg(all(any(target_os = "linux", windows), feature = "session"))]
pub mod session;

pub use etw_event::{
    BufferPlace, Clock, ClockType, EventDescriptor, ExtendedItem, ExtendedType, FileTime, Guid, HeaderKind,
    HookId, Keyword, Level, Opcode, Origin, Outline, PointerSize, Position, Record, RecordPlace, Sid,
    StackFrame, StackTrace, Storage, SystemTime, Ticks, classes,
};

#[cfg(all(feature = "read", target_os = "linux"))]
pub use etw_consumer::{BufferFeed, FeedError};
#[cfg(feature = "read")]
pub use etw_consumer::{
    BufferSummary, CallbackResult, Callbacks, Converted, Counts, Event, EventError, EventFilter,
    EventFilterError, FilterError, FilterScope, IdSet, Input, InputError, InputLimits, KeywordSpec,
    LossReport, Overview, OwnedEvent, OwnedProperties, OwnedValue, PartLosses, Predicate, ProcessName,
    ProcessTable, ProviderKey, ProviderSpec, ProviderSpecError, ReadRecord, SchemaEvent, SchemaFile,
    SchemaFileKind, SchemaFiles, SchemaReader, Schemas, SessionChange, SessionEnd, SessionError, SessionGap,
    SessionsHandle, SourceStatistics, Spooled, Stack, StackCounts, Stacks, Statistics, StatisticsHandle,
    StopHandle, Subscription, TimePoint, TimePointError, Trace, TraceBuilder, TraceError, TraceReader,
    UndescribedPublisher, testing,
};
#[cfg(feature = "read")]
pub use etw_filter as filter;
#[cfg(all(any(target_os = "linux", windows), feature = "recording"))]
pub use etw_recording as recording;
#[cfg(feature = "read")]
pub use etw_relog as relog;

/// The events of the Windows kernel by name, and typed readers of their fields: of all versions, without a schema.
///
/// ```no_run
/// use openetw::Trace;
/// use openetw::kernel_events::ids::{DiskIo, EventId};
/// use openetw::kernel_events::read;
///
/// Trace::open_file("kernel.etl")?.for_each_record(|record| {
///     if let Some(DiskIo::READ | DiskIo::WRITE) = EventId::from_record(record) {
///         let request = read::DiskTransfer::new(record);
///         println!("{:?} bytes at {:?}", request.transfer_size(), request.byte_offset());
///     }
/// })?;
/// # Ok::<(), openetw::TraceError>(())
/// ```
pub mod kernel_events {
    pub use etw_kernel_events::{ids, read};
}

/// Decoding payloads, as TDH does on Windows: schemas from every source, layouts, values and their text.
///
/// ```
/// use openetw::Guid;
/// use openetw::schema::builtin::BuiltIn;
///
/// // Microsoft-Windows-Kernel-Process
/// let guid = Guid::from_u128(0x22fb2cd6_0e7b_422b_a0c7_2fad1fd0e716);
/// let provider = BuiltIn.provider(&guid).ok_or("unknown provider")?;
/// assert!(provider.events.iter().any(|event| event.descriptor.id == 1));
/// # Ok::<(), &str>(())
/// ```
#[cfg(feature = "read")]
pub mod schema {
    pub use etw_schema::{
        Array, ChannelName, CompiledSchema, Count, Decoding, EventLabel, EventSchema, Format, Found,
        FromValue, HeaderField, HeaderObject, HeaderOrigin, HeaderPath, HeaderType, HeaderValue,
        HeaderVisitor, IdSet, InType, Inference, Inferred, KeywordName, KeywordSpec, Layout, LayoutDefect,
        Length, LocateError, LocateErrorKind, Located, MAX_DEPTH, MAX_EMPTY_VALUES, MapEntry, MapKind,
        Members, MessageStyle, Names, Observed, OpcodeName, OtherLayouts, OutType, PayloadError, Properties,
        Property, PropertyError, PropertyIndex, PropertyType, PropertyValue, Provider, ProviderInfo,
        ProviderKey, ProviderSpec, ProviderSpecError, Providers, Resolver, SchemaSource, Struct, TaskName,
        Undecoded, Value, ValueMap, ValueName, builtin, event_metadata, event_source, kinds, message, model,
        mof, publishers, store, text, tracelogging, wevt, wpp,
    };

    /// Instrumentation manifests: read, checked, written, and compiled to code.
    ///
    /// ```
    /// use openetw::schema::manifest;
    ///
    /// let text = r#"<provider name="MyCompany-MyApp" symbol="MY_APP" guid="{11223344-5566-7788-99aa-bbccddeeff00}">
    ///   <events><event value="7" symbol="Started"/></events></provider>"#;
    /// let checked = manifest::check(text.as_bytes(), "myapp.man");
    /// assert_eq!(checked.providers[0].events[0].descriptor.id, 7);
    /// ```
    pub mod manifest {
        pub use etw_mc::{CHeader, CNames, LeftOut, RustCode, c_header, check, rust_code, write, write_all};
        pub use etw_schema::manifest::{Manifest, Problem, ProblemKind, default_out_type, read};
    }
}

/// The schemas of Windows' own providers, of all releases.
///
/// With the feature `windows-schemas`, every [`Trace`] decodes with them what it does not describe itself.
///
/// ```
/// use openetw::windows::WindowsSchemas;
///
/// let pack = WindowsSchemas::new()?;
/// let dns = pack.find("Microsoft-Windows-DNS-Client").ok_or("unknown provider")?;
/// let block = pack.pack().block(&dns.guid)?.ok_or("no events")?;
/// let query = block.layouts().find(|layout| layout.schema.descriptor.id == 3006).ok_or("no event 3006")?;
/// let first = query.releases.numbers().next().ok_or("no release")?;
/// println!("since Windows {}", pack.pack().releases()[first].name);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "windows-schemas")]
pub mod windows {
    pub use etw_schema_windows::{
        Block, EventLayout, Listed, Pack, PackError, Release, Releases, WindowsSchemas, Words, write,
    };
}

/// The bytes of trace files: buffers, compression and the log file header, with a reader and a writer.
///
/// ```
/// use openetw::etl::{EtlFile, LogFileMode, OpenError};
///
/// fn is_circular(bytes: &[u8]) -> Result<bool, OpenError> {
///     Ok(EtlFile::open(bytes)?.header().log_file_mode.contains(LogFileMode::CIRCULAR))
/// }
/// assert!(is_circular(b"not a trace").is_err());
/// ```
#[cfg(feature = "read")]
pub mod etl {
    pub use etw_etl::{
        Beginning, BufferData, BufferFlags, BufferHeader, BufferRef, BufferState, BufferType, Buffers,
        ContextSwitch, ContextSwitches, Damage, DamageKind, EtlFile, EtlWriter, GroupMasks, HeaderRecords,
        LogFileHeader, LogFileMode, Loss, MAX_BUFFER_BYTES, OpenError, Place, RecordCursor, Records,
        SwitchedOut, TimeZone, WriteError, WriterOptions, Written, encode, loss_of, lost_count, xpress,
    };
}

#[cfg(all(any(target_os = "linux", windows), feature = "provider"))]
pub use etw_provider::{event, provider};

/// Writing events: providers, TraceLogging, activities.
///
/// [`provider!`](crate::provider!) and [`event!`](crate::event!) are enough for most programs.
///
/// ```
/// use openetw::provider::{EventBuilder, Outcome, Provider, fields};
///
/// let provider = Provider::create("MyCompany.Script", None, None);
/// provider.register();
/// let outcome = EventBuilder::new("LineRead").add("line", fields::u32::FIELD, &7u32).write(provider);
/// assert_eq!(outcome, Outcome::NotEnabled);
/// ```
#[cfg(all(any(target_os = "linux", windows), feature = "provider"))]
pub mod provider {
    pub use etw_provider::{
        Control, ControlCode, EventBuilder, EventDescriptor, EventMetadata, Guid, Keyword, Level,
        MAX_RECORD_BYTES, MAX_SESSIONS, Opcode, Outcome, Payload, Provider, activity, event, fields,
        guid_from_name, metadata, payload, provider,
    };

    /// Sessions in memory, for tests of what a program writes (Linux).
    #[cfg(target_os = "linux")]
    pub use etw_provider::testing;
}

/// The system's own events, as those of the NT kernel logger.
///
/// A host writes them to sessions if its [`HostOptions::system`](crate::session::HostOptions::system) is
/// [`provider`](kernel::provider). [`Runtime`](crate::session::Runtime) sets that; [`serve`](kernel::serve) runs a host of root
/// in two processes, of which the one that clients reach has no rights.
///
/// ```
/// use openetw::kernel::EnableFlags;
///
/// let flags: EnableFlags = EnableFlags::PROCESS | EnableFlags::CSWITCH;
/// assert!(flags.contains(EnableFlags::PROCESS));
/// ```
#[cfg(all(any(target_os = "linux", windows), feature = "kernel"))]
pub mod kernel {
    pub use etw_kernel_events::providers::KernelProvider;
    pub use etw_kernel_events::{
        EnableFlags, Flag, FlagError, Hook, Hooks, Selection, StackWalkError, StackWalks, Support,
    };
    #[cfg(target_os = "linux")]
    pub use etw_system::{ServeError, provider, serve, tracepoints};
}

/// Recording profiles (`.wprp`), and the parts of them that this system can record.
///
/// A [`Recording`](profile::Recording) is planned from profiles: it has the sessions to start, and the parts left out
/// with the reasons.
///
/// ```
/// use openetw::profile::{self, LoggingMode, Recording};
///
/// let profiles = profile::built_in()?;
/// let cpu = profiles.resolve(profiles.find("CPU.Light", LoggingMode::Memory)?)?;
/// for session in Recording::new(&[cpu]).sessions {
///     println!("{}: {}", session.name, session.flags);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(all(any(target_os = "linux", windows), feature = "kernel"))]
pub mod profile {
    pub use etw_profile::{
        Buffers, CaptureState, Collector, CollectorKind, Definition, DetailLevel, ErrorKind, EventFilter,
        EventProvider, FileMode, FindError, HardwareCounter, HeapProvider, LoggingMode, NotUnderstood,
        Profile, ProfileError, ProfileFile, ProviderName, StackFilter, SystemProvider, TraceMerge, decode,
        write,
    };
    pub use etw_system::profile::{LeftOut, PlannedSession, Recording, built_in, enable, level, refusal};
}

/// Events as JSON, CSV, XML, Windows event logs, packet captures and text; traces as timelines for other viewers.
///
/// ```no_run
/// use openetw::export::{CsvWriter, Options};
///
/// let mut trace = openetw::Trace::open_file("trace.etl")?;
/// let mut csv = CsvWriter::new(&Options::default());
/// let mut table = Vec::new();
/// csv.put_header(&mut table);
/// trace.for_each_event(|event| csv.put(&mut table, event))?;
/// std::fs::write("trace.csv", table)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "export")]
pub mod export {
    /// Traces as timelines and profiles for Perfetto, Chrome, the Firefox Profiler and speedscope.
    pub mod timeline {
        pub use etw_symbols::Symbolizer;
        pub use etw_timeline::{Format, Selection, Summary, TimelineError, write};
    }

    #[cfg(feature = "columns")]
    pub use etw_arrow::{
        ColumnFormat, ColumnsSummary, ColumnsWriter, NestedColumns, RowCollector, Rows, joined_type,
    };
    pub use etw_export::{
        CsvWriter, EvtxSummary, EvtxWriter, FieldName, FieldSelection, HeaderField, HeaderPath, JsonWriter,
        Options, PcapngSummary, PcapngWriter, PlainWriter, Separator, Source, TextWriter, TracerptCsvWriter,
        XmlWriter, csv, evtx, pcapng, plain_line, text, tracerpt, xml,
    };
}

/// Tables over the kernel's events: processes, CPU, functions, waits, I/O, network.
///
/// ```no_run
/// use openetw::analysis::{Analysis, ReportOptions, TableKind, Window};
///
/// let mut trace = openetw::Trace::open_file("trace.etl")?;
/// let mut analysis = Analysis::new(Window::ALL);
/// trace.for_each_event(|event| analysis.add(event))?;
/// let report = analysis.report(&ReportOptions::from_headers(trace.headers()));
/// let processes = report.tables.iter().find(|table| table.kind == TableKind::Processes);
/// println!("{} processes", processes.map_or(0, |table| table.rows.len()));
/// # Ok::<(), openetw::TraceError>(())
/// ```
#[cfg(feature = "analysis")]
pub mod analysis {
    pub use etw_analysis::{
        Activity, Analysis, DiskRequest, ModuleUse, Moment, Report, ReportOptions, Sample, StackNode, Survey,
        Switch, SymbolEmbedding, Table, TableKind, ThreadInfo, Timeline,
    };
    pub use etw_machine::{
        Attribution, Duration, FileIndex, KernelAddresses, Machines, ProcessFilter, ProcessIndex, StackNames,
        ThreadIndex, UserAddresses, Window, disk_label,
    };
    pub use etw_stacks::{
        CallNode, CallTree, Change, Comparison, FrameIndex, FramePattern, NamedStacks, StackFrame,
        StackIndex, StackTags, StackTagsError, StackWeight, TreeShape, TreeView, WeightSum, WeightUnit,
    };
    pub use etw_tables::{Cell, Column, Summary};
}

/// Tables with a row for each event, request, switch or sample, as chunks of columns, and pivots over them.
///
/// ```no_run
/// use openetw::Trace;
/// use openetw::symbols::Symbolizer;
/// use openetw::tables::{Aggregate, IndexWriter, Pivot, RowTables};
///
/// let mut trace = Trace::open_file("trace.etl")?;
/// let stacks = trace.stacks()?;
/// let mut tables = RowTables::new(IndexWriter::in_memory())?;
/// trace.for_each_event(|event| tables.add(event, &stacks.of(event.record)))?;
/// let index = tables.finish(&Symbolizer::from_environment()?)?;
/// let disk = index.table("disk").expect("it is one of the tables");
/// let size = disk.schema().column("size").expect("it is one of the columns");
/// let process = disk.path("process").expect("the process of the thread");
/// let by_process = Pivot {
///     through: vec![process],
///     ..Pivot::new([disk.schema().columns.len()], [Aggregate::Sum(size)])
/// };
/// println!("{} processes", by_process.run(disk, 2)?.group_count);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "analysis")]
pub mod tables {
    /// Tables as Arrow record batches, and as Parquet and Arrow files.
    ///
    /// ```no_run
    /// use openetw::tables::{Index, arrow};
    ///
    /// let index = Index::open("trace.index".as_ref(), b"identity")?;
    /// let disk = index.table("disk").ok_or("no such table")?;
    /// arrow::write_parquet(disk, std::fs::File::create("disk.parquet")?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "columns")]
    pub mod arrow {
        pub use etw_arrow::{
            ArrowTable, ArrowTableError, Batches, write_arrow, write_arrow_with, write_parquet,
            write_parquet_with,
        };
    }

    pub use etw_columns::{
        Aggregate, AggregateError, ChunkStatistics, Column, ColumnReader, ColumnType, ColumnsError,
        Comparison, CountedRows, Element, FetchParts, Filter, Group, Guids, Index, IndexWriter, Order,
        OrderBy, Pivot, PivotResult, Role, Row, StackNode, Stacks, Table, TableId, TableSchema, TextPattern,
        TextPosition, Texts, Unit, Value, Values,
    };
    pub use etw_schema::kinds::KindKey;
    pub use etw_tables::{
        EventKinds, EventTable, IndexHome, IndexNote, IndexPlace, IndexProblem, Regions, RegionsError,
        RowCells, RowFilterError, RowLabel, RowSummary, RowTables, RowValue, SummarySelection, TraceIndex,
        TraceIndexError, column_path, in_window, row_filter, row_label, row_summary, row_tables, row_value,
        summary_rows,
    };
}

/// Names of functions and source lines for addresses in programs, libraries and the kernel.
///
/// ```no_run
/// use openetw::symbols::{Module, Symbolizer};
///
/// let module = Module { path: "/usr/bin/make", ..Module::default() };
/// for symbol in Symbolizer::new().resolve(&module, &[0x1234])?.into_iter().flatten() {
///     println!("{}", symbol.function());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "analysis")]
pub mod symbols {
    pub use etw_symbols::{
        Debuginfod, FetchLimits, FetchStep, Fetched, Frame, IlPlace, KernelSymbol, KernelSymbols, Module,
        PdbId, SourceLine, Symbol, SymbolError, SymbolPath, SymbolPathError, Symbolizer, WindowsImage,
        demangle, jit,
    };
}

/// The examples of `docs/library.md` compile.
#[cfg(all(doctest, feature = "default", target_os = "linux"))]
#[doc = include_str!("../../../docs/library.md")]
pub struct LibraryPage;

/// The examples of `docs/providers.md` compile.
#[cfg(all(doctest, feature = "provider", target_os = "linux"))]
#[doc = include_str!("../../../docs/providers.md")]
pub struct ProvidersPage;

/// The examples of `docs/recording.md` compile.
#[cfg(all(doctest, feature = "default", target_os = "linux"))]
#[doc = include_str!("../../../docs/recording.md")]
pub struct RecordingPage;

/// The examples of `docs/sessions.md` compile.
#[cfg(all(doctest, feature = "default", target_os = "linux"))]
#[doc = include_str!("../../../docs/sessions.md")]
pub struct SessionsPage;
