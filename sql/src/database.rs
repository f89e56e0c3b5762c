//! A database: traces, their tables, views and functions, and what statements may do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider, SchemaProvider};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, TableReference};
use datafusion::execution::context::{SQLOptions, SessionConfig, SessionContext};
use datafusion::execution::{SessionState, SessionStateBuilder, TaskContext};
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{SendableRecordBatchStream, execute_stream};
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion::sql::parser::{DFParser, Statement as SqlStatement};
use datafusion::sql::sqlparser::ast;
use futures::{StreamExt, stream};
use serde::{Deserialize, Serialize};

use crate::bases::Traces;
use crate::catalog::{TraceTables, similar};
use crate::inputs::Input;
use crate::opened::Files;
use crate::resources::{Pace, Resources};
use crate::source::Source;
use crate::stacks::StackNames;
use crate::{bounded, error, functions, ignored, memory, views};

/// Longest time for which a query that is started again waits until the memory of its first run is free.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
const CATALOG: &str = "etw";
/// The schema with the tables of all traces.
const ALL: &str = "traces";

/// Options of a database.
#[derive(Clone)]
pub(crate) struct Options {
    /// Memory and temporary files.
    pub(crate) resources: Resources,
    /// Number of threads.
    pub(crate) threads: usize,
    /// What statements may do.
    pub(crate) allowed: Allowed,
    /// Whether one trace that cannot be read makes everything fail.
    pub(crate) strict: bool,
    /// Adds to a session what plans for a cluster; `None` if queries run in this process.
    pub(crate) cluster: Option<Extend>,
}

/// A trace that cannot be read, as it was named, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unreadable {
    pub(crate) name: String,
    pub(crate) error: String,
}

/// What is left out of the answers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Omissions {
    /// Traces with damaged places, and how many reading has found.
    pub(crate) damage: Vec<(String, u64)>,
    pub(crate) unreadable: Vec<Unreadable>,
    /// What is wrong with the user's views.
    pub(crate) notes: Vec<String>,
}

/// What statements may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// They read and explain.
    Reading,
    /// They change settings, too.
    Settings,
    /// They create tables and write files, too.
    All,
}

/// Adds to a session.
pub(crate) type Extend = Arc<dyn Fn(SessionStateBuilder) -> SessionStateBuilder + Send + Sync>;

/// Traces as tables.
pub(crate) struct Database {
    context: SessionContext,
    traces: Arc<Traces>,
    /// By schema.
    tables: Vec<(String, Arc<TraceTables>)>,
    allowed: Allowed,
    is_in_cluster: bool,
    unreadable: Arc<[Unreadable]>,
    /// What is wrong with the user's views.
    notes: Vec<String>,
    /// The files that were fetched are there as long as this.
    _files: Arc<Files>,
    /// So are temporary files.
    _resources: Resources,
}

/// A statement that was checked.
pub(crate) struct Statement {
    plan: LogicalPlan,
}

