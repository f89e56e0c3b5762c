//! A database: traces, their tables, views and functions, and what statements may do.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider};
use datafusion::common::{DataFusionError, TableReference};
use datafusion::execution::context::{SQLOptions, SessionConfig, SessionContext};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::sql::parser::{DFParser, Statement as SqlStatement};

use crate::bases::Traces;
use crate::catalog::{TraceTables, similar};
use crate::inputs::Input;
use crate::source::{OpenOptions, Source};
use crate::stacks::StackNames;
use crate::{error, functions, views};

const CATALOG: &str = "etw";
/// The schema with the tables of all traces.
const ALL: &str = "traces";

/// Options of a database.
#[derive(Debug)]
pub(crate) struct Options {
    /// Memory for sorting, grouping and joining, beyond which these use temporary files.
    pub(crate) memory_bytes: usize,
    /// Number of threads.
    pub(crate) threads: usize,
    /// Whether statements may create tables and write files.
    pub(crate) allow_write: bool,
}

/// Traces as tables.
pub(crate) struct Database {
    context: SessionContext,
    traces: Arc<Traces>,
    allowed: SQLOptions,
}

/// A statement that was checked.
pub(crate) struct Statement {
    plan: LogicalPlan,
}

impl Database {
    /// Opens traces.
    ///
    /// # Errors
    ///
    /// Fails if a trace cannot be opened, or if two schemas have the same name.
    pub(crate) async fn open(inputs: Vec<Input>, open: OpenOptions, options: &Options) -> Result<Database> {
        let open = Arc::new(open);
        let (mut sources, mut schemas) = (Vec::new(), BTreeMap::<String, Vec<Arc<Source>>>::new());
        for Input { path, name } in inputs {
            let source = Arc::new(Source::open(path, name.clone(), sources.len(), &open)?);
            if let Some(name) = name {
                if name == ALL || name == "information_schema" {
                    bail!("the name '{name}' after AS is taken; choose another one");
                }
                schemas.entry(name).or_default().push(source.clone());
            }
            sources.push(source);
        }
        let traces = Arc::new(Traces::new(sources));
        let mut config = SessionConfig::new()
            .with_target_partitions(options.threads)
            .with_information_schema(true)
            .with_create_default_catalog_and_schema(false)
            .with_default_catalog_and_schema(CATALOG, ALL);
        let parser = &mut config.options_mut().sql_parser;
        // Names of fields have capitals; nobody is to quote them.
        parser.enable_ident_normalization = false;
        parser.collect_spans = true;
        let pool = Arc::new(FairSpillPool::new(options.memory_bytes));
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc()?;
        let context = SessionContext::new_with_config_rt(config, runtime);
        let catalog = MemoryCatalogProvider::new();
        catalog.register_schema(ALL, Arc::new(TraceTables::new(&traces, traces.sources.clone())))?;
        for (name, sources) in schemas {
            catalog.register_schema(&name, Arc::new(TraceTables::new(&traces, sources)))?;
        }
        context.register_catalog(CATALOG, Arc::new(catalog));
        functions::register(&context, &Arc::new(StackNames::new(&traces)));
        let allowed =
            SQLOptions::new().with_allow_ddl(options.allow_write).with_allow_dml(options.allow_write);
        let database = Database { context, traces, allowed };
        database.add_views(views::BUILT_IN).await.context("the built-in views")?;
        Ok(database)
    }

