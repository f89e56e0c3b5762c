//! The table `damage`: what of the traces cannot be read.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{RecordBatch, StringArray, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{MemTable, Session, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::events::blocking;
use crate::source::Source;

/// One row for each damaged place. The traces are read for it.
#[derive(Debug)]
pub(crate) struct DamageTable {
    sources: Vec<Arc<Source>>,
    schema: SchemaRef,
}

impl DamageTable {
    pub(crate) fn new(sources: &[Arc<Source>]) -> DamageTable {
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
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (sources, schema) = (self.sources.clone(), self.schema.clone());
        let rows = blocking(move || rows(&sources, schema)).await?;
        let table = MemTable::try_new(self.schema.clone(), vec![vec![rows]])?;
        table.scan(state, projection, filters, limit).await
    }
}

fn rows(sources: &[Arc<Source>], schema: SchemaRef) -> anyhow::Result<RecordBatch> {
    let (mut names, mut offsets, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    for source in sources {
        let mut trace = source.scanned()?.range(None, None);
        trace.for_each_record(|_| {})?;
        let statistics = trace.statistics();
        for (_, damage) in &statistics.damage {
            names.push(source.name.as_str());
            offsets.push(Some(damage.offset));
            texts.push(damage.kind.to_string());
        }
        let more = statistics.damage_count.saturating_sub(statistics.damage.len() as u64);
        if more > 0 {
            names.push(&source.name);
            offsets.push(None);
            texts.push(format!("{more} more damaged places"));
        }
    }
    let columns: Vec<datafusion::arrow::array::ArrayRef> = vec![
        Arc::new(StringArray::from(names)),
        Arc::new(UInt64Array::from(offsets)),
        Arc::new(StringArray::from(texts)),
    ];
    Ok(RecordBatch::try_new(schema, columns)?)
}