impl Database {
    /// Opens traces. Those that cannot be read are left out, and are rows of the table `traces`.
    ///
    /// # Errors
    ///
    /// Fails if no trace can be opened, with [`Options::strict`] if one cannot, or if two schemas have the same name.
    pub(crate) async fn open(inputs: Vec<Input>, files: &Arc<Files>, options: &Options) -> Result<Database> {
        let (mut sources, mut schemas) = (Vec::new(), BTreeMap::<String, Vec<Source>>::new());
        let paths: Vec<_> = inputs.iter().map(|input| input.path.clone()).collect();
        let (mut unreadable, mut first) = (Vec::new(), None);
        for (file, Input { path, name }) in files.open_each(&paths).into_iter().zip(inputs) {
            let file = match file {
                Ok(file) => file,
                Err(error) if options.strict => return Err(error),
                Err(error) => {
                    // Without a readable trace, its schema has empty tables.
                    if let Some(name) = &name {
                        schemas.entry(name.clone()).or_default();
                    }
                    let name = name.unwrap_or_else(|| path.display().to_string());
                    unreadable.push(Unreadable { name, error: etw_app::output::with_causes(&error) });
                    first = first.or(Some(error));
                    continue;
                }
            };
            let mut source = Source::new(file, name.clone(), sources.len());
            if options.cluster.is_some() {
                source = source.pinned();
            }
            if let Some(name) = name {
                if name == ALL || name == "information_schema" {
                    bail!("the name '{name}' after AS is taken; choose another one");
                }
                schemas.entry(name).or_default().push(source.clone());
            }
            sources.push(source);
        }
        if let Some(error) = first.filter(|_| sources.is_empty()) {
            return Err(error);
        }
        let unreadable: Arc<[Unreadable]> = unreadable.into();
        let traces = Arc::new(Traces::new(sources));
        let mut config = SessionConfig::new()
            .with_target_partitions(options.threads)
            .with_information_schema(true)
            .with_create_default_catalog_and_schema(false)
            .with_default_catalog_and_schema(CATALOG, ALL);
        options.resources.limit(&mut config, options.threads);
        let parser = &mut config.options_mut().sql_parser;
        // Names of fields have capitals; nobody is to quote them.
        parser.enable_ident_normalization = false;
        parser.collect_spans = true;
        let state = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(options.resources.runtime())
            .with_default_features();
        let state = match &options.cluster {
            Some(extend) => extend(state),
            None => state,
        };
        let mut context = SessionContext::new_with_state(state.build());
        let catalog = MemoryCatalogProvider::new();
        let mut tables = Vec::new();
        for (name, sources) in std::iter::once((ALL.to_owned(), traces.sources.clone())).chain(schemas) {
            let is_own = |trace: &&Unreadable| name == ALL || trace.name == name;
            let unreadable = unreadable.iter().filter(is_own).cloned().collect();
            let of_schema = Arc::new(TraceTables::new(&traces, sources, unreadable));
            catalog.register_schema(&name, of_schema.clone())?;
            tables.push((name, of_schema));
        }
        context.register_catalog(CATALOG, Arc::new(catalog));
        let of_stacks = traces.clone();
        bounded::register(&mut context, options.resources.memory())?;
        functions::register(&mut context, &Arc::new(StackNames::new(move || Ok(of_stacks.clone()))))?;
        let is_in_cluster = options.cluster.is_some();
        let allowed = options.allowed;
        let database = Database {
            context,
            traces,
            tables,
            allowed,
            is_in_cluster,
            unreadable,
            notes: Vec::new(),
            _files: files.clone(),
            _resources: options.resources.clone(),
        };
        for statement in parsed(views::BUILT_IN)? {
            database.add_view(&statement, views::BUILT_IN).await.context("the built-in views")?;
        }
        Ok(database)
    }

    /// Adds the views of a user's text, which has a name. Those that cannot be made are left out, and noted.
    pub(crate) async fn add_views(&mut self, name: &str, sql: &str) {
        let statements = parsed(sql).unwrap_or_else(|error| {
            self.notes.push(format!("{name}: no view can be read: {}", etw_app::output::with_causes(&error)));
            Vec::new()
        });
        for statement in statements {
            if let Err(error) = self.add_view(&statement, sql).await {
                self.notes
                    .push(format!("{name}: a view is left out: {}", etw_app::output::with_causes(&error)));
            }
        }
    }

    /// Adds a view to each schema, of whose traces it is there.
    async fn add_view(&self, statement: &SqlStatement, sql: &str) -> Result<()> {
        for (schema, _) in &self.tables {
            let config = self.context.copied_config().with_default_catalog_and_schema(CATALOG, schema);
            let state = SessionStateBuilder::new_from_existing(self.context.state()).with_config(config);
            let context = SessionContext::new_with_state(state.build());
            let plan = context.state().statement_to_plan(statement.clone()).await;
            let plan = plan.map_err(|error| self.explained(&error, sql))?;
            let LogicalPlan::Ddl(DdlStatement::CreateView(_)) = &plan else {
                bail!("expected CREATE VIEW statements only");
            };
            context.execute_logical_plan(plan).await.map_err(|error| self.explained(&error, sql))?;
        }
        Ok(())
    }

