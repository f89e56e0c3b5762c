//! An executor: runs parts of queries for a scheduler that it has joined.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use arrow_flight::Action;
use arrow_flight::flight_service_client::FlightServiceClient;
use async_trait::async_trait;
use datafusion::common::DataFusionError;
use datafusion::execution::SessionState;
use datafusion_distributed::grpc::{BoxCloneSyncChannel, create_worker_client};
use datafusion_distributed::{
    ChannelResolver, DistributedExt, Worker, WorkerChannel, WorkerQueryContext, WorkerSessionBuilder,
};
use tonic::{Code, Status};
use url::Url;

use super::ExecutorArgs;
use super::codec::Codec;
use super::messages::{self, DAMAGE, Damage, JOIN, Joining, QUERY, TRACES, VERSION};
use super::scheduler::print;
use super::security::Access;
use crate::resources::Resources;
use crate::stacks::StackNames;
use crate::{bounded, error, functions};

/// Time between attempts to join the scheduler.
const AGAIN: Duration = Duration::from_secs(1);

/// Runs an executor.
///
/// # Errors
///
/// Fails if it cannot listen, or if the scheduler refuses it.
pub(super) async fn run(args: &ExecutorArgs) -> Result<()> {
    let access = args.process.credentials.read()?;
    let (incoming, address) = access.listen(&args.listen).await?;
    let host = match &args.advertise {
        Some(host) => host.clone(),
        None => args.listen.rsplit_once(':').map_or("", |(host, _)| host).to_owned(),
    };
    let url = access.url(&host, address.port());
    let scheduler = Scheduler::new(access.clone(), &args.scheduler);
    let tell = scheduler.clone();
    let files = args
        .process
        .limits
        .files(args.process.traces.options()?)
        .on_damage(move |path: &Path, count| tell.damage(path, count));
    let sessions = Sessions {
        scheduler: scheduler.clone(),
        codec: Arc::new(Codec { files: Arc::new(files) }),
        channels: Channels::new(access.clone()),
        resources: args.process.limits.resources()?,
        threads: crate::threads::threads(args.process.threads),
    };
    let runtime = sessions.resources.runtime();
    let worker = Worker::from_session_builder(sessions).with_runtime_env(runtime).with_version(VERSION);
    let server = access.server()?.add_service(worker.into_worker_server());
    print(&format!("listening on {address}"));
    tokio::select! {
        served = server.serve_with_incoming(incoming) => served.context("the executor"),
        refused = scheduler.stay(url) => refused,
    }
}

/// Makes the session of each task.
struct Sessions {
    scheduler: Scheduler,
    codec: Arc<Codec>,
    channels: Channels,
    resources: Resources,
    threads: usize,
}

#[async_trait]
impl WorkerSessionBuilder for Sessions {
    async fn build_session_state(
        &self,
        context: WorkerQueryContext,
    ) -> Result<SessionState, DataFusionError> {
        let query = context.headers.get(QUERY).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        let mut builder = context
            .builder
            .with_distributed_user_codec_arc(self.codec.clone())
            .with_distributed_channel_resolver(self.channels.clone());
        if let Some(config) = builder.config() {
            config.options_mut().execution.target_partitions = self.threads;
            self.resources.limit(config, self.threads);
        }
        let mut state = builder.build();
        let (scheduler, codec) = (self.scheduler.clone(), self.codec.clone());
        let stacks = StackNames::new(move || {
            let query = query.context("the task belongs to no query")?;
            let bytes = scheduler.ask(TRACES, messages::encode(&query)?)?;
            Ok(Arc::new(codec.decode_traces(&bytes)?))
        });
        bounded::register(&mut state, self.resources.memory())?;
        functions::register(&mut state, &Arc::new(stacks))?;
        Ok(state)
    }
}

/// The scheduler, as an executor sees it.
#[derive(Clone)]
struct Scheduler {
    access: Access,
    url: String,
    address: String,
}

