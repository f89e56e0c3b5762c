//! The scheduler: plans queries, sends their parts to the executors that have joined it, and passes the answers on.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use arrow_flight::encode::{DictionaryHandling, FlightDataEncoderBuilder};
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest,
    HandshakeResponse, PollInfo, PutResult, Result as ActionResult, SchemaResult, Ticket,
};
use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DataFusionError, exec_err};
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedExt, DistributedLeafExec,
    RouteTasksEvent, RouteTasksEventResponse, ScaleUpLeafNodeEvent, ScaleUpLeafNodeEventResponse,
    SessionStateBuilderExt, WorkerResolver,
};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};
use tokio::sync::watch;
use tonic::codegen::http::{HeaderMap, HeaderValue};
use tonic::{Request, Response, Status, Streaming};
use url::Url;

use super::SchedulerArgs;
use super::codec::{Codec, encode_traces};
use super::executor::Channels;
use super::messages::{self, DAMAGE, Damage, End, JOIN, Joining, QUERY, Question, TRACES, VERSION};
use crate::bases::Traces;
use crate::damage::DamageReading;
use crate::database::{self, Allowed, Database, Options};
use crate::inputs::{self, Input};
use crate::opened::Files;
use crate::reading::EventReading;
use crate::rows::RowReading;
use crate::scan::{Reading, Scan};

/// How often a query starts again after an executor was lost, as long as it has no answer.
const ATTEMPTS: usize = 3;
/// Time in which an executor that was lost is known to be.
const NOTICED: Duration = Duration::from_secs(2);
/// Longest time without a row after an executor was lost. The others may still compute what does not depend on it.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// What errors of connections say; the engine passes them on as text. Executors wait for a plan whose sender has met one.
const CONNECTION: [&str; 9] = [
    "h2 protocol error",
    "transport error",
    "cannot be reached",
    "from connection",
    "Connection re",
    "connection re",
    "connection closed",
    "the connection with ",
    "waiting for the plan to be set by the coordinator",
];
/// Longest message of an error; messages are headers.
const MAX_MESSAGE: usize = 4 << 10;

/// Runs a scheduler.
///
/// # Errors
///
/// Fails if it cannot listen.
pub(super) async fn run(args: &SchedulerArgs) -> Result<()> {
    let access = args.process.credentials.read()?;
    let files = Arc::new(args.process.limits.files(args.process.traces.options()?));
    let threads = crate::threads::threads(args.process.threads);
    let scheduler = Scheduler {
        options: Options {
            resources: args.process.limits.resources()?,
            threads,
            allowed: Allowed::Reading,
            strict: false,
            cluster: None,
        },
        executors: Arc::default(),
        queries: Arc::default(),
        codec: Arc::new(Codec { files: files.clone() }),
        channels: Channels::new(access.clone()),
        files,
    };
    let (incoming, address) = access.listen(&args.listen).await?;
    let service = FlightServiceServer::new(scheduler).max_decoding_message_size(64 << 20);
    let server = access.server()?.add_service(service);
    print(&format!("listening on {address}"));
    server.serve_with_incoming(incoming).await.context("the scheduler")
}