    /// Returns the traces that cannot be read.
    pub(crate) fn unreadable(&self) -> &[Unreadable] {
        &self.unreadable
    }

    /// Returns what is wrong with the user's views.
    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Plans a statement of a text.
    ///
    /// # Errors
    ///
    /// Fails if a name is unknown, if types do not fit, or if the statement is not allowed.
    pub(crate) async fn plan(&self, statement: SqlStatement, sql: &str) -> Result<Statement> {
        if self.allowed == Allowed::Reading && !is_reading(&statement) {
            bail!("only queries, DESCRIBE, SHOW and EXPLAIN are allowed here");
        }
        let plan = self.context.state().statement_to_plan(statement).await;
        let plan = plan.map_err(|error| self.explained(&error, sql))?;
        let allowed = SQLOptions::new()
            .with_allow_ddl(self.allowed == Allowed::All)
            .with_allow_dml(self.allowed == Allowed::All)
            .with_allow_statements(self.allowed != Allowed::Reading);
        if let Err(error) = allowed.verify_plan(&plan) {
            let message = error::message(&error);
            match self.allowed {
                Allowed::Reading => bail!("{message}; only queries are allowed here"),
                _ => bail!("{message}; --allow-write allows statements that create or write"),
            }
        }
        Ok(Statement { plan })
    }

