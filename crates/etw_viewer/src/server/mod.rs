//! The server: one token or password, one page; on the loopback address unless something else is wanted.

mod answer;
mod connections;
mod guard;
mod page;
mod reports;
mod routes;
mod tls;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, Result, bail};
use axum::Router;
use etw_app::index::IndexOptions;
use etw_app::stack_tags;
use etw_app::symbols::SymbolOptions;
use openetw::analysis::StackTags;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

use crate::live::Live;
use crate::model::{Loader, Model};
use crate::presets::Library;
use crate::session::SessionPaths;
use crate::stacks::TracedStacks;
use crate::symbols::Symbols;
use crate::tables::{Comparisons, Views};
use crate::timeline::Tiles;

use connections::{Peer, PlainListener};
pub use tls::TlsFiles;
use tls::TlsListener;

/// Least number of characters of a password.
const MIN_PASSWORD: usize = 12;

/// Number of SQL statements that run at once.
const MAX_QUERIES: usize = 2;

/// What to show, and where.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Traces; those of several machines share the tables.
    pub files: Vec<PathBuf>,
    /// Traces to compare them with, which are the state before.
    pub base: Vec<PathBuf>,
    /// Files of regions of interest, for the table `regions_of_interest`.
    pub regions: Vec<PathBuf>,
    /// Files of stack tags, by which stacks can be shown.
    pub stack_tags: Vec<PathBuf>,
    /// Port; 0 for a random free one.
    pub port: u16,
    /// What the page shows at first: the part of a URL of the page after `#`.
    pub page_state: String,
    /// Address to listen on; the loopback address if missing. Others need a password.
    pub listen: Option<IpAddr>,
    /// The certificate for encryption; requests are not encrypted without it.
    pub tls: Option<TlsFiles>,
    /// The password that lets browsers in, besides the URL.
    pub password: Option<String>,
    /// Names of this machine in URLs, such as that of a server in front of this one that encrypts.
    pub host_names: Vec<String>,
    /// Where symbols are looked for.
    pub symbols: SymbolOptions,
    /// Whether and where the tables are kept.
    pub index: IndexOptions,
    /// Whether the page may start and stop sessions; traces are then not needed.
    pub is_live: bool,
    /// Where presets are saved; see [`presets_directory`](crate::presets_directory).
    pub presets: Option<PathBuf>,
    /// The program `etw-sql`, which answers statements in SQL; by default the one beside this program.
    pub sql_program: Option<PathBuf>,
    /// Files of presets and profiles of Windows Performance Analyzer to offer.
    pub profiles: Vec<PathBuf>,
}

/// A running server.
///
/// Dropping it stops it.
#[derive(Debug)]
pub struct Viewer {
    address: SocketAddr,
    state: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) loader: Arc<Loader>,
    /// The traces to compare with.
    pub(crate) base: Option<Base>,
    pub(crate) symbols: Arc<Symbols>,
    /// The live session; `None` if the page may not start one.
    pub(crate) live: Option<Live>,
    pub(crate) library: Library,
    /// The stack tags of all files of these.
    pub(crate) stack_tags: StackTags,
    /// The opened files, as they were named.
    pub(crate) paths: SessionPaths,
    /// The program that answers statements, if it was named.
    pub(crate) sql_program: Option<PathBuf>,
    page_state: String,
    /// What was computed of the tables.
    shown: Mutex<Arc<Shown>>,
    /// Name of the cookie; cookies of one host are shared by all its ports.
    pub(crate) cookie_name: String,
    /// Value of the cookie of a page that was let in.
    pub(crate) cookie: String,
    /// Whether only this machine can reach the server.
    pub(crate) is_loopback: bool,
    /// Whether requests are encrypted.
    pub(crate) is_encrypted: bool,
    pub(crate) password: Option<String>,
    pub(crate) host_names: Vec<String>,
    /// Turns of statements, of which few run at once.
    pub(crate) queries: tokio::sync::Semaphore,
    /// The last report; held while one is made.
    pub(crate) reports: tokio::sync::Mutex<Option<reports::Report>>,
    /// Held while a password is checked.
    pub(crate) attempts: tokio::sync::Mutex<()>,
    /// The token of the next URL. Each lets one page in.
    pub(crate) token: Mutex<Option<String>>,
}

/// The traces to compare with.
#[derive(Debug)]
pub(crate) struct Base {
    pub(crate) loader: Arc<Loader>,
    pub(crate) tiles: Tiles,
}

/// What was computed of one generation of the tables.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    generation: u32,
    /// Part of the addresses of tiles: those of another start of the program may have the same port.
    pub(crate) run: String,
    pub(crate) views: Views,
    pub(crate) comparisons: Comparisons,
    pub(crate) tiles: Tiles,
    pub(crate) traced_stacks: TracedStacks,
}

impl Shared {
    /// Returns what was computed of these tables. What was computed of earlier ones is dropped.
    pub(crate) fn shown(&self, model: &Model) -> Arc<Shown> {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.generation != model.generation {
            let start = shown.run.split('-').next().unwrap_or_default();
            let run = format!("{start}-{}", model.generation);
            *shown = Arc::new(Shown { generation: model.generation, run, ..Shown::default() });
        }
        Arc::clone(&shown)
    }
}

