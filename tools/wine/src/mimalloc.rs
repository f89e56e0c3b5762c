//! The allocator mimalloc, a library in C whose events have a manifest: published sources, compiled with MinGW.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::place::{Place, sources_of};
use shell::{output, root, target_dir};

/// `microsoft-windows-mimalloc`.
const PROVIDER: &str = "138f4dbb-ee04-4899-aa0a-572ad4475779";

/// What MinGW and the sources lack: an annotation of Microsoft's headers, and a semicolon after the macro that unregisters the
/// provider, which a program may define itself.
const DEFINITIONS: [&str; 4] = [
    "-DMI_TRACK_ETW=1",
    "-D_WIN32_WINNT=0x0A00",
    "-D_Pre_cap_(count)=",
    "-DEventUnregistermicrosoft_windows_mimalloc()=McGenEventUnregister(&microsoft_windows_mimallocHandle);",
];

/// Records the allocations of a program, and decodes them with the manifest.
pub(super) fn run(place: &Place) -> Result<String> {
    let sources = sources_of("libmimalloc-sys")?.join("c_src/mimalloc/v3");
    let program = target_dir().join("wine/allocate.exe");
    let mut compiler = Command::new("x86_64-w64-mingw32-gcc");
    compiler.args(["-O1", "-fgnu89-inline"]).args(DEFINITIONS).arg("-I").arg(sources.join("include"));
    compiler.arg("-I").arg(sources.join("src")).arg("-o").arg(&program).arg(sources.join("src/static.c"));
    compiler.arg(root().join("bindings/wine/c/allocate.c")).args(["-ladvapi32", "-lbcrypt", "-lpsapi"]);
    output(&mut compiler)?;
    let host = place.without_daemon()?;
    let mut record = host.etw(&["record", "-p", PROVIDER, "-o", &host.path("mimalloc.etl"), "--", "wine"]);
    record.arg(&program).env("WINEPREFIX", &place.prefix).env("WINEDEBUG", "-all");
    let printed = output(&mut record)?;
    let blocks: Vec<u64> = printed.lines().filter_map(|line| line.trim().parse().ok()).collect();
    ensure!(blocks.len() == 100, "{printed}");
    let manifest = sources.join("src/prim/windows/etw.man").display().to_string();
    let events = host.events_with("mimalloc.etl", &["--schema", &manifest])?;
    let addresses = |id: u64| -> Result<Vec<u64>> {
        let of_id = events.iter().filter(|event| event["System"]["EventID"] == id);
        let address =
            |event: &serde_json::Value| event["EventData"]["Address"].as_u64().context("no address");
        let all: Vec<u64> = of_id.map(address).collect::<Result<_>>()?;
        Ok(all.into_iter().filter(|address| blocks.contains(address)).collect())
    };
    for id in [100, 101] {
        ensure!(addresses(id)? == blocks, "the events {id} have other addresses: {:?}", addresses(id)?);
    }
    Ok(format!("{} events; each block's allocation and release with its address", events.len()))
}
