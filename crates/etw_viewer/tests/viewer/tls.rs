//! Encryption: a client that verifies the certificate, files that do not fit, and requests without TLS.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use etw_testkit::browser::Browser;
use etw_viewer::{Options, TlsFiles, Viewer};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::small;

const PASSWORD: &str = "correct horse battery";

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/viewer/certificates").join(name)
}

fn options(folder: &Path) -> Options {
    Options {
        files: vec![small(folder)],
        listen: Some(Ipv4Addr::UNSPECIFIED.into()),
        tls: Some(TlsFiles { certificate: file("server.pem"), key: file("server.key") }),
        password: Some(PASSWORD.to_owned()),
        ..Options::default()
    }
}

fn local(viewer: &Viewer) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, viewer.address().port()).into()
}

/// Sends a request over TLS to a server whose certificate must be of a name, and returns the response; the error if the
/// connection fails.
fn ask(address: SocketAddr, name: &str, authority: &str, request: &str) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file(authority)).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut stream = StreamOwned::new(connection, stream);
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    // The server closes the connection without a last word of TLS.
    match stream.read_to_end(&mut answer) {
        Err(error) if answer.is_empty() => return Err(error),
        _ => {}
    }
    Ok(String::from_utf8(answer).unwrap())
}

fn get(path: &str, host: &str, more: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n")
}

#[test]
fn a_client_that_verifies_the_certificate_is_let_in() {
    let folder = tempfile::tempdir().unwrap();
    let viewer = Viewer::start(options(folder.path())).unwrap();
    let address = local(&viewer);
    let url = viewer.url();
    let (_, path) = url.split_once(&format!("https://{address}")).unwrap();
    let host = format!("localhost:{}", address.port());
    let entered = ask(address, "localhost", "authority.pem", &get(path, &host, "")).unwrap();
    assert!(entered.starts_with("HTTP/1.1 200"), "{entered}");
    let cookie = entered.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    assert!(cookie.contains("; Secure") && cookie.contains("; HttpOnly"), "{cookie}");
    let cookie = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
    let status = |origin: &str| {
        let more = format!("{cookie}{origin}");
        let answer = ask(address, "127.0.0.1", "authority.pem", &get("/api/status", &host, &more)).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(status(""), "200");
    assert_eq!(status(&format!("Origin: https://{host}\r\n")), "200");
    // The page is never one without encryption.
    assert_eq!(status(&format!("Origin: http://{host}\r\n")), "403");
    // A name that the certificate is not of, and an authority that the client does not know.
    let failed = ask(address, "viewer.example", "authority.pem", &get("/", &host, "")).unwrap_err();
    assert!(failed.to_string().contains("certificate"), "{failed}");
    let failed = ask(address, "localhost", "server.pem", &get("/", &host, "")).unwrap_err();
    assert!(failed.to_string().contains("certificate"), "{failed}");
}

#[test]
fn the_url_has_the_name_of_the_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { host_names: vec!["viewer.example".to_owned()], ..options(folder.path()) };
    let viewer = Viewer::start(options).unwrap();
    let expected = format!("https://viewer.example:{}/enter?token=", viewer.address().port());
    assert!(viewer.url().starts_with(&expected), "{}", viewer.url());
}

#[test]
fn files_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |certificate: PathBuf, key: PathBuf| {
        let tls = Some(TlsFiles { certificate, key });
        format!("{:#}", Viewer::start(Options { tls, ..options(folder.path()) }).unwrap_err())
    };
    let wrong = refused(file("server.pem"), file("other.key"));
    assert!(wrong.contains("other.key: the key is not that of") && wrong.contains("server.pem"), "{wrong}");
    let wrong = refused(file("server.key"), file("server.key"));
    assert!(wrong.contains("server.key: no certificate"), "{wrong}");
    let wrong = refused(file("server.pem"), file("server.pem"));
    assert!(wrong.contains("server.pem: no private key"), "{wrong}");
    for missing in
        [refused(file("none.pem"), file("server.key")), refused(file("server.pem"), file("none.key"))]
    {
        assert!(missing.contains("none."), "{missing}");
    }
    // Encryption does not replace the password.
    let open = Options { password: None, ..options(folder.path()) };
    assert!(format!("{:#}", Viewer::start(open).unwrap_err()).contains("needs a password"));
}

#[test]
fn requests_without_tls_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let viewer = Viewer::start(options(folder.path())).unwrap();
    let address = local(&viewer);
    let send = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        let _ended = stream.read_to_end(&mut answer);
        answer
    };
    // Connections that say nothing hold up nobody.
    let silent: Vec<TcpStream> = (0..10).map(|_| TcpStream::connect(address).unwrap()).collect();
    let start = Instant::now();
    let answer = String::from_utf8(send(get("/", &address.to_string(), "").as_bytes())).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("Open the https URL"), "{answer}");
    assert!(!answer.contains("small") && !answer.contains("set-cookie"), "{answer}");
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    // What begins as TLS but is not gets an alert of TLS (21), or nothing.
    let answer = send(&[22, 3, 1, 0, 5, 1, 2, 3, 4, 5]);
    assert!(answer.is_empty() || answer[0] == 21, "{answer:?}");
    drop(silent);
    let host = format!("localhost:{}", address.port());
    let page = ask(address, "localhost", "authority.pem", &get("/", &host, "")).unwrap();
    assert!(page.starts_with("HTTP/1.1 401") && page.contains("type=\"password\""), "{page}");
}

#[test]
fn a_browser_shows_the_page_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let viewer = Viewer::start(options(folder.path())).unwrap();
    let Some(mut browser) = Browser::start() else { return };
    // The browser does not know the authority of the tests.
    browser.accept_certificates();
    browser.open(&format!("https://{}/#table=%22events%22", local(&viewer)));
    let wait = |browser: &mut Browser, condition: &str| {
        let end = Instant::now() + Duration::from_secs(60);
        while browser.value(&format!("!!({condition})")) != true {
            assert!(Instant::now() < end, "{condition}: {}", browser.value("document.body.innerText"));
            std::thread::sleep(Duration::from_millis(30));
        }
    };
    wait(&mut browser, "document.activeElement?.type === 'password'");
    browser.type_text(PASSWORD);
    browser.press("Enter");
    wait(&mut browser, "document.querySelector('.virtual td')");
    assert_eq!(browser.value("location.protocol"), "https:");
}
