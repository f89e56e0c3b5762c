//! TLS: the server's certificate, and a listener whose connections are encrypted.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use axum::serve::Listener;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{Error, InconsistentKeys, ServerConfig, version};
use tokio_rustls::server::TlsStream;

use super::connections::{Connection, PlainListener};

/// Number of encrypted connections that may wait for being served.
const MAX_WAITING: usize = 64;
/// The first byte of a connection with TLS: a record of the handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;

/// The response to a request without TLS.
const PLAIN: &str = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n\
                     This port takes encrypted requests only. Open the https URL that etw view printed.\n";

/// The files of a server's certificate, in PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate, followed by those that signed it, except the root.
    pub certificate: PathBuf,
    /// Its private key: PKCS #8, PKCS #1 or SEC 1.
    pub key: PathBuf,
}

/// Reads the files of a certificate.
///
/// # Errors
///
/// Fails if a file cannot be read or has no certificate or key, or if the key is that of another certificate.
pub(super) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor> {
    let shown = |path: &Path| path.display().to_string();
    let certificate = shown(&files.certificate);
    let chain = CertificateDer::pem_file_iter(&files.certificate).with_context(|| certificate.clone())?;
    let chain: Vec<CertificateDer<'static>> =
        chain.collect::<Result<_, _>>().with_context(|| certificate.clone())?;
    if chain.is_empty() {
        bail!("{certificate}: no certificate in PEM");
    }
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .with_context(|| format!("{}: no private key in PEM", shown(&files.key)))?;
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_protocol_versions(&[&version::TLS13])?.with_no_client_auth();
    let mut config = builder.with_single_cert(chain, key).map_err(|error| match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            anyhow!("{}: the key is not that of {certificate}", shown(&files.key))
        }
        error => anyhow!("{certificate}: {error}"),
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Accepts encrypted connections. A slow one does not hold up the others.
pub(super) struct TlsListener {
    accepted: mpsc::Receiver<(TlsStream<Connection>, SocketAddr)>,
    address: SocketAddr,
}

impl TlsListener {
    /// Starts to accept connections, on a task of the current runtime.
    pub(super) fn new(listener: PlainListener, address: SocketAddr, acceptor: TlsAcceptor) -> TlsListener {
        let (sender, accepted) = mpsc::channel(MAX_WAITING);
        tokio::spawn(accept(listener, acceptor, sender));
        TlsListener { accepted, address }
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<Connection>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.accepted.recv().await {
            Some(accepted) => accepted,
            // The task ends only with the runtime.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        Ok(self.address)
    }
}

async fn accept(
    mut listener: PlainListener,
    acceptor: TlsAcceptor,
    sender: mpsc::Sender<(TlsStream<Connection>, SocketAddr)>,
) {
    loop {
        let (stream, address) = listener.accept().await;
        let (acceptor, sender) = (acceptor.clone(), sender.clone());
        tokio::spawn(async move {
            let end = stream.end();
            tokio::select! {
                encrypted = encrypted(stream, &acceptor) => if let Ok(stream) = encrypted {
                    let _sent = sender.send((stream, address)).await;
                },
                // What did not become an encrypted connection in time is closed.
                () = end => {}
            }
        });
    }
}

/// Performs the TLS handshake of a connection. Answers a request without TLS with an error that says so.
async fn encrypted(mut stream: Connection, acceptor: &TlsAcceptor) -> std::io::Result<TlsStream<Connection>> {
    let mut first = [0];
    if stream.stream.peek(&mut first).await? > 0 && first[0] != HANDSHAKE {
        // Closing a connection with unread bytes could discard the response.
        let mut request = [0; 8192];
        let _len = stream.read(&mut request).await?;
        stream.write_all(PLAIN.as_bytes()).await?;
        stream.shutdown().await?;
        return Err(ErrorKind::InvalidData.into());
    }
    acceptor.accept(stream).await
}