impl Viewer {
    /// Opens traces and starts to serve them.
    ///
    /// # Errors
    ///
    /// Fails if no trace can be opened, or if the port is in use.
    pub fn start(options: Options) -> Result<Viewer> {
        let wanted = options.listen.unwrap_or(Ipv4Addr::LOCALHOST.into());
        if let Some(password) = &options.password
            && password.chars().count() < MIN_PASSWORD
        {
            bail!("a password has at least {MIN_PASSWORD} characters");
        }
        if options.password.is_none() && (!wanted.is_loopback() || !options.host_names.is_empty()) {
            bail!("listening for other machines needs a password");
        }
        let acceptor = options.tls.as_ref().map(tls::acceptor).transpose()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(16)
            .thread_name("viewer")
            .enable_all()
            .build()?;
        let is_loopback = wanted.is_loopback();
        let wanted = SocketAddr::from((wanted, options.port));
        let listener = runtime.block_on(TcpListener::bind(wanted));
        let listener = listener.with_context(|| format!("cannot listen on {wanted}"))?;
        let address = listener.local_addr()?;
        // Traces are opened last: their tables are made in the background from then on.
        let library = Library::new(options.presets.clone(), &options.profiles)?;
        let stack_tags = stack_tags::read(&options.stack_tags)?;
        let regions = Loader::regions(&options.regions)?;
        let regions = regions.as_ref();
        let loader = match options.files.is_empty() && options.is_live {
            true => Loader::of_nothing(&options.symbols),
            false => Loader::start(&options.files, &options.symbols, &options.index, regions)?,
        };
        let base = match options.base.is_empty() {
            true => None,
            false => {
                let loader = Loader::start(&options.base, &options.symbols, &options.index, regions)?;
                Some(Base { loader, tiles: Tiles::default() })
            }
        };
        let run = random()?[..16].to_owned();
        let state = Arc::new(Shared {
            symbols: Arc::new(Symbols::new(Arc::clone(&loader))),
            loader,
            base,
            live: options.is_live.then(Live::default),
            library,
            stack_tags,
            paths: SessionPaths {
                files: options.files,
                compare: options.base,
                regions: options.regions,
                stack_tags: options.stack_tags,
            },
            sql_program: options.sql_program,
            page_state: options.page_state,
            shown: Mutex::new(Arc::new(Shown { run, ..Shown::default() })),
            cookie_name: format!("etw-view-{}", address.port()),
            cookie: random()?,
            is_loopback,
            is_encrypted: acceptor.is_some(),
            password: options.password,
            host_names: options.host_names,
            queries: tokio::sync::Semaphore::new(MAX_QUERIES),
            reports: tokio::sync::Mutex::default(),
            attempts: tokio::sync::Mutex::default(),
            token: Mutex::new(Some(random()?)),
        });
        let app = routes::router(Arc::clone(&state));
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("server".to_owned()).spawn(move || {
            runtime.block_on(async move {
                tokio::select! {
                    () = serve(listener, address, acceptor, app) => {}
                    // Dropping the sender counts too.
                    _ = stopped => {}
                }
            });
            runtime.shutdown_background();
        })?;
        Ok(Viewer { address, state, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the address at which the server listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL that lets one browser in; after it was used, a new one.
    #[must_use]
    pub fn url(&self) -> String {
        let mut token = self.state.token.lock().unwrap_or_else(PoisonError::into_inner);
        if token.is_none() {
            *token = random().ok();
        }
        let mut shown = self.address;
        if shown.ip().is_unspecified() {
            shown.set_ip(if shown.is_ipv4() {
                Ipv4Addr::LOCALHOST.into()
            } else {
                Ipv6Addr::LOCALHOST.into()
            });
        }
        let hash = if self.state.page_state.is_empty() { "" } else { "#" };
        let (token, state) = (token.as_deref().unwrap_or_default(), &self.state.page_state);
        let origin = match (self.state.is_encrypted, self.state.host_names.first()) {
            // A certificate is that of a name.
            (true, Some(name)) => format!("https://{name}:{}", shown.port()),
            (true, None) => format!("https://{shown}"),
            (false, _) => format!("http://{shown}"),
        };
        format!("{origin}/enter?token={token}{hash}{state}")
    }

    /// Waits until the server ends, which it does only with the process.
    pub fn wait(mut self) {
        if let Some(thread) = self.thread.take() {
            // A panic of the server was printed.
            let _ended = thread.join();
        }
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

/// Serves until the process ends: accepting connections goes on after errors.
async fn serve(listener: TcpListener, address: SocketAddr, acceptor: Option<TlsAcceptor>, app: Router) {
    let listener = PlainListener::new(listener);
    let app = app.into_make_service_with_connect_info::<Peer>();
    let _ended = match acceptor {
        Some(acceptor) => axum::serve(TlsListener::new(listener, address, acceptor), app).await,
        None => axum::serve(listener, app).await,
    };
}

/// Returns 128 random bits as text.
fn random() -> Result<String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no random numbers: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
