//! The symbols suite: stacks joined to their events and named, and what names cost a report.

use std::fmt::Write as _;
use std::hint::black_box;
use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use openetw::analysis::StackNames;
use openetw::etl::encode::RecordBuilder;
use openetw::etl::{EtlWriter, WriterOptions};
use openetw::symbols::{Module, PdbId, SymbolPath, Symbolizer, WindowsImage};
use openetw::{
    Clock, ClockType, EventDescriptor, EventFilter, FileTime, Guid, HookId, Opcode, PointerSize, Ticks,
    Trace, classes,
};

use super::packaged::packaged_etw;
use super::row::Row;
use super::{Effort, large_pdb, median, stacks};
use shell::process::{MINUTES_15, Process};
use shell::root;

/// Frames of each stack, the number of different stacks and of processes.
const FRAMES: u64 = 20;
const STACKS: u64 = 2000;
const PROCESSES: u32 = 200;
/// Base of the image, and the code in it that has names.
const BASE: u64 = 0x7FF6_0000_0000;
const CODE: std::ops::Range<u64> = 0x1000..0x10F0;
/// Addresses that are looked up in a PDB at once.
const ADDRESSES: usize = 10_000;
/// Tables of a report that have no names of functions.
const TABLES_WITHOUT_NAMES: &str = "processes,cpu,threads,waits,disk,files,network,faults";

/// Measures the parts of naming stacks, and whole reports.
pub(crate) fn rows(effort: &Effort) -> Result<Vec<Row>> {
    let mut rows = stacks::rows(effort)?;
    rows.push(named(effort)?);
    rows.push(resolved(effort)?);
    rows.extend(reports(effort)?);
    rows.extend(large_pdb::rows(effort)?);
    Ok(rows)
}

/// Returns where the program `shapes.exe` and its PDB are.
fn seeds() -> PathBuf {
    root().join("crates/etw_fuzz/src/seeds")
}

fn symbolizer() -> Result<Symbolizer> {
    let path = seeds();
    let path: SymbolPath = path.to_str().context("the path is not text")?.parse()?;
    Ok(Symbolizer::new().search(path))
}

fn pdb() -> Option<PdbId> {
    PdbId::new("shapes.pdb", Guid::from_u128(0x10CA8EAD_B351_1AE5_4C4C_44205044422E), 1)
}

/// Measures frames of stacks with names, when these are known.
fn named(effort: &Effort) -> Result<Row> {
    let traces = Trace::builder().bytes("named.etl", trace(effort.events)?);
    let names = StackNames::from_traces(traces.clone(), &EventFilter::default(), &symbolizer()?)?;
    let mut trace = traces.open()?;
    let stacks = trace.stacks()?;
    let (mut with_names, mut without) = (Vec::new(), Vec::new());
    let mut frames = 0_u64;
    for _ in 0..effort.rounds {
        let start = Instant::now();
        let mut addresses = 0_u64;
        trace.for_each_record(|record| {
            stacks.of(record).addresses().for_each(|address| addresses += u64::from(black_box(address) > 0));
        })?;
        without.push(start.elapsed().as_secs_f64());
        let start = Instant::now();
        let mut functions = 0_u64;
        frames = 0;
        trace.for_each_record(|record| {
            for frame in names.of_record(record) {
                frames += 1;
                functions += u64::from(black_box(frame.function).is_some());
            }
        })?;
        with_names.push(start.elapsed().as_secs_f64());
        anyhow::ensure!(addresses == effort.events * FRAMES, "{addresses} addresses");
        anyhow::ensure!(functions > frames / 2, "{functions} of {frames} frames have names");
    }
    let rate = |seconds: &mut [f64]| frames as f64 / median(seconds) / 1e6;
    let floor = ("the same without names", rate(&mut without));
    let row = Row::new("frames of stacks named", rate(&mut with_names), "M/s");
    Ok(Row { peer: Some(floor), ..row })
}

/// Measures addresses that a PDB is asked for at once, each run from nothing.
fn resolved(effort: &Effort) -> Result<Row> {
    let symbolizer = symbolizer()?;
    let image = WindowsImage { pdb: pdb(), ..WindowsImage::default() };
    let module = Module { path: "shapes.exe", windows: Some(&image), ..Module::default() };
    let offsets: Vec<u64> = CODE.cycle().take(ADDRESSES).collect();
    let mut times = Vec::new();
    for _ in 0..effort.rounds {
        let start = Instant::now();
        let found = symbolizer.resolve(&module, &offsets)?;
        times.push(start.elapsed().as_secs_f64());
        let named = found.iter().flatten().count();
        anyhow::ensure!(named > ADDRESSES / 2, "{named} of {ADDRESSES} addresses have names");
    }
    let rate = |seconds: f64| ADDRESSES as f64 / seconds / 1e6;
    let row = Row::new("addresses resolved by a PDB", rate(median(&mut times)), "M/s");
    let peer = llvm_symbolizer(effort, &offsets)?.map(|seconds| ("llvm-symbolizer", rate(seconds)));
    Ok(Row { peer, ..row })
}

