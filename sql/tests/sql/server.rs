//! A server of objects on this machine, as simple stores are, which keeps what it was asked for.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// What the server does otherwise than a good one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Habit {
    Good,
    /// Gives no tags.
    NoTags,
    /// Answers with the whole object whatever is asked.
    NoRanges,
    /// Does not compare tags.
    NoConditions,
    /// Ends each answer after its first half.
    Short,
    /// Fails, and tells everything that it knows.
    Talkative,
}

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    /// The lines of the request.
    pub(crate) head: String,
    /// The bytes of the object that the answer had.
    pub(crate) range: Range<usize>,
}

#[derive(Default)]
struct Shared {
    /// By path: the bytes, and the number of their state.
    objects: BTreeMap<String, (Arc<Vec<u8>>, u32)>,
    asked: Vec<Asked>,
    /// After so many requests, an object gets other bytes.
    change: Option<(usize, String, Vec<u8>)>,
}

pub(crate) struct Server {
    pub(crate) address: String,
    scheme: &'static str,
    shared: Arc<Mutex<Shared>>,
}

impl Server {
    /// Starts a server, which ends with the test.
    pub(crate) fn start(habit: Habit) -> Server {
        Server::start_with(habit, None)
    }

    /// Starts a server that talks TLS if it has a configuration for that.
    pub(crate) fn start_with(habit: Habit, tls: Option<Arc<ServerConfig>>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Mutex::new(Shared::default()));
        let scheme = if tls.is_some() { "https" } else { "http" };
        let server = Server { address, scheme, shared: shared.clone() };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (shared, tls) = (shared.clone(), tls.clone());
                std::thread::spawn(move || {
                    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                    // Clients may close the connection early.
                    let _ = match tls {
                        Some(tls) => serve(
                            StreamOwned::new(ServerConnection::new(tls).unwrap(), stream),
                            &shared,
                            habit,
                        ),
                        None => serve(stream, &shared, habit),
                    };
                });
            }
        });
        server
    }

    /// Adds an object, or gives it other bytes. The path begins with the bucket.
    pub(crate) fn put(&self, path: &str, bytes: Vec<u8>) {
        let mut shared = self.shared.lock().unwrap();
        let state = shared.objects.get(path).map_or(0, |(_, state)| state + 1);
        shared.objects.insert(path.to_owned(), (Arc::new(bytes), state));
    }

    /// Gives an object other bytes after so many more requests.
    pub(crate) fn change_after(&self, requests: usize, path: &str, bytes: Vec<u8>) {
        let mut shared = self.shared.lock().unwrap();
        shared.change = Some((shared.asked.len() + requests, path.to_owned(), bytes));
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}://{}/{path}", self.scheme, self.address)
    }

    /// Returns the requests since the last call.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.shared.lock().unwrap().asked)
    }
}

/// Returns the number of bytes that were fetched, and checks that no byte was fetched twice.
pub(crate) fn sent_once(asked: &[Asked], path: &str) -> usize {
    let mut ranges: Vec<&Range<usize>> =
        asked.iter().filter(|asked| asked.path == path).map(|asked| &asked.range).collect();
    ranges.sort_by_key(|range| range.start);
    for pair in ranges.windows(2) {
        assert!(pair[0].end <= pair[1].start, "{path}: {pair:?} were fetched twice");
    }
    ranges.iter().map(|range| range.len()).sum()
}

fn serve(stream: impl Read + Write, shared: &Mutex<Shared>, habit: Habit) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    // Connections are kept.
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line)? == 0 {
                return Ok(());
            }
            match line.trim_end() {
                "" => break,
                line => head.push(line.to_owned()),
            }
        }
        answer(stream.get_mut(), &head, shared, habit)?;
    }
}

fn answer(
    stream: &mut impl Write,
    head: &[String],
    shared: &Mutex<Shared>,
    habit: Habit,
) -> std::io::Result<()> {
    let target = head[0].split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let header = |name: &str| {
        let line = head.iter().find(|line| line.to_lowercase().starts_with(&format!("{name}: ")));
        line.map(|line| line[name.len() + 2..].to_owned())
    };
    let mut shared = shared.lock().unwrap();
    let asked = Asked { path: path.to_owned(), head: head.join("\n"), range: 0..0 };
    shared.asked.push(asked);
    let number = shared.asked.len();
    if let Some((_, changed, bytes)) = shared.change.take_if(|(after, ..)| number > *after) {
        let state = shared.objects.get(&changed).map_or(0, |(_, state)| state + 1);
        shared.objects.insert(changed, (Arc::new(bytes), state));
    }
    let mut refuse = |status: &str, body: &str| {
        let len = body.len();
        stream.write_all(format!("HTTP/1.1 {status}\r\nContent-Length: {len}\r\n\r\n{body}").as_bytes())?;
        stream.flush()
    };
    if habit == Habit::Talkative {
        return refuse("400 Bad Request", "<Error>the-secret\nis not the key of the-id</Error>");
    }
    if query.contains("list-type=2") {
        let prefix = query.split('&').find_map(|part| part.strip_prefix("prefix="));
        let prefix = format!("{path}/{}", prefix.unwrap_or_default().replace("%2F", "/"));
        let in_directory = |key: &&String| key.strip_prefix(&prefix).is_some_and(|rest| !rest.contains('/'));
        let entry = |key: &String| {
            let (key, size) = (&key[path.len() + 1..], shared.objects[key].0.len());
            format!(
                "<Contents><Key>{key}</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified>\
                 <ETag>\"0\"</ETag><Size>{size}</Size></Contents>"
            )
        };
        let entries: String = shared.objects.keys().filter(in_directory).map(entry).collect();
        return refuse("200 OK", &format!("<ListBucketResult>{entries}</ListBucketResult>"));
    }
    let Some((bytes, state)) = shared.objects.get(path).cloned() else {
        return refuse("404 Not Found", "");
    };
    let tag = format!("\"state-{state}\"");
    if header("if-match").is_some_and(|wanted| wanted != tag) && habit != Habit::NoConditions {
        return refuse("412 Precondition Failed", "");
    }
    let range = header("range").filter(|_| habit != Habit::NoRanges).map(|range| {
        let (start, end) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
        let start: usize = start.parse().unwrap();
        start..(end.parse::<usize>().unwrap() + 1).min(bytes.len())
    });
    let mut answer = match &range {
        Some(range) => {
            format!(
                "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {}-{}/{}\r\n",
                range.start,
                range.end - 1,
                bytes.len()
            )
        }
        None => "HTTP/1.1 200 OK\r\n".to_owned(),
    };
    let range = range.unwrap_or(0..bytes.len());
    if let Some(asked) = shared.asked.last_mut() {
        asked.range = range.clone();
    }
    drop(shared);
    answer += &format!("Content-Length: {}\r\n", range.len());
    if habit != Habit::NoTags {
        answer += &format!("ETag: {tag}\r\n");
    }
    stream.write_all(format!("{answer}\r\n").as_bytes())?;
    let body = &bytes[range];
    if habit == Habit::Short {
        stream.write_all(&body[..body.len() / 2])?;
        stream.flush()?;
        // The connection ends.
        return Err(std::io::ErrorKind::BrokenPipe.into());
    }
    stream.write_all(body)?;
    stream.flush()
}
