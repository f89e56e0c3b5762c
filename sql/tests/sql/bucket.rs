//! A cluster that reads traces from an S3 server of a package (`moto`), which `need_peers` installs.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::cluster::{Cluster, QUERIES, TRACES, queries, rows};
use crate::remote::index;
use crate::{Fixture, LIMIT, machine, text_of, wait};

/// The server, which is killed at the end of a test.
struct Moto {
    child: Child,
    address: String,
}

impl Moto {
    /// Starts the server; `None` if it is not installed.
    fn start() -> Option<Moto> {
        let python = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("peers/venv/bin/python");
        let has_moto =
            Command::new(&python).args(["-c", "import moto.server"]).stderr(Stdio::null()).status();
        if !has_moto.is_ok_and(|status| status.success()) {
            etw_testkit::skip!("there is no package `moto` (scripts/install.sh, need_peers)");
            return None;
        }
        // A free port.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = Command::new(&python);
        command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &address.port().to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let moto = Moto { child: command.spawn().unwrap(), address: address.to_string() };
        let start = Instant::now();
        while TcpStream::connect(&moto.address).is_err() {
            assert!(start.elapsed() < LIMIT, "the S3 server does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(moto)
    }

    fn put(&self, path: &str, body: &[u8]) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let head = format!(
            "PUT /{path} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(" 200 "), "{path}: {answer}");
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_cluster_reads_from_a_bucket() {
    let Some(moto) = Moto::start() else { return };
    let fixture = Fixture::empty();
    moto.put("traces", b"");
    for number in 0..TRACES {
        let name = format!("t{number:02}.etl");
        let path = fixture.path(&name);
        machine::write(&path, number, 40);
        moto.put(&format!("traces/day/{name}"), &std::fs::read(&path).unwrap());
        // Some have an index.
        if number % 3 > 0 {
            index(&path);
            let index = std::fs::read(fixture.path(&format!("{name}.etwindex"))).unwrap();
            moto.put(&format!("traces/day/{name}.etwindex"), &index);
        }
    }
    let endpoint = format!("http://{}", moto.address);
    let scratch = fixture.path("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let options = ["--temp-dir", scratch.to_str().unwrap(), "--disk", "64"];
    let keys = ("AWS_SECRET_ACCESS_KEY", "the-secret");
    let variables = [("AWS_ENDPOINT_URL", endpoint.as_str()), ("AWS_ACCESS_KEY_ID", "the-id"), keys];
    let mut cluster = Cluster::start_with(&fixture, 3, &options, &variables);
    let queries = queries();
    let script: String = queries.iter().map(|(query, _)| query.as_str()).collect();
    std::fs::write(fixture.path("queries.sql"), script).unwrap();
    let words = |traces: &'static str| [traces, "-f", "queries.sql", "--format", "json"];
    let alone = text_of(&fixture.run(&words("t*.etl")));
    // Only the names of the traces differ from the answers for local files.
    let together = cluster.answer(&words("s3://traces/day/t*.etl")).replace("s3://traces/day/", "");
    let (alone, together): (Vec<&str>, Vec<&str>) = (alone.lines().collect(), together.lines().collect());
    assert_eq!((alone.len(), together.len()), (QUERIES, QUERIES));
    for ((one, other), (query, is_ordered)) in alone.iter().zip(&together).zip(&queries) {
        assert_eq!(rows(one, *is_ordered), rows(other, *is_ordered), "{query}");
    }
    // One process gives the same from the bucket.
    let query = "select trace, count(*) as n, sum(size) as s from events group by trace order by trace";
    let asked = ["s3://traces/day/", query, "--format", "csv"];
    let mut single = fixture.program(&asked);
    let expected = text_of(&wait(single.envs(variables).spawn().unwrap()));
    assert_eq!(expected.lines().count(), TRACES as usize + 1);
    assert_eq!(cluster.answer(&asked), expected);
    // Executors that are killed in the middle of a query.
    cluster.check_kills(&asked, &[50, 200, 500, 900]);
}