/// Prints a line at once, for who started the process.
pub(super) fn print(line: &str) {
    let mut out = std::io::stdout();
    // A closed standard output is ignored.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

#[derive(Clone)]
struct Scheduler {
    options: Options,
    executors: Arc<Executors>,
    queries: Arc<Queries>,
    codec: Arc<Codec>,
    channels: Channels,
    files: Arc<Files>,
}

/// The executors that have joined, by the order in which they did.
#[derive(Default)]
struct Executors {
    next: AtomicU64,
    joined: watch::Sender<BTreeMap<u64, Url>>,
}

impl Executors {
    fn joined(&self) -> BTreeMap<u64, Url> {
        self.joined.borrow().clone()
    }

    /// Waits until executors of an earlier time are no longer there, and returns them.
    async fn lost(&self, earlier: &BTreeMap<u64, Url>) -> Vec<Url> {
        let mut joined = self.joined.subscribe();
        loop {
            let now = joined.borrow_and_update().clone();
            let is_gone = |(id, url): (&u64, &Url)| (!now.contains_key(id)).then(|| url.clone());
            let lost: Vec<Url> = earlier.iter().filter_map(is_gone).collect();
            // The sender is there as long as this.
            if !lost.is_empty() || joined.changed().await.is_err() {
                return lost;
            }
        }
    }

    /// Returns the executors of an earlier time that are no longer there, if that can be the reason of an error.
    async fn lost_by(&self, earlier: &BTreeMap<u64, Url>, error: &str) -> Vec<Url> {
        let noticed = if is_of_connection(error) { NOTICED } else { Duration::ZERO };
        tokio::time::timeout(noticed, self.lost(earlier)).await.unwrap_or_default()
    }
}

/// Whether an error may be that of a connection with an executor.
fn is_of_connection(error: &str) -> bool {
    CONNECTION.iter().any(|word| error.contains(word))
}

/// An executor that is there as long as its request.
struct Joined {
    executors: Arc<Executors>,
    id: u64,
}

impl Drop for Joined {
    fn drop(&mut self) {
        let mut left = None;
        self.executors.joined.send_modify(|joined| left = joined.remove(&self.id));
        if let Some(url) = left {
            print(&format!("{url} has left"));
        }
    }
}

/// Knows the executors that a plan may use.
struct Resolver(Arc<Executors>);

impl WorkerResolver for Resolver {
    fn get_urls(&self) -> Result<Vec<Url>, DataFusionError> {
        let urls: Vec<Url> = self.0.joined.borrow().values().cloned().collect();
        if urls.is_empty() {
            return exec_err!("no executor has joined the cluster");
        }
        Ok(urls)
    }
}

/// The traces of queries that run, for the functions on stacks.
#[derive(Default)]
struct Queries {
    next: AtomicU64,
    running: Mutex<HashMap<u64, Weak<Traces>>>,
}

impl Queries {
    fn running(&self) -> MutexGuard<'_, HashMap<u64, Weak<Traces>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A query that is known as long as this.
struct Running {
    queries: Arc<Queries>,
    id: u64,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.queries.running().remove(&self.id);
    }
}

/// An answer that has begun.
struct Begun {
    schema: SchemaRef,
    first: Option<RecordBatch>,
    rest: SendableRecordBatchStream,
    database: Arc<Database>,
    executors: BTreeMap<u64, Url>,
    running: Running,
}

impl Scheduler {
    /// Plans the statement, and waits for its first rows. Starts again if an executor is lost before.
    async fn begin(&self, question: &Question) -> Result<Begun> {
        if question.version != VERSION {
            bail!("the scheduler has version {VERSION}, the client {}", question.version);
        }
        let mut attempt = 1;
        loop {
            let executors = self.executors.joined();
            let error = match self.attempt(question, executors.clone()).await {
                Ok(begun) => return Ok(begun),
                Err(error) => error,
            };
            if !error.is::<Interrupted>() {
                return Err(error);
            }
            let text = error.to_string();
            let lost = self.executors.lost_by(&executors, &text).await;
            if lost.is_empty() && !is_of_connection(&text) {
                return Err(error);
            }
            if attempt == ATTEMPTS {
                bail!("{} {ATTEMPTS} times; run the query again", lost_what(&lost, &text));
            }
            attempt += 1;
        }
    }

    async fn attempt(&self, question: &Question, executors: BTreeMap<u64, Url>) -> Result<Begun> {
        let id = self.queries.next.fetch_add(1, Ordering::Relaxed);
        let scheduler = self.clone();
        let inputs = inputs::expand(&question.traces, &self.files)?;
        let start = start_of(&inputs);
        let options = Options {
            cluster: Some(Arc::new(move |builder| scheduler.extend(id, start, builder))),
            strict: question.strict,
            ..self.options.clone()
        };
        let mut database = Database::open(inputs, &self.files, &options).await?;
        self.queries.running().insert(id, Arc::downgrade(database.traces()));
        let running = Running { queries: self.queries.clone(), id };
        for (name, text) in &question.views {
            database.add_views(name, text).await;
        }
        let database = Arc::new(database);
        let statement = database::parsed(&question.sql)?.into_iter().nth(question.statement);
        let statement =
            database.plan(statement.context("there is no such statement")?, &question.sql).await?;
        let begin = async {
            let interrupted = |error| Interrupted(format!("{error:#}"));
            let mut rest = database.run(statement, &question.sql).await.map_err(interrupted)?;
            let first = rest.next().await.transpose();
            let first = first.map_err(|error| interrupted(database.explained(&error, &question.sql)))?;
            anyhow::Ok((first, rest))
        };
        let (first, rest) = tokio::select! {
            begun = begin => begun?,
            // What it owes will not come, whether somebody says so or not.
            lost = self.executors.lost(&executors) => return Err(Interrupted(gone(&lost)).into()),
        };
        Ok(Begun { schema: rest.schema(), first, rest, database, executors, running })
    }

    /// Adds to a session what plans for the executors.
    fn extend(&self, query: u64, start: usize, mut builder: SessionStateBuilder) -> SessionStateBuilder {
        let executors = self.executors.clone();
        let headers = HeaderMap::from_iter([(
            tonic::codegen::http::HeaderName::from_static(QUERY),
            HeaderValue::from(query),
        )]);
        // Only names that the engine uses itself are refused.
        let _ = builder.set_distributed_passthrough_headers(headers);
        builder
            .with_distributed_worker_resolver(Resolver(self.executors.clone()))
            .with_distributed_channel_resolver(self.channels.clone())
            .with_distributed_user_codec_arc(self.codec.clone())
            .with_distributed_desired_task_count_handler(task_count)
            .with_distributed_scale_up_leaf_node_handler(divide)
            .with_distributed_route_tasks_handler(move |event: RouteTasksEvent<'_>| {
                route(&event, &executors, start)
            })
            .with_distributed_planner()
    }

    /// Returns the rest of an answer, which ends with an error if nothing more comes of it after an executor was lost.
    fn watched(
        self,
        rest: SendableRecordBatchStream,
        executors: BTreeMap<u64, Url>,
    ) -> impl Stream<Item = Result<RecordBatch, DataFusionError>> {
        stream::unfold(Some((rest, executors)), move |state| {
            let scheduler = self.clone();
            async move {
                let (mut rest, executors) = state?;
                let lost = async {
                    let lost = scheduler.executors.lost(&executors).await;
                    tokio::time::sleep(LONGEST_PAUSE).await;
                    gone(&lost)
                };
                let next = tokio::select! {
                    next = rest.next() => next?,
                    text = lost => return Some((exec_err!("{text}"), None)),
                };
                Some((next, Some((rest, executors))))
            }
        })
    }

    /// Returns an answer as messages: rows, and then the damage that was found.
    fn answer(self, begun: Begun, sql: String) -> impl Stream<Item = Result<FlightData, Status>> {
        let Begun { schema, first, rest, database, executors, running } = begun;
        let explains = database.clone();
        let rest = self.clone().watched(rest, executors.clone());
        let rows = stream::iter(first.map(Ok)).chain(rest).then(move |batch| {
            let (scheduler, database, executors, sql) =
                (self.clone(), explains.clone(), executors.clone(), sql.clone());
            async move {
                let error = match batch {
                    Ok(batch) => return Ok(batch),
                    Err(error) => error,
                };
                let text = format!("{:#}", database.explained(&error, &sql));
                let lost = scheduler.executors.lost_by(&executors, &text).await;
                let text = match lost.is_empty() && !is_of_connection(&text) {
                    true => text,
                    false => {
                        format!("{} after a part of the answer; run the query again", lost_what(&lost, &text))
                    }
                };
                Err(FlightError::Tonic(Box::new(status(&text))))
            }
        });
        let messages = FlightDataEncoderBuilder::new()
            .with_schema(schema)
            .with_dictionary_handling(DictionaryHandling::Resend)
            .build(rows)
            .map_err(|error| match error {
                FlightError::Tonic(status) => *status,
                other => status(&other.to_string()),
            });
        // Nothing follows an error.
        let mut is_whole = true;
        let end = stream::once(async move {
            let end = End {
                damage: database.damage(),
                unreadable: database.unreadable().to_vec(),
                notes: database.notes().to_vec(),
            };
            drop(running);
            let bytes = messages::encode(&end).map_err(|error| status(&format!("{error:#}")))?;
            Ok(FlightData { app_metadata: bytes.into(), ..FlightData::default() })
        });
        messages.chain(end).take_while(move |message| {
            let was_whole = is_whole;
            is_whole = message.is_ok();
            std::future::ready(was_whole)
        })
    }
}

