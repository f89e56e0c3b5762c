//! How scans travel from the scheduler to executors: with the paths and identities of their traces.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use etw_arrow::EventColumns;
use etw_event::{FileTime, Guid};
use etw_schema::HeaderField;
use etw_schema::kinds::KindKey;
use serde::{Deserialize, Serialize};

use super::messages::{decode, encode};
use crate::bases::{Bases, Traces};
use crate::columns::Wanted;
use crate::damage::DamageReading;
use crate::database::Unreadable;
use crate::error;
use crate::events;
use crate::opened::{Files, at_once};
use crate::reading::{self, Conditions, EventReading};
use crate::rows::{self, RowColumn, RowReading};
use crate::scan::{Reading, Scan};
use crate::source::{Identity, Part, Source};
use crate::stacks::FRAMES;

/// The codec of a process.
pub(super) struct Codec {
    pub(super) files: Arc<Files>,
}

impl std::fmt::Debug for Codec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Codec").finish_non_exhaustive()
    }
}

/// A trace, by its path or URL. Its number is its place among those of the message.
#[derive(Debug, Serialize, Deserialize)]
struct Trace {
    path: PathBuf,
    name: String,
    identity: Identity,
}

/// A scan.
#[derive(Debug, Serialize, Deserialize)]
struct ScanMessage {
    table: String,
    schema: Schema,
    limit: Option<usize>,
    partitions: usize,
    is_ordered: bool,
    traces: Vec<Trace>,
    reading: ReadingMessage,
}

/// What is read, and the pieces.
#[derive(Debug, Serialize, Deserialize)]
enum ReadingMessage {
    Events {
        wanted: Vec<Wanted>,
        /// The fields that are wanted, as [`EventColumns::parts`] has them.
        fields: Vec<(Field, bool)>,
        conditions: Conditions,
        pieces: Vec<EventPiece>,
    },
    Rows {
        columns: Vec<RowColumn>,
        pieces: Vec<RowPiece>,
    },
    Damage {
        columns: Vec<usize>,
        /// Places of the traces.
        pieces: Vec<usize>,
    },
}

#[derive(Debug, Serialize, Deserialize)]
struct EventPiece {
    trace: usize,
    /// [`KindKey`], as provider, whether it is classic, id and name.
    kind: Option<([u8; 16], bool, u16, Option<String>)>,
    /// Ticks of [`FileTime`].
    from: Option<i64>,
    to: Option<i64>,
    buffers: usize,
    skipped: usize,
}

#[derive(Debug, Serialize, Deserialize)]
struct RowPiece {
    trace: usize,
    bases: Bases,
    rows: u64,
    chunks: Vec<(usize, usize)>,
    skipped: usize,
    unreadable: Vec<Unreadable>,
}

/// Collects the traces of a message.
#[derive(Default)]
struct Listed(Vec<Trace>);

impl Listed {
    fn place(&mut self, source: &Source) -> anyhow::Result<usize> {
        let known = self.0.iter().rposition(|known| known.path == source.path() && known.name == source.name);
        if let Some(known) = known {
            return Ok(known);
        }
        let Some(identity) = source.identity() else {
            bail!("{}: a cluster reads files, and objects whose server gives tags (ETag)", source.name);
        };
        let (path, name) = (source.path().to_owned(), source.name.clone());
        self.0.push(Trace { path, name, identity: identity.clone() });
        Ok(self.0.len() - 1)
    }
}

impl Codec {
    fn open(&self, traces: &[Trace]) -> anyhow::Result<Vec<Source>> {
        let are_remote = traces.iter().any(|trace| matches!(trace.identity, Identity::Object { .. }));
        let open = |trace: &Trace| self.files.open_as(trace.path.clone(), &trace.identity);
        let opened = at_once(traces, are_remote, open).into_iter().zip(traces).enumerate();
        let named = |(number, (file, trace)): (usize, (anyhow::Result<_>, &Trace))| {
            Ok(Source::new(file?, Some(trace.name.clone()), number).pinned())
        };
        opened.map(named).collect()
    }

    fn decode_scan(&self, bytes: &[u8]) -> anyhow::Result<Arc<dyn ExecutionPlan>> {
        let ScanMessage { table, schema, limit, partitions, is_ordered, traces, reading } = decode(bytes)?;
        let (sources, schema) = (self.open(&traces)?, Arc::new(schema));
        let source = |place: usize| sources.get(place).cloned().context("a piece has no trace");
        let shape = Shape { table, schema, limit, partitions, is_ordered };
        match reading {
            ReadingMessage::Events { wanted, fields, conditions, pieces } => {
                let fields = EventColumns::from_parts(&fields, &events::reserved())
                    .context("a field has an unknown type")?;
                let pieces = pieces.into_iter().map(|piece| {
                    let kind = piece.kind.map(|(provider, is_classic, id, name)| {
                        Arc::new(KindKey { provider: Guid::from_bytes(provider), is_classic, id, name })
                    });
                    let part = Part {
                        from: piece.from.map(FileTime),
                        to: piece.to.map(FileTime),
                        buffers: piece.buffers,
                        skipped: piece.skipped,
                    };
                    Ok(reading::Piece { source: source(piece.trace)?, kind, part })
                });
                let pieces = pieces.collect::<anyhow::Result<_>>()?;
                shape.scan(EventReading { wanted, fields, conditions }, pieces)
            }
            ReadingMessage::Rows { columns, pieces } => {
                let declared = rows::declared(&shape.table)
                    .with_context(|| format!("there is no table '{}'", shape.table))?;
                let pieces = pieces.into_iter().map(|piece| {
                    Ok(rows::Piece {
                        source: source(piece.trace)?,
                        bases: Arc::new(piece.bases),
                        rows: piece.rows,
                        chunks: piece.chunks.into_iter().map(|(start, end)| start..end).collect(),
                        skipped: piece.skipped,
                        unreadable: piece.unreadable,
                    })
                });
                let pieces = pieces.collect::<anyhow::Result<_>>()?;
                shape.scan(RowReading { declared, columns }, pieces)
            }
            ReadingMessage::Damage { columns, pieces } => {
                let pieces = pieces.into_iter().map(source).collect::<anyhow::Result<_>>()?;
                shape.scan(DamageReading { columns }, pieces)
            }
        }
    }

