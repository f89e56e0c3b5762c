//! `etw record -k NETWORKTRACE`: what a program does on the network, each act once.

use std::collections::BTreeMap;
use std::process::Output;

use serde_json::Value;

use crate::kernel::{events, field, kind, record, record_with, time};
use crate::record::example;
use crate::{Etw, json_lines};

/// Returns the lines of the program's output that start with `with`, as words.
fn said(output: &Output, with: &str) -> Vec<Vec<String>> {
    let text = String::from_utf8_lossy(&output.stdout);
    let words = |line: &str| line.split(' ').map(str::to_owned).collect();
    text.lines().filter(|line| line.starts_with(with)).map(words).collect()
}

/// An event as the program says it: what, this end, the other end, the bytes.
fn act(event: &Value) -> Option<[String; 4]> {
    let (name, version) = kind(event).split_once("IPV")?;
    let end = |address: &str, port: &str| {
        let address = field(event, address);
        let is_of_ipv6 = address.contains(':');
        assert_eq!(version, if is_of_ipv6 { "6" } else { "4" }, "{event}");
        let port = &event["EventData"][port];
        if is_of_ipv6 { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
    };
    let (destination, source) = (end("daddr", "dport"), end("saddr", "sport"));
    let bytes = event["EventData"]["size"].to_string();
    Some(if name == "UdpIp/Recv" {
        [name.to_owned(), destination, source, bytes]
    } else {
        [name.to_owned(), source, destination, bytes]
    })
}

#[test]
fn each_act_of_a_program_is_told_once() {
    let etw = Etw::new();
    let Some(output) = record(&etw, "NETWORKTRACE", &[&example("network_acts")]) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let process = said(&output, "process")[0][1].parse::<u64>().unwrap();
    let mut expected: Vec<Vec<String>> = said(&output, "TcpIp");
    expected.extend(said(&output, "UdpIp"));
    let events = events(&etw);
    let is_ours = |event: &&Value| event["EventData"]["PID"] == process;
    let acts: Vec<_> = events.iter().filter(is_ours).filter_map(act).collect();
    let mut sorted: Vec<Vec<String>> = acts.iter().map(|act| act.to_vec()).collect();
    // On a busy machine the last connection to the listener may be requested more than once.
    sorted.sort();
    sorted.dedup_by(|next, last| next[0] == "TcpIp/Reconnect" && next == last);
    expected.sort();
    for (told, said) in sorted.iter().zip(&expected) {
        assert_eq!(told, said);
    }
    assert_eq!(sorted.len(), expected.len());
    // A connection's first event is that it was made, its last one that it ended.
    let mut connections: BTreeMap<[&str; 2], Vec<&str>> = BTreeMap::new();
    for [name, own, peer, _] in acts.iter().filter(|act| act[0].starts_with("TcpIp")) {
        connections.entry([own, peer]).or_default().push(name);
    }
    connections.retain(|_, acts| !acts.contains(&"TcpIp/Reconnect"));
    assert_eq!(connections.len(), 7);
    for acts in connections.values() {
        assert!(["TcpIp/Connect", "TcpIp/Accept"].contains(&acts[0]), "{acts:?}");
        assert_eq!(acts.last(), Some(&"TcpIp/Disconnect"));
    }
    // One was refused, the other was given up.
    let failed = events.iter().filter(is_ours).filter(|event| kind(event) == "TcpIp/Fail");
    let mut ports: Vec<u64> = failed
        .map(|event| {
            assert_eq!(field(event, "daddr"), "127.0.0.1", "{event}");
            event["EventData"]["dport"].as_u64().unwrap()
        })
        .collect();
    ports.sort_unstable();
    let mut asked: Vec<u64> = said(&output, "fails").iter().map(|words| words[1].parse().unwrap()).collect();
    asked.sort_unstable();
    assert_eq!(ports, asked);
    // Reports have them by process and endpoint.
    let process = process.to_string();
    let report = etw.ok(&["report", "k.etl", "--table", "network", "--pid", &process, "--format", "json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    let rows = report["tables"]["network"]["rows"].as_array().unwrap();
    let failures = rows.iter().map(|row| row["failures"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(failures, asked.len() as u64, "{report}");
}

#[test]
fn the_network_is_told_between_the_steps_of_a_request() {
    let etw = Etw::new();
    let args = ["-k", "NETWORKTRACE", "-p", "Example.Requests"];
    let program = example("network_acts");
    let Some(output) = record_with(&etw, &args, &[&program, "requests", "200"]) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let process = said(&output, "process")[0][1].parse::<u64>().unwrap();
    let all = json_lines(&etw.ok(&["dump", "k.etl", "--format", "json"]));
    assert!(all.is_sorted_by(|one, next| time(one) <= time(next)));
    let requests = said(&output, "request ");
    assert_eq!(requests.len(), 200);
    for request in requests {
        let numbers: Vec<u64> = request[1..].iter().map(|word| word.parse().unwrap()).collect();
        let [number, own, peer] = numbers[..] else { panic!("{request:?}") };
        let is_ours = |event: &&Value| {
            let data = &event["EventData"];
            match kind(event) {
                "Step" => data["number"] == number,
                _ => data["PID"] == process && data["sport"] == own && data["dport"] == peer,
            }
        };
        let steps = all.iter().filter(is_ours).map(|event| match kind(event) {
            "Step" => field(event, "name"),
            of_kernel => of_kernel,
        });
        assert_eq!(
            steps.collect::<Vec<_>>(),
            [
                "connect",
                "TcpIp/ConnectIPV4",
                "connected",
                "TcpIp/SendIPV4",
                "sent",
                "TcpIp/RecvIPV4",
                "received",
                "TcpIp/DisconnectIPV4",
                "closed",
            ],
            "request {number}"
        );
    }
}
