//! The table `damage`: what of the traces cannot be read.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::scan::{Reading, Run, Scan};
use crate::source::Source;

/// Name of the table.
pub(crate) const NAME: &str = "damage";

/// One row for each damaged place. The traces are read for it.
#[derive(Debug)]
pub(crate) struct DamageTable {
    sources: Vec<Source>,
    schema: SchemaRef,
}

impl DamageTable {
    pub(crate) fn new(sources: &[Source]) -> DamageTable {
        let field = |name: &str, data_type, is_nullable, summary: &str| {
            let summary = [("summary".to_owned(), summary.to_owned())];
            Field::new(name, data_type, is_nullable).with_metadata(summary.into())
        };
        let schema = Schema::new(vec![
            field("trace", DataType::Utf8, false, "Trace that is damaged."),
            field("offset", DataType::UInt64, true, "Place in the file; missing for what is only counted."),
            field("damage", DataType::Utf8, false, "What is wrong."),
        ]);
        DamageTable { sources: sources.to_vec(), schema: Arc::new(schema) }
    }
}

#[async_trait]
impl TableProvider for DamageTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns: Vec<usize> =
            projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let schema = Arc::new(self.schema.project(&columns)?);
        let reading = Arc::new(DamageReading { columns });
        Ok(Arc::new(Scan::new(NAME, schema, reading, self.sources.clone(), limit)))
    }
}

/// What is read of the damaged places of a trace.
#[derive(Debug)]
pub(crate) struct DamageReading {
    pub(crate) columns: Vec<usize>,
}

impl Reading for DamageReading {
    type Piece = Source;
    const NAME: &'static str = "DamageScan";

    fn source(piece: &Source) -> &Source {
        piece
    }

    fn rows(_: &Source) -> usize {
        // Most traces have none.
        1
    }

    fn describe(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }

    fn read(&self, source: &Source, run: &mut Run) -> anyhow::Result<()> {
        let mut trace = source.range(None, None)?;
        trace.for_each_record(|_| {})?;
        let statistics = trace.statistics();
        let (mut offsets, mut texts) = (Vec::new(), Vec::new());
        for (_, damage) in &statistics.damage {
            offsets.push(Some(damage.offset));
            texts.push(damage.kind.to_string());
        }
        let more = statistics.damage_count.saturating_sub(statistics.damage.len() as u64);
        if more > 0 {
            offsets.push(None);
            texts.push(format!("{more} more damaged places"));
        }
        if offsets.is_empty() {
            return Ok(());
        }
        let names = vec![source.name.as_str(); offsets.len()];
        let options = RecordBatchOptions::new().with_row_count(Some(offsets.len()));
        let all: [ArrayRef; 3] = [
            Arc::new(StringArray::from(names)),
            Arc::new(UInt64Array::from(offsets)),
            Arc::new(StringArray::from(texts)),
        ];
        let columns = self.columns.iter().filter_map(|column| all.get(*column).cloned()).collect();
        run.send(&RecordBatch::try_new_with_options(run.schema.clone(), columns, &options)?);
        Ok(())
    }
}