    /// Adds the views of a file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or has something else than views.
    pub(crate) async fn add_views_of(&self, path: &Path) -> Result<()> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        self.add_views(&text).await.with_context(|| path.display().to_string())
    }

    async fn add_views(&self, sql: &str) -> Result<()> {
        for statement in parsed(sql)? {
            let plan = self.context.state().statement_to_plan(statement).await;
            let plan = plan.map_err(|error| self.explained(&error, sql))?;
            let LogicalPlan::Ddl(DdlStatement::CreateView(_)) = &plan else {
                bail!("expected CREATE VIEW statements only");
            };
            self.context.execute_logical_plan(plan).await.map_err(|error| self.explained(&error, sql))?;
        }
        Ok(())
    }

    /// Checks the statements of a text, each with its plan. A statement may need what those before it do, so each is to be
    /// run before the next one is taken.
    ///
    /// # Errors
    ///
    /// Fails if the text is no SQL.
    pub(crate) fn statements(&self, sql: &str) -> Result<Vec<SqlStatement>> {
        parsed(sql)
    }

    /// Plans a statement of a text.
    ///
    /// # Errors
    ///
    /// Fails if a name is unknown, if types do not fit, or if the statement is not allowed.
    pub(crate) async fn plan(&self, statement: SqlStatement, sql: &str) -> Result<Statement> {
        let plan = self.context.state().statement_to_plan(statement).await;
        let plan = plan.map_err(|error| self.explained(&error, sql))?;
        if let Err(error) = self.allowed.verify_plan(&plan) {
            bail!("{}; --allow-write allows statements that create or write", error::message(&error));
        }
        Ok(Statement { plan })
    }

    /// Runs a statement, whose rows are read from the stream.
    ///
    /// # Errors
    ///
    /// Fails if a trace cannot be read.
    pub(crate) async fn run(&self, statement: Statement, sql: &str) -> Result<SendableRecordBatchStream> {
        let answer = self.context.execute_logical_plan(statement.plan).await;
        let stream = match answer {
            Ok(answer) => answer.execute_stream().await,
            Err(error) => Err(error),
        };
        stream.map_err(|error| self.explained(&error, sql))
    }

    /// Returns the error of a statement, with names like one that is unknown.
    pub(crate) fn explained(&self, error: &DataFusionError, sql: &str) -> anyhow::Error {
        let mut explained = error::of_statement(error, sql);
        let first = explained.text.lines().next().unwrap_or_default().to_owned();
        if let Some(name) = error::unknown_table(&first) {
            let names = similar(&self.names(), &name);
            if !names.is_empty() {
                let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
                explained.text = explained.text.replacen(
                    &first,
                    &format!("{first}; did you mean {}?", names.join(" or ")),
                    1,
                );
            }
        }
        explained.into()
    }

    /// Returns the names of the tables.
    pub(crate) fn names(&self) -> Vec<String> {
        let catalog = self.context.catalog(CATALOG);
        let Some(catalog) = catalog else { return Vec::new() };
        let mut names = Vec::new();
        for schema in catalog.schema_names().iter().filter(|schema| *schema != "information_schema") {
            let Some(tables) = catalog.schema(schema) else { continue };
            let prefix = if schema == ALL { String::new() } else { format!("{schema}.") };
            names.extend(tables.table_names().iter().map(|name| format!("{prefix}{name}")));
        }
        names
    }

    /// Returns the columns of a table: name, type, meaning.
    ///
    /// # Errors
    ///
    /// Fails if there is no such table.
    pub(crate) async fn columns(&self, table: &str) -> Result<Vec<[String; 3]>> {
        let catalog = self.context.catalog(CATALOG);
        let is_schema = |name: &str| catalog.as_ref().is_some_and(|catalog| catalog.schema(name).is_some());
        let table = match table.split_once('.').filter(|(schema, _)| is_schema(schema)) {
            Some((schema, table)) => TableReference::partial(schema, table),
            None => TableReference::bare(table),
        };
        let table = self.context.table_provider(table).await;
        let schema = table.map_err(|error| self.explained(&error, ""))?.schema();
        let column = |field: &FieldRef| {
            let summary = field.metadata().get("summary").cloned().unwrap_or_default();
            [field.name().clone(), type_name(field.data_type()), summary]
        };
        Ok(schema.fields().iter().map(column).collect())
    }

    /// Returns the names of traces with damaged places, and how many reading has found.
    pub(crate) fn damage(&self) -> Vec<(String, u64)> {
        let damaged = self.traces.sources.iter().map(|source| (source.name.clone(), source.damage()));
        damaged.filter(|(_, count)| *count > 0).collect()
    }
}

/// Parses statements, and shows the place of an error.
fn parsed(sql: &str) -> Result<Vec<SqlStatement>> {
    let statements = DFParser::parse_sql(sql);
    Ok(statements.map_err(|error| error::of_statement(&error, sql))?.into())
}

/// Returns the name of a type as SQL has it.
fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Dictionary(_, values) => type_name(values),
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => "text".to_owned(),
        DataType::Timestamp(..) => "timestamp".to_owned(),
        DataType::List(item) => format!("{}[]", type_name(item.data_type())),
        other => other.to_string().to_lowercase(),
    }
}