    /// Runs a statement, whose rows are read from the stream.
    ///
    /// # Errors
    ///
    /// Fails if a trace cannot be read.
    pub(crate) async fn run(&self, statement: Statement, sql: &str) -> Result<SendableRecordBatchStream> {
        // Dropping what runs frees what it has.
        let rows = tokio::select! {
            rows = self.stream(statement) => rows,
            error = memory::exceeded() => Err(error),
        };
        let rows = rows.map_err(|error| self.explained(&error, sql))?;
        let schema = rows.schema();
        let watched = stream::unfold(Some(rows), async |rows| {
            let mut rows = rows?;
            let next = tokio::select! {
                next = rows.next() => next?,
                error = memory::exceeded() => return Some((Err(error), None)),
            };
            Some((next, Some(rows)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, watched)))
    }

    async fn stream(&self, statement: Statement) -> Result<SendableRecordBatchStream, DataFusionError> {
        let (mut state, plan) = self.context.execute_logical_plan(statement.plan).await?.into_parts();
        let before = state.runtime_env().memory_pool.reserved();
        let mut rows = self.started(&state, &plan).await?;
        let first = loop {
            let error = match rows.next().await {
                Some(Err(error)) if is_exhausted(&error) => error,
                first => break first,
            };
            // What has written files is not run twice.
            let slower = Pace::from_config(state.config()).slower();
            let Some(slower) = slower.filter(|_| matches!(is_writing(&plan), Ok(false))) else {
                break Some(Err(error));
            };
            drop(rows);
            // Its tasks end a moment later, and what they hold counts until then.
            let start = Instant::now();
            while state.runtime_env().memory_pool.reserved() > before && start.elapsed() < LONGEST_WAIT {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            slower.set(state.config_mut());
            rows = self.started(&state, &plan).await?;
        };
        let schema = rows.schema();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(first).chain(rows))))
    }

    /// Starts a planned query.
    async fn started(
        &self,
        state: &SessionState,
        plan: &LogicalPlan,
    ) -> Result<SendableRecordBatchStream, DataFusionError> {
        let physical = match self.is_in_cluster && is_recursive(plan)? {
            // The steps of a recursion start the same plan again, which tasks elsewhere cannot do.
            true => {
                let plan = state.optimize(plan)?;
                DefaultPhysicalPlanner::default().create_physical_plan(&plan, state).await?
            }
            false => state.create_physical_plan(plan).await?,
        };
        let physical = Pace::from_config(state.config()).planned(physical)?;
        execute_stream(physical, Arc::new(TaskContext::from(state)))
    }

    /// Returns the error of a statement, with names like one that is unknown.
    pub(crate) fn explained(&self, error: &DataFusionError, sql: &str) -> anyhow::Error {
        let mut explained = error::of_statement(error, sql);
        // The names that nobody writes.
        explained.text =
            explained.text.replace(&format!("'{CATALOG}.{ALL}."), "'").replace(&format!("'{CATALOG}."), "'");
        let first = explained.text.lines().next().unwrap_or_default().to_owned();
        if let Some(name) = error::unknown_table(&first) {
            let names = similar(&self.near_names(), &name);
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
        self.names_by(|tables| tables.table_names())
    }

    /// Returns the names of the tables that are known without reading much.
    pub(crate) fn near_names(&self) -> Vec<String> {
        self.names_by(TraceTables::near_names)
    }

    fn names_by(&self, names: impl Fn(&TraceTables) -> Vec<String>) -> Vec<String> {
        let mut all = Vec::new();
        for (schema, tables) in &self.tables {
            let prefix = if schema == ALL { String::new() } else { format!("{schema}.") };
            all.extend(names(tables).iter().map(|name| format!("{prefix}{name}")));
        }
        all
    }

    /// Returns the columns of a table: name, type, meaning.
    ///
    /// # Errors
    ///
    /// Fails if there is no such table.
    pub(crate) async fn columns(&self, table: &str) -> Result<Vec<[String; 3]>> {
        let is_schema = |name: &str| self.tables.iter().any(|(schema, _)| schema == name);
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

    /// Returns the traces.
    pub(crate) fn traces(&self) -> &Arc<Traces> {
        &self.traces
    }

    /// Returns the names of traces with damaged places, and how many reading has found.
    pub(crate) fn damage(&self) -> Vec<(String, u64)> {
        let damaged = self.traces.sources.iter().map(|source| (source.name.clone(), source.damage()));
        damaged.filter(|(_, count)| *count > 0).collect()
    }
}

/// Whether a statement only reads and explains. What it consists of is checked again when it is planned.
fn is_reading(statement: &SqlStatement) -> bool {
    match statement {
        SqlStatement::Statement(statement) => matches!(
            **statement,
            ast::Statement::Query(_)
                | ast::Statement::ExplainTable { .. }
                | ast::Statement::ShowVariable { .. }
                | ast::Statement::ShowVariables { .. }
                | ast::Statement::ShowFunctions { .. }
                | ast::Statement::ShowTables { .. }
                | ast::Statement::ShowColumns { .. }
        ),
        SqlStatement::Explain(explained) => is_reading(&explained.statement),
        _ => false,
    }
}

/// Whether a query needed more memory than it may use.
fn is_exhausted(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}

/// Whether a statement writes files or tables.
fn is_writing(plan: &LogicalPlan) -> Result<bool, DataFusionError> {
    plan.exists(|node| Ok(matches!(node, LogicalPlan::Copy(_) | LogicalPlan::Dml(_) | LogicalPlan::Ddl(_))))
}

/// Whether a plan, or a query inside of it, is recursive.
fn is_recursive(plan: &LogicalPlan) -> Result<bool, DataFusionError> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::RecursiveQuery(_));
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// Parses the statements of a text. One may need what those before it do, so each is to be run before the next one is
/// planned.
///
/// # Errors
///
/// Fails if the text is no SQL; the error shows the place.
pub(crate) fn parsed(sql: &str) -> Result<Vec<SqlStatement>> {
    let statements = DFParser::parse_sql(sql).map_err(|error| error::of_statement(&error, sql))?;
    match statements.iter().find_map(ignored::clause) {
        Some(message) => bail!(message),
        None => Ok(statements.into()),
    }
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
