//! Who may talk to whom: the token, TLS, and the addresses to listen on.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use datafusion_distributed::grpc::BoxCloneSyncChannel;
use etw_app::UsageError;
use tokio::net::TcpListener;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderValue, Request, header::AUTHORIZATION};
use tonic::service::{Interceptor, InterceptorLayer};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity, Server, ServerTlsConfig};
use tower::layer::util::{Identity as NoLayer, Stack};
use tower::util::MapRequest;

/// Environment variable with the token.
const VARIABLE: &str = "OPENETW_CLUSTER_TOKEN";
/// Fewest characters of a token.
const MIN_TOKEN: usize = 16;
const CONNECT: Duration = Duration::from_secs(5);
/// Time between looks whether the other side of a connection is there.
const ALIVE: Duration = Duration::from_secs(20);
/// A connection is closed if the other side does not respond for this long; a process that is busy responds late.
const GONE: Duration = Duration::from_secs(120);

/// The token and the TLS files of a process in a cluster.
#[derive(Debug, Clone, Args)]
pub(crate) struct Credentials {
    /// File with the token of the cluster, at least 16 characters [default: that in OPENETW_CLUSTER_TOKEN].
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Certificate chain of this process (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_key", requires = "tls_ca")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Certificates of the authorities that the other processes' certificates are checked with (PEM); turns TLS on.
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
}

/// Credentials that were read.
#[derive(Clone)]
pub(crate) struct Access {
    bearer: HeaderValue,
    identity: Option<Identity>,
    authority: Option<Certificate>,
}

impl Credentials {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// Fails if there is no token, or if it is too short.
    pub(crate) fn read(&self) -> Result<Access> {
        let (token, place) = match &self.token_file {
            Some(path) => {
                let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
                (text, path.display().to_string())
            }
            None => match std::env::var(VARIABLE) {
                Ok(text) => (text, VARIABLE.to_owned()),
                Err(_) => {
                    let text =
                        format!("a token is needed; name its file with --token-file, or set {VARIABLE}");
                    return Err(UsageError(text).into());
                }
            },
        };
        let token = token.trim();
        if token.len() < MIN_TOKEN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            bail!("{place}: a token has at least {MIN_TOKEN} letters, digits or signs, without blanks");
        }
        let mut bearer = HeaderValue::from_str(&format!("Bearer {token}")).context("the token")?;
        bearer.set_sensitive(true);
        let read = |path: &Path| std::fs::read(path).with_context(|| path.display().to_string());
        let identity = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => Some(Identity::from_pem(read(certificate)?, read(key)?)),
            _ => None,
        };
        let authority = self.tls_ca.as_deref().map(read).transpose()?.map(Certificate::from_pem);
        Ok(Access { bearer, identity, authority })
    }
}

impl Access {
    /// Listens on an address.
    ///
    /// # Errors
    ///
    /// Fails if the address is beyond this machine and there is no TLS, or if it is taken.
    pub(crate) async fn listen(&self, address: &str) -> Result<(TcpIncoming, SocketAddr)> {
        let found: Vec<SocketAddr> =
            tokio::net::lookup_host(address).await.with_context(|| address.to_owned())?.collect();
        if self.identity.is_none() && !found.iter().all(|address| address.ip().is_loopback()) {
            let text = format!(
                "{address} can be reached from other machines, which needs TLS: --tls-cert, --tls-key and --tls-ca"
            );
            return Err(UsageError(text).into());
        }
        let listener =
            TcpListener::bind(&*found).await.with_context(|| format!("cannot listen on {address}"))?;
        let bound = listener.local_addr()?;
        Ok((TcpIncoming::from(listener).with_nodelay(Some(true)), bound))
    }

    /// Returns a server that accepts only requests with the token.
    ///
    /// # Errors
    ///
    /// Fails if the TLS files are wrong.
    pub(crate) fn server(&self) -> Result<Server<Stack<InterceptorLayer<Check>, NoLayer>>> {
        let mut server =
            Server::builder().http2_keepalive_interval(Some(ALIVE)).http2_keepalive_timeout(Some(GONE));
        if let Some(identity) = &self.identity {
            let tls = ServerTlsConfig::new().identity(identity.clone());
            server = server.tls_config(tls).context("--tls-cert, --tls-key")?;
        }
        Ok(server.layer(InterceptorLayer::new(Check { bearer: self.bearer.clone() })))
    }

    /// Returns the address of a process as a URL.
    pub(crate) fn url(&self, host: &str, port: u16) -> String {
        let scheme = if self.authority.is_some() { "https" } else { "http" };
        // Addresses of IPv6 are in brackets.
        match host.contains(':') && !host.starts_with('[') {
            true => format!("{scheme}://[{host}]:{port}"),
            false => format!("{scheme}://{host}:{port}"),
        }
    }

    /// Connects with a process, whose requests then have the token.
    ///
    /// # Errors
    ///
    /// Fails if the process is not there, or if the token would go to another machine without TLS.
    pub(crate) async fn connect(&self, url: &str) -> Result<BoxCloneSyncChannel> {
        let mut endpoint = Endpoint::from_shared(url.to_owned())?
            .connect_timeout(CONNECT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(ALIVE)
            .keep_alive_timeout(GONE)
            .keep_alive_while_idle(true);
        match &self.authority {
            Some(authority) => {
                endpoint = endpoint.tls_config(ClientTlsConfig::new().ca_certificate(authority.clone()))?;
            }
            None => {
                let authority = endpoint.uri().authority().context("an address has a host")?;
                let address = format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(80));
                let mut found = tokio::net::lookup_host(&address).await.with_context(|| address.clone())?;
                if !found.all(|address| address.ip().is_loopback()) {
                    let text = format!("the token is not sent to {address} without TLS; name --tls-ca");
                    return Err(UsageError(text).into());
                }
            }
        }
        let channel = endpoint.connect().await.map_err(|error| anyhow!(reason(&error)))?;
        Ok(self.with_token(channel))
    }

    fn with_token(&self, channel: Channel) -> BoxCloneSyncChannel {
        let bearer = self.bearer.clone();
        let add = move |mut request: Request<Body>| {
            request.headers_mut().insert(AUTHORIZATION, bearer.clone());
            request
        };
        BoxCloneSyncChannel::new(MapRequest::new(channel, add))
    }
}

/// Returns the innermost reason of an error, which says more than the ones around it.
fn reason(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// Lets requests with the token through.
#[derive(Clone)]
pub(crate) struct Check {
    bearer: HeaderValue,
}

impl Interceptor for Check {
    fn call(&mut self, request: tonic::Request<()>) -> Result<tonic::Request<()>, Status> {
        let given = request.metadata().get(AUTHORIZATION.as_str()).map(|value| value.as_encoded_bytes());
        match given.is_some_and(|given| is_same(given, self.bearer.as_bytes())) {
            true => Ok(request),
            false => Err(Status::unauthenticated("wrong token")),
        }
    }
}

/// Compares in a time that does not depend on where the texts differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |sum, (one, other)| sum | (one ^ other)) == 0
}

/// Waits until the process is to end: Ctrl-C or SIGTERM.
pub(crate) async fn ended() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminated) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminated.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    // Without signals, the process ends when it is killed.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
