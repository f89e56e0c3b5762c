//! Windows writers that are killed at random instants.

use std::collections::HashMap;
use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use openetw::{Guid, Trace};
use serde_json::Value;

use super::cases::PROVIDER;
use super::place::{Host, Place};
use shell::lanes::each;
use shell::process::{MINUTES_2, MINUTES_15, Process};
use shell::random::Random;

/// Writers of one session, and how many of them run at a time.
const ROUNDS_OF_SESSION: u32 = 10;
const AT_A_TIME: usize = 3;
/// Longest time that a writer writes before it is killed, in microseconds.
const LONGEST: u64 = 20_000;

/// Kills a writer in each round, and compares what was recorded with what it had written.
///
/// Each writer counts the events that it begins and those that it has written in a file. All that are counted as
/// written must be in the trace or be counted as lost, and none that were not begun.
pub(super) fn run(place: &Place, rounds: u32) -> Result<String> {
    // A round takes half a second; this is for a machine that is ten times as slow.
    let host = place.host_within(MINUTES_15 + Duration::from_secs(5) * rounds)?;
    let mut random = Random(u64::from(std::process::id()));
    let (mut done, mut total, mut lost) = (0, 0, 0);
    while done < rounds {
        let file = format!("kills-{done}.etl");
        host.run_etw(&["session", "start", "Kills", "-o", &host.path(&file), "-p", PROVIDER])?;
        let after = rounds.min(done + ROUNDS_OF_SESSION);
        let rounds = (done..after).map(|round| (round, Duration::from_micros(random.below(LONGEST))));
        let ledgers = each(rounds, AT_A_TIME, |(round, time)| kill_one(&host, round, time))?;
        done = after;
        let stopped = host.run_etw(&["session", "stop", "Kills", "--format", "json"])?;
        let stopped: Value = serde_json::from_str(stopped.lines().next().context("no status")?)?;
        let lost_here = stopped["EventsLost"].as_u64().unwrap_or(0);
        total += account(&host, &file, &ledgers, lost_here)?;
        lost += lost_here;
        fs::remove_file(host.path(&file))?;
    }
    Ok(format!("{rounds} writers killed, all of their {total} events accounted for, {lost} as lost"))
}

/// Starts a writer and kills it this long after its first event. Returns how many events it had begun and written.
fn kill_one(host: &Host<'_>, round: u32, time: Duration) -> Result<(u64, u64)> {
    let name = format!("ledger-{round}");
    fs::write(host.path(&name), [0; 16])?;
    let ledger = format!("{}\\{name}", host.windows_directory());
    let mut command = host.client(&["write-until-killed", PROVIDER, &ledger]);
    let errors = fs::File::create(host.path(&format!("{name}.errors")))?;
    let mut writer = Process::spawn(command.stdout(Stdio::null()).stderr(errors), MINUTES_2)?;
    let until = Instant::now() + Duration::from_secs(60);
    let counted = || -> Result<(u64, u64)> {
        let bytes = fs::read(host.path(&name))?;
        let word = |at: usize| {
            bytes.get(at..at + 8).and_then(|word| Some(u64::from_le_bytes(word.try_into().ok()?)))
        };
        Ok((word(0).context("short ledger")?, word(8).context("short ledger")?))
    };
    while counted()?.1 == 0 {
        if Instant::now() > until {
            let (begun, _) = counted()?;
            let state = if writer.has_ended()? { "has ended" } else { "runs" };
            let errors = fs::read_to_string(host.path(&format!("{name}.errors")))?;
            bail!(
                "the writer of round {round} writes nothing: it {state} and has begun {begun} events; {errors}"
            );
        }
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(time);
    // Dropping kills it.
    drop(writer);
    let counts = counted()?;
    fs::remove_file(host.path(&name))?;
    fs::remove_file(host.path(&format!("{name}.errors")))?;
    Ok(counts)
}

/// Compares the trace with the ledgers, and returns how many events were written.
fn account(host: &Host<'_>, file: &str, ledgers: &[(u64, u64)], lost: u64) -> Result<u64> {
    let provider: Guid = PROVIDER.parse()?;
    let (mut recorded, mut are_in_order) = (0, true);
    let mut last: HashMap<u32, u64> = HashMap::new();
    Trace::open_file(host.path(file))?.for_each_record(|record| {
        if record.provider_id() == provider
            && let Some(number) = record.payload().first_chunk()
        {
            let number = u64::from_le_bytes(*number);
            let before = last.insert(record.process_id().unwrap_or(0), number);
            are_in_order &= before.is_none_or(|before| before < number);
            recorded += 1;
        }
    })?;
    ensure!(are_in_order, "events of a writer are out of order or twice in {file}");
    let written: u64 = ledgers.iter().map(|(_, written)| written).sum();
    let begun: u64 = ledgers.iter().map(|(begun, _)| begun).sum();
    ensure!(
        recorded + lost >= written && recorded <= begun,
        "{recorded} events recorded and {lost} lost of {written} written and {begun} begun ({file})"
    );
    Ok(written)
}