/// Returns the seconds that `llvm-symbolizer` takes for the addresses; `None` if it is not installed.
fn llvm_symbolizer(effort: &Effort, offsets: &[u64]) -> Result<Option<f64>> {
    // It looks for the PDB under the path that the linker wrote, or next to the program.
    let directory = tempfile::Builder::new().prefix("openetw-symbols-").tempdir()?;
    for name in ["shapes.exe", "shapes.pdb"] {
        std::fs::copy(seeds().join(name), directory.path().join(name))?;
    }
    let mut input = String::new();
    offsets.iter().try_for_each(|offset| writeln!(input, "{offset:#x}"))?;
    let mut times = Vec::new();
    for _ in 0..effort.rounds {
        let mut command = Command::new("llvm-symbolizer");
        command.args(["--relative-address", "--inlines", "--obj", "shapes.exe"]);
        command.current_dir(directory.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let start = Instant::now();
        let Ok(mut child) = command.spawn() else { return Ok(None) };
        let mut to = child.stdin.take().context("no standard input")?;
        let output = std::thread::scope(|scope| {
            let bytes = input.as_bytes();
            let written = scope.spawn(move || to.write_all(bytes));
            let output = child.wait_with_output();
            written.join().map(|written| (written, output))
        });
        let (written, output) = output.map_err(|_| anyhow::anyhow!("writing failed"))?;
        written?;
        let output = output?;
        times.push(start.elapsed().as_secs_f64());
        let has_names = String::from_utf8_lossy(&output.stdout).contains("Counter::bump");
        anyhow::ensure!(output.status.success() && has_names, "llvm-symbolizer found no names");
    }
    Ok(Some(median(&mut times)))
}

/// Measures reports of the largest real trace, beside those without names of functions.
fn reports(effort: &Effort) -> Result<Vec<Row>> {
    let Some(traces) = etw_testkit::data::traces() else { return Ok(Vec::new()) };
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    let Some(largest) = traces.into_iter().max_by_key(|trace| size(&trace.path)) else {
        return Ok(Vec::new());
    };
    let etw = packaged_etw(effort)?;
    let path = largest.path.to_string_lossy().into_owned();
    let time = |args: &[&str]| -> Result<f64> {
        let mut command = Command::new(&etw);
        command.args(["report", &path]).args(args);
        command.env_remove("_NT_SYMBOL_PATH").env_remove("DEBUGINFOD_URLS");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let start = Instant::now();
        let status = Process::spawn(&mut command, MINUTES_15)?.wait()?;
        anyhow::ensure!(status.success(), "etw report failed: {status}");
        Ok(start.elapsed().as_secs_f64() * 1e3)
    };
    let cases: [(&str, &[&str]); 3] = [
        ("etw report", &[]),
        ("etw report --stacks events", &["--stacks", "events"]),
        ("etw report --tree top-down", &["--tree", "top-down"]),
    ];
    let mut times = vec![Vec::new(); cases.len()];
    let mut floor = Vec::new();
    for _ in 0..effort.rounds {
        floor.push(time(&["--table", TABLES_WITHOUT_NAMES])?);
        for ((_, args), times) in cases.iter().zip(&mut times) {
            times.push(time(args)?);
        }
    }
    let floor = median(&mut floor);
    let row = |((name, _), mut times): (&(&str, &[&str]), Vec<f64>)| {
        let row = Row::new(*name, median(&mut times), "ms");
        Row { peer: Some(("tables without names", floor)), ..row }
    };
    Ok(cases.iter().zip(times).map(row).collect())
}

/// Returns a trace of Windows: processes of one program, with samples and stacks in its code.
fn trace(events: u64) -> Result<Vec<u8>> {
    let clock = Clock::new(ClockType::Qpc, Ticks(0), FileTime(133_000_000_000_000_000), 10_000_000);
    let mut writer = EtlWriter::new(Cursor::new(Vec::new()), WriterOptions::new(clock, 64 << 10, 1))?;
    let mut put = |record: RecordBuilder, time: i64, payload: &[&[u8]]| -> Result<()> {
        writer.write(0, &record.time(Ticks(time)).payload(&payload.concat()).build()?)?;
        Ok(())
    };
    let system = |hook| RecordBuilder::system(PointerSize::Eight, HookId(hook), 3);
    let perf_info = |hook| RecordBuilder::perf_info(PointerSize::Eight, HookId(hook), 2);
    let path = r"\Device\HarddiskVolume3\bin\shapes.exe";
    let path: Vec<u8> = path.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
    let pdb = pdb().context("no PDB")?;
    let descriptor = EventDescriptor { opcode: Opcode(36), version: 2, ..EventDescriptor::default() };
    let id = RecordBuilder::full(PointerSize::Eight, classes::IMAGE_ID, &descriptor);
    let base = BASE.to_le_bytes();
    for process in 1..=PROCESSES {
        let process = process.to_le_bytes();
        // Image_Load: base, size, process; checksum, time stamp, signature, default base, reserved fields; path.
        put(system(0x140A), 1, &[&base, &0x5000_u64.to_le_bytes(), &process, &[0; 36], &path])?;
        let guid = pdb.guid.to_bytes();
        put(id.clone(), 1, &[&base, &process, &guid, &pdb.age.to_le_bytes(), b"shapes.pdb\0"])?;
    }
    for number in 0..events {
        let time = 10 * (number as i64 + 1);
        let process = (number % u64::from(PROCESSES)) as u32 + 1;
        let process = process.to_le_bytes();
        let len = CODE.end - CODE.start;
        let frames = (0..FRAMES).map(|frame| BASE + CODE.start + (number % STACKS * 7 + frame * 11) % len);
        let frames: Vec<u8> = frames.flat_map(u64::to_le_bytes).collect();
        put(perf_info(0x0F2E), time, &[&frames[..8], &process, &1_u32.to_le_bytes()])?;
        put(perf_info(0x1820), time, &[&time.to_le_bytes(), &process, &process, &frames])?;
    }
    Ok(writer.finish(FileTime(0))?.out.into_inner())
}
