//! Tables of record batches, which Python libraries take without copies.

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::errors::{Failure, OrRaise};

/// A table in memory. Every library that knows Arrow's PyCapsule interface takes it without a copy:
/// ``pyarrow.table(t)``, ``polars.DataFrame(t)``, ``duckdb.sql("select * from t")``.
#[pyclass(frozen, module = "openetw")]
pub(crate) struct Table {
    name: String,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    pub(crate) fn new(name: &str, schema: SchemaRef, batches: Vec<RecordBatch>) -> Table {
        Table { name: name.to_owned(), schema, batches }
    }

    /// Keeps these columns, in this order.
    pub(crate) fn select(self, columns: &[String]) -> Result<Table, Failure> {
        let place = |name: &String| {
            self.schema.index_of(name).map_err(|_| {
                let known: Vec<&str> = self.schema.fields().iter().map(|field| &**field.name()).collect();
                let known = known.join(", ");
                Failure::argument(format_args!("{} has no column '{name}'; it has: {known}", self.name))
            })
        };
        let places = columns.iter().map(place).collect::<Result<Vec<_>, _>>()?;
        let batches = self.batches.iter().map(|batch| batch.project(&places));
        let batches = batches.collect::<Result<Vec<_>, _>>()?;
        let schema = self.schema.project(&places)?.into();
        Ok(Table { name: self.name, schema, batches })
    }

    fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

#[pymethods]
impl Table {
    /// Name of the table or kind of events.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.rows()
    }

    /// Number of columns.
    #[getter]
    fn num_columns(&self) -> usize {
        self.schema.fields().len()
    }

    /// Names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<&str> {
        self.schema.fields().iter().map(|field| field.name().as_str()).collect()
    }

    fn __len__(&self) -> usize {
        self.rows()
    }

    fn __repr__(&self) -> String {
        let columns = self.column_names().join(", ");
        format!("<openetw.Table '{}': {} rows of {columns}>", self.name, self.rows())
    }

    /// Arrow's C stream interface. A requested schema is not applied; the reader casts.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        // Batches are counted references to the same memory.
        let batches = self.batches.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, self.schema.clone());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref()).or_raise()?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// Returns the table as a ``pyarrow.Table``.
    fn to_arrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pyarrow")?.call_method1("table", (slf,))
    }

    /// Returns the table as a ``pandas.DataFrame``, by way of pyarrow.
    #[pyo3(signature = (**options))]
    fn to_pandas<'py>(
        slf: &Bound<'py, Self>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Table::to_arrow(slf)?.call_method("to_pandas", (), options)
    }

    /// Returns the table as a ``polars.DataFrame``.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("polars")?.call_method1("DataFrame", (slf,))
    }
}