impl Scheduler {
    fn new(access: Access, address: &str) -> Scheduler {
        let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
        let url = access.url(host, port.parse().unwrap_or(0));
        Scheduler { access, url, address: address.to_owned() }
    }

    /// Joins the scheduler, and joins it again whenever the connection is lost.
    ///
    /// # Errors
    ///
    /// Returns when the scheduler refuses.
    async fn stay(&self, url: String) -> Result<()> {
        let joining = messages::encode(&Joining { version: VERSION.to_owned(), url })?;
        let mut is_told = false;
        loop {
            let error = match self.join(&joining).await {
                Ok(()) => {
                    is_told = false;
                    anyhow!("the connection was lost")
                }
                Err(error) => error,
            };
            if let Some(status) = error.downcast_ref::<Status>() {
                match status.code() {
                    Code::Unauthenticated => {
                        bail!("the scheduler at {} does not accept the token", self.address)
                    }
                    Code::Aborted => bail!("{}", status.message()),
                    _ => {}
                }
            }
            if error.is::<etw_app::UsageError>() {
                return Err(error);
            }
            if !is_told {
                print(&format!(
                    "the scheduler at {} cannot be reached: {error:#}; trying again",
                    self.address
                ));
                is_told = true;
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Joins the scheduler, and returns when the connection ends.
    async fn join(&self, joining: &[u8]) -> Result<()> {
        let channel = self.access.connect(&self.url).await?;
        let mut client = FlightServiceClient::new(channel);
        let action = Action { r#type: JOIN.to_owned(), body: joining.to_vec().into() };
        let mut stay = client.do_action(action).await?.into_inner();
        stay.message().await?;
        print(&format!("joined the scheduler at {}", self.address));
        // It says nothing more; an error is the end of the connection.
        while let Ok(Some(_)) = stay.message().await {}
        Ok(())
    }

    /// Asks the scheduler, on a thread that may block.
    fn ask(&self, action: &str, body: Vec<u8>) -> Result<Vec<u8>> {
        let ask = async {
            let mut client = FlightServiceClient::new(self.access.connect(&self.url).await?)
                .max_decoding_message_size(64 << 20);
            let action = Action { r#type: action.to_owned(), body: body.into() };
            let answer = client.do_action(action).await?.into_inner().message().await?;
            anyhow::Ok(answer.context("no answer")?.body.to_vec())
        };
        // On a thread with a runtime of its own, as all threads of this one may wait for the answer.
        let answered = std::thread::scope(|scope| {
            let run = || tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(ask);
            scope.spawn(run).join().unwrap_or_else(|_| Err(anyhow!("a thread failed")))
        });
        answered.with_context(|| format!("the scheduler at {}", self.address))
    }

    fn damage(&self, path: &Path, count: u64) -> Result<()> {
        self.ask(DAMAGE, messages::encode(&Damage { path: path.to_owned(), count })?)?;
        Ok(())
    }
}

/// Connections with executors, which are kept as long as they work.
#[derive(Clone)]
pub(super) struct Channels {
    access: Access,
    open: Arc<Mutex<HashMap<Url, BoxCloneSyncChannel>>>,
}

impl Channels {
    pub(super) fn new(access: Access) -> Channels {
        Channels { access, open: Arc::default() }
    }

    fn open(&self) -> std::sync::MutexGuard<'_, HashMap<Url, BoxCloneSyncChannel>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ChannelResolver for Channels {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>, DataFusionError> {
        let known = self.open().get(url).cloned();
        let channel = match known {
            Some(channel) => channel,
            None => {
                let connected = self.access.connect(url.as_str()).await;
                let channel = connected
                    .with_context(|| format!("the executor {url} cannot be reached"))
                    .map_err(error::of_trace)?;
                self.open().insert(url.clone(), channel.clone());
                channel
            }
        };
        Ok(create_worker_client(channel))
    }
}