    /// Opens the traces that [`encode_traces`] wrote.
    ///
    /// # Errors
    ///
    /// Fails if one has changed.
    pub(super) fn decode_traces(&self, bytes: &[u8]) -> anyhow::Result<Traces> {
        let (traces, bases): (Vec<Trace>, Vec<Bases>) = decode(bytes)?;
        Ok(Traces::with_bases(self.open(&traces)?, bases.into_iter().map(Arc::new).collect()))
    }
}

/// What all scans have.
struct Shape {
    table: String,
    schema: SchemaRef,
    limit: Option<usize>,
    partitions: usize,
    is_ordered: bool,
}

impl Shape {
    fn scan<R: Reading>(self, reading: R, pieces: Vec<R::Piece>) -> anyhow::Result<Arc<dyn ExecutionPlan>> {
        let Shape { table, schema, limit, partitions, is_ordered } = self;
        let scan = Scan::new(&table, schema, Arc::new(reading), Vec::new(), limit);
        let scan = if is_ordered { scan.ordered_by(HeaderField::Time.column())? } else { scan };
        Ok(Arc::new(scan.with_pieces(pieces, partitions)))
    }
}

fn encode_scan(node: &Arc<dyn ExecutionPlan>) -> anyhow::Result<Vec<u8>> {
    let mut traces = Listed::default();
    if let Some(scan) = node.downcast_ref::<Scan<EventReading>>() {
        let EventReading { wanted, fields, conditions } = scan.reading();
        let mut numbers = Vec::new();
        let wanted = wanted.iter().map(|wanted| match *wanted {
            Wanted::Field(number) => {
                numbers.push(number);
                Wanted::Field(numbers.len() - 1)
            }
            other => other,
        });
        let wanted = wanted.collect();
        let pieces = scan.pieces().map(|piece| {
            let kind = piece.kind.as_deref();
            Ok(EventPiece {
                trace: traces.place(&piece.source)?,
                kind: kind
                    .map(|kind| (kind.provider.to_bytes(), kind.is_classic, kind.id, kind.name.clone())),
                from: piece.part.from.map(|time| time.0),
                to: piece.part.to.map(|time| time.0),
                buffers: piece.part.buffers,
                skipped: piece.part.skipped,
            })
        });
        let pieces = pieces.collect::<anyhow::Result<_>>()?;
        let (fields, conditions) = (fields.parts(&numbers), conditions.clone());
        return message(scan, traces, ReadingMessage::Events { wanted, fields, conditions, pieces });
    }
    if let Some(scan) = node.downcast_ref::<Scan<RowReading>>() {
        let pieces = scan.pieces().map(|piece| {
            Ok(RowPiece {
                trace: traces.place(&piece.source)?,
                bases: (*piece.bases).clone(),
                rows: piece.rows,
                chunks: piece.chunks.iter().map(|chunks| (chunks.start, chunks.end)).collect(),
                skipped: piece.skipped,
                unreadable: piece.unreadable.clone(),
            })
        });
        let pieces = pieces.collect::<anyhow::Result<_>>()?;
        let columns = scan.reading().columns.clone();
        return message(scan, traces, ReadingMessage::Rows { columns, pieces });
    }
    if let Some(scan) = node.downcast_ref::<Scan<DamageReading>>() {
        let pieces = scan.pieces().map(|source| traces.place(source)).collect::<anyhow::Result<_>>()?;
        let columns = scan.reading().columns.clone();
        return message(scan, traces, ReadingMessage::Damage { columns, pieces });
    }
    bail!("a cluster cannot run {} elsewhere", node.name());
}

fn message<R: Reading>(scan: &Scan<R>, traces: Listed, reading: ReadingMessage) -> anyhow::Result<Vec<u8>> {
    encode(&ScanMessage {
        table: scan.table().to_owned(),
        schema: (*scan.schema()).clone(),
        limit: scan.fetch(),
        partitions: scan.properties().partitioning.partition_count(),
        is_ordered: scan.is_ordered(),
        traces: traces.0,
        reading,
    })
}

/// Writes what functions on stacks need to know of the traces of a query. They are called by their names.
///
/// # Errors
///
/// Fails if a trace cannot be read.
pub(super) fn encode_traces(traces: &Traces) -> anyhow::Result<Vec<u8>> {
    let bases: Vec<Bases> = traces.bases()?.iter().map(|bases| bases.only(FRAMES)).collect();
    let mut listed = Vec::new();
    for source in &traces.sources {
        // A trace that is named twice has numbers of its own each time.
        let mut one = Listed::default();
        one.place(source)?;
        listed.append(&mut one.0);
    }
    encode(&(listed, bases))
}

impl PhysicalExtensionCodec for Codec {
    fn try_decode(
        &self,
        bytes: &[u8],
        _: &[Arc<dyn ExecutionPlan>],
        _: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.decode_scan(bytes).map_err(error::of_trace)
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        *bytes = encode_scan(&node).map_err(error::of_trace)?;
        Ok(())
    }
}