/// An error of a query that runs.
#[derive(Debug)]
struct Interrupted(String);

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Interrupted {}

/// Says that executors are gone, as an error of a connection with one of them would.
fn gone(lost: &[Url]) -> String {
    format!("the connection with {} is lost", named(lost))
}

/// Says what a query has lost: executors, or connections with some that are still there.
fn lost_what(lost: &[Url], error: &str) -> String {
    match lost.is_empty() {
        // What errors are made of says nothing more.
        true => {
            let reason = error.split(", source:").next().unwrap_or(error);
            format!("lost the connection with an executor ({reason})")
        }
        false => format!("lost the executor {}", named(lost)),
    }
}

fn named(urls: &[Url]) -> String {
    urls.iter().map(Url::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns an error as a client shows it.
fn status(text: &str) -> Status {
    let end = text.floor_char_boundary(MAX_MESSAGE);
    Status::aborted(text.get(..end).unwrap_or_default())
}

/// Asks for as many tasks as a scan has pieces; there are never more than executors.
fn task_count(
    event: DesiredTaskCountEvent<'_>,
) -> Option<Result<DesiredTaskCountEventResponse, DataFusionError>> {
    fn pieces<R: Reading>(event: DesiredTaskCountEvent<'_>) -> Option<usize> {
        Some(event.plan.downcast_ref::<Scan<R>>()?.pieces().count())
    }
    let pieces = pieces::<EventReading>(event)
        .or_else(|| pieces::<RowReading>(event))
        .or_else(|| pieces::<DamageReading>(event))?;
    Some(Ok(DesiredTaskCountEventResponse::desired(pieces.max(1))))
}

/// Returns the number of the executor that gets the first traces of a query: the same one for the same traces.
fn start_of(inputs: &[Input]) -> usize {
    let mut hasher = DefaultHasher::new();
    inputs.first().map(|input| &input.path).hash(&mut hasher);
    hasher.finish() as usize
}

/// Gives the tasks of a scan to the executors that had them before, which keep the traces open, mapped and downloaded. The
/// other tasks go anywhere.
fn route(
    event: &RouteTasksEvent<'_>,
    executors: &Executors,
    start: usize,
) -> Option<Result<RouteTasksEventResponse, DataFusionError>> {
    let is_scan = event.plan.exists(|node| Ok(node.is::<DistributedLeafExec>()));
    if !matches!(is_scan, Ok(true)) {
        return None;
    }
    let urls: Vec<Url> = executors.joined.borrow().values().cloned().collect();
    let first = start.checked_rem(urls.len())?;
    let urls = urls.iter().cycle().skip(first).take(event.task_count).cloned().collect();
    Some(Ok(RouteTasksEventResponse::new(urls)))
}

/// Divides the pieces of a scan among tasks.
fn divide(event: ScaleUpLeafNodeEvent<'_>) -> Option<Result<ScaleUpLeafNodeEventResponse, DataFusionError>> {
    fn parts<R: Reading>(
        event: ScaleUpLeafNodeEvent<'_>,
    ) -> Option<Result<DistributedLeafExec, DataFusionError>> {
        let scan = event.plan.downcast_ref::<Scan<R>>()?;
        let parts = scan.split(event.task_count).into_iter().map(|part| Arc::new(part) as _);
        Some(DistributedLeafExec::try_new(event.plan.clone(), parts))
    }
    let leaf = parts::<EventReading>(event)
        .or_else(|| parts::<RowReading>(event))
        .or_else(|| parts::<DamageReading>(event))?;
    Some(leaf.map(|leaf| ScaleUpLeafNodeEventResponse::new(Arc::new(leaf))))
}

type Answer<T> = BoxStream<'static, Result<T, Status>>;

#[async_trait]
impl FlightService for Scheduler {
    type HandshakeStream = Answer<HandshakeResponse>;
    type ListFlightsStream = Answer<FlightInfo>;
    type DoGetStream = Answer<FlightData>;
    type DoPutStream = Answer<PutResult>;
    type DoExchangeStream = Answer<FlightData>;
    type DoActionStream = Answer<ActionResult>;
    type ListActionsStream = Answer<ActionType>;

    async fn do_get(&self, request: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        let question: Question =
            messages::decode(&request.into_inner().ticket).map_err(|error| status(&format!("{error:#}")))?;
        let begun = self.begin(&question).await.map_err(|error| status(&format!("{error:#}")))?;
        Ok(Response::new(self.clone().answer(begun, question.sql).boxed()))
    }

    async fn do_action(&self, request: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        let Action { r#type, body } = request.into_inner();
        let answer = self.act(&r#type, &body).await.map_err(|error| status(&format!("{error:#}")))?;
        Ok(Response::new(answer))
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        Err(unknown())
    }

    async fn list_flights(&self, _: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        Err(unknown())
    }

    async fn get_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status> {
        Err(unknown())
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        Err(unknown())
    }

    async fn get_schema(&self, _: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        Err(unknown())
    }

    async fn do_put(&self, _: Request<Streaming<FlightData>>) -> Result<Response<Self::DoPutStream>, Status> {
        Err(unknown())
    }

    async fn do_exchange(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        Err(unknown())
    }

    async fn list_actions(&self, _: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        Err(unknown())
    }
}

fn unknown() -> Status {
    Status::unimplemented("the scheduler answers queries only")
}

impl Scheduler {
    async fn act(&self, action: &str, body: &[u8]) -> Result<Answer<ActionResult>> {
        match action {
            JOIN => self.join(messages::decode(body)?),
            DAMAGE => {
                let Damage { path, count } = messages::decode(body)?;
                if let Some(file) = self.files.known(&path) {
                    file.add_damage(count);
                }
                Ok(once(Vec::new()))
            }
            TRACES => {
                let id: u64 = messages::decode(body)?;
                let traces = self.queries.running().get(&id).and_then(Weak::upgrade);
                let traces = traces.context("the query has ended")?;
                let found = tokio::task::spawn_blocking(move || encode_traces(&traces)).await;
                Ok(once(found.context("a thread failed")??))
            }
            other => bail!("there is no action '{other}'"),
        }
    }

    /// Counts an executor in, as long as it reads the answer.
    fn join(&self, joining: Joining) -> Result<Answer<ActionResult>> {
        if joining.version != VERSION {
            bail!("the scheduler has version {VERSION}, the executor {}", joining.version);
        }
        let url = Url::parse(&joining.url).with_context(|| joining.url.clone())?;
        let id = self.executors.next.fetch_add(1, Ordering::Relaxed);
        print(&format!("{url} has joined"));
        self.executors.joined.send_modify(|joined| drop(joined.insert(id, url)));
        let joined = Joined { executors: self.executors.clone(), id };
        Ok(once(Vec::new()).chain(Forever(joined)).boxed())
    }
}

fn once(body: Vec<u8>) -> Answer<ActionResult> {
    stream::once(async move { Ok(ActionResult { body: body.into() }) }).boxed()
}

/// A stream without items, which keeps something.
struct Forever<T>(T);

impl<T> Stream for Forever<T> {
    type Item = Result<ActionResult, Status>;

    fn poll_next(
        self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Pending
    }
}
