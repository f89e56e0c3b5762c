//! The server: loopback only, one token, one page.

mod answer;
mod guard;
mod page;
mod routes;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use etw_app::index::IndexOptions;
use etw_app::symbols::SymbolOptions;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::live::Live;
use crate::model::{Loader, Model};
use crate::symbols::Symbols;
use crate::tables::Views;
use crate::timeline::Tiles;

/// What to show, and where.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Traces; those of several machines share the tables.
    pub files: Vec<PathBuf>,
    /// Port on the loopback address; 0 for a random free one.
    pub port: u16,
    /// Where symbols are looked for.
    pub symbols: SymbolOptions,
    /// Whether and where the tables are kept.
    pub index: IndexOptions,
    /// Whether the page may start and stop sessions; traces are then not needed.
    pub is_live: bool,
}

/// A running server.
///
/// It listens on 127.0.0.1 only. Dropping it stops it.
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
    pub(crate) symbols: Arc<Symbols>,
    /// The live session; `None` if the page may not start one.
    pub(crate) live: Option<Live>,
    /// What was computed of the tables.
    shown: Mutex<Arc<Shown>>,
    /// Name of the cookie; cookies of one host are shared by all its ports.
    pub(crate) cookie_name: String,
    /// Value of the cookie of a page that was let in.
    pub(crate) cookie: String,
    /// The token of the next URL. Each lets one page in.
    pub(crate) token: Mutex<Option<String>>,
}

/// What was computed of one generation of the tables.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    generation: u32,
    /// Part of the addresses of tiles: those of another start of the program may have the same port.
    pub(crate) run: String,
    pub(crate) views: Views,
    pub(crate) tiles: Tiles,
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
        let loader = match options.files.is_empty() && options.is_live {
            true => Loader::of_nothing(&options.symbols),
            false => Loader::start(&options.files, &options.symbols, &options.index)?,
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(16)
            .thread_name("viewer")
            .enable_all()
            .build()?;
        let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
        let listener = runtime.block_on(TcpListener::bind(wanted));
        let listener = listener.with_context(|| format!("cannot listen on {wanted}"))?;
        let address = listener.local_addr()?;
        let run = random()?[..16].to_owned();
        let state = Arc::new(Shared {
            symbols: Arc::new(Symbols::new(Arc::clone(&loader))),
            loader,
            live: options.is_live.then(Live::default),
            shown: Mutex::new(Arc::new(Shown { run, ..Shown::default() })),
            cookie_name: format!("etw-view-{}", address.port()),
            cookie: random()?,
            token: Mutex::new(Some(random()?)),
        });
        let app = routes::router(Arc::clone(&state));
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("server".to_owned()).spawn(move || {
            runtime.block_on(async move {
                let server = std::future::IntoFuture::into_future(axum::serve(listener, app));
                tokio::select! {
                    // Accepting connections goes on after errors.
                    _ = server => {}
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
        format!("http://{}/enter?token={}", self.address, token.as_deref().unwrap_or_default())
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

/// Returns 128 random bits as text.
fn random() -> Result<String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no random numbers: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
