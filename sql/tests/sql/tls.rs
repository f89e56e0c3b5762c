//! TLS between client, scheduler and executors, and to servers of traces, with certificates that are made here.

use std::process::Command;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::cluster::{Cluster, Running, command};
use crate::remote::index;
use crate::server::{Habit, Server, sent_once};
use crate::{EVENTS, Fixture, KIND, text, text_of, time, wait};

/// Writes `NAME-ca.pem`, and `NAME-cert.pem` with `NAME-key.pem` for the names.
fn certify(fixture: &Fixture, name: &str, names: &[&str]) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
    for (part, text) in [("ca", authority.pem()), ("cert", certificate.pem()), ("key", key.serialize_pem())] {
        std::fs::write(fixture.path(&format!("{name}-{part}.pem")), text).unwrap();
    }
}

const TLS: [&str; 6] =
    ["--tls-cert", "good-cert.pem", "--tls-key", "good-key.pem", "--tls-ca", "good-ca.pem"];

fn refused(mut asked: Command, wanted: &str) {
    let output = wait(asked.spawn().unwrap());
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains(wanted) && error.lines().count() == 1, "{error}");
}

#[test]
fn processes_of_a_cluster_talk_by_tls() {
    let fixture = Fixture::new();
    certify(&fixture, "good", &["127.0.0.1", "localhost"]);
    certify(&fixture, "other", &["127.0.0.1"]);
    let cluster = Cluster::start_with(&fixture, 2, &TLS, &[]);
    let query = format!("select count(*) as n from {KIND}");
    let words = ["trace.etl", query.as_str(), "--format", "csv"];
    let with_ca = |ca: &str| cluster.ask(&[&["--tls-ca", ca], &words[..]].concat());
    let answer = wait(with_ca("good-ca.pem").spawn().unwrap());
    assert_eq!((text(&answer.stdout), text(&answer.stderr)), (format!("n\n{EVENTS}\n"), String::new()));
    // The executors take part, who also talk to each other.
    let plan = cluster.answer(&[
        "trace.etl",
        "explain analyze select provider, count(*) from events group by provider",
        "--tls-ca",
        "good-ca.pem",
    ]);
    assert!(plan.contains("Network") && plan.contains("EventScan"), "{plan}");
    // Clients that do not know the authority, or know another one.
    refused(cluster.ask(&words), "the scheduler at 127.0.0.1:");
    refused(with_ca("other-ca.pem"), "cannot be reached");
    refused(with_ca("good-key.pem"), "cannot be reached");
    // An executor without TLS does not join.
    let stranger = Running::start(command(&fixture, &["executor", "--scheduler", &cluster.address]));
    stranger.said("trying again");
    // A process with TLS may listen beyond this machine.
    let scheduler =
        Running::start(command(&fixture, &[&["scheduler", "--listen", "0.0.0.0:0"], &TLS[..]].concat()));
    scheduler.said("listening on 0.0.0.0:");
    // Files that are no certificates.
    std::fs::write(fixture.path("good-key.pem"), "-----BEGIN NONSENSE").unwrap();
    refused(
        command(&fixture, &[&["scheduler", "--listen", "127.0.0.1:0"], &TLS[..]].concat()),
        "--tls-cert, --tls-key",
    );
}

#[test]
fn certificates_have_the_names_of_processes() {
    let fixture = Fixture::new();
    certify(&fixture, "good", &["elsewhere.example"]);
    let scheduler =
        Running::start(command(&fixture, &[&["scheduler", "--listen", "127.0.0.1:0"], &TLS[..]].concat()));
    let address = scheduler.address();
    let words = ["--cluster", &address, "--tls-ca", "good-ca.pem", "trace.etl", "select 1"];
    let mut client = fixture.program(&words);
    client.env("OPENETW_CLUSTER_TOKEN", "only-for-this-test-0123456789");
    refused(client, "cannot be reached");
    let executor =
        Running::start(command(&fixture, &[&["executor", "--scheduler", &address], &TLS[..]].concat()));
    executor.said("cannot be reached");
    // An executor under a name that its certificate does not have gets no work.
    certify(&fixture, "good", &["127.0.0.1"]);
    let mut cluster = Cluster::start_with(&fixture, 0, &TLS, &[]);
    for _ in 0..2 {
        let words = ["executor", "--scheduler", &cluster.address, "--advertise", "localhost"];
        let executor = Running::start(command(&fixture, &[&words, &TLS[..]].concat()));
        executor.said("joined");
        cluster.executors.push(executor);
    }
    // Two traces are read by two executors.
    let query = "select count(*) from events";
    refused(
        cluster.ask(&["trace.etl", "trace.etl", query, "--tls-ca", "good-ca.pem"]),
        "the executor https://localhost:",
    );
}

#[test]
fn traces_are_read_by_https() {
    let fixture = Fixture::new();
    index(&fixture.path("trace.etl"));
    certify(&fixture, "good", &["127.0.0.1"]);
    certify(&fixture, "other", &["127.0.0.1"]);
    let chain = CertificateDer::pem_file_iter(fixture.path("good-cert.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(fixture.path("good-key.pem")).unwrap();
    let tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain.map(Result::unwrap).collect(), key)
        .unwrap();
    let server = Server::start_with(Habit::Good, Some(Arc::new(tls)));
    for name in ["trace.etl", "trace.etl.etwindex"] {
        server.put(name, std::fs::read(fixture.path(name)).unwrap());
    }
    let bytes = std::fs::metadata(fixture.path("trace.etl")).unwrap().len() as usize;
    let query = format!("select count(*) as n from events where time < '{}'", time(EVENTS / 10));
    let ask = |authority: &str| {
        let mut program = fixture.program(&[&server.url("trace.etl"), &query, "--format", "csv"]);
        program.env("SSL_CERT_FILE", fixture.path(authority));
        program
    };
    let output = wait(ask("good-ca.pem").spawn().unwrap());
    assert_eq!((text_of(&output), text(&output.stderr)), (format!("n\n{}\n", EVENTS / 10), String::new()));
    assert!(sent_once(&server.asked(), "trace.etl") < bytes / 2);
    // Servers whose authority is not known.
    refused(ask("other-ca.pem"), "trace.etl: ");
}
