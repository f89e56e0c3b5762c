//! Windows writers that are killed at random instants.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::cases::{PROVIDER, numbers};
use super::place::{Host, Place};
use crate::process::{MINUTES_2, Process};
use crate::random::Random;

/// Writers of one session.
const ROUNDS_OF_SESSION: u32 = 10;

/// Kills a writer in each round, and compares what was recorded with what it had written.
///
/// Each writer counts the events that it begins and those that it has written in a file. All that are counted as
/// written must be in the trace or be counted as lost, and none that were not begun.
pub(super) fn run(place: &Place, rounds: u32) -> Result<String> {
    let host = place.host()?;
    let mut random = Random(u64::from(std::process::id()));
    let (mut done, mut total) = (0, 0);
    while done < rounds {
        let file = format!("kills-{done}.etl");
        host.run_etw(&["session", "start", "Kills", "-o", &host.path(&file), "-p", PROVIDER])?;
        let mut ledgers = Vec::new();
        for round in done..rounds.min(done + ROUNDS_OF_SESSION) {
            ledgers.push(kill_one(&host, round, &mut random)?);
        }
        done += ledgers.len() as u32;
        let stopped = host.run_etw(&["session", "stop", "Kills", "--format", "json"])?;
        let stopped: Value = serde_json::from_str(stopped.lines().next().context("no status")?)?;
        total += account(&host, &file, &ledgers, stopped["EventsLost"].as_u64().unwrap_or(0))?;
        fs::remove_file(host.path(&file))?;
    }
    Ok(format!("{rounds} writers killed, all of their {total} events accounted for"))
}

/// Starts a writer and kills it. Returns how many events it had begun and written, and its process.
fn kill_one(host: &Host<'_>, round: u32, random: &mut Random) -> Result<(u64, u64)> {
    let name = format!("ledger-{round}");
    fs::write(host.path(&name), [0; 16])?;
    let ledger = format!("{}\\{name}", host.windows_directory());
    let mut command = host.client(&["write-until-killed", PROVIDER, &ledger]);
    let writer = Process::spawn(command.stdout(Stdio::null()).stderr(Stdio::null()), MINUTES_2)?;
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
            bail!("the writer of round {round} writes nothing");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_micros(random.below(20_000)));
    // Dropping kills it.
    drop(writer);
    counted()
}

/// Compares the trace with the ledgers, and returns how many events were written.
fn account(host: &Host<'_>, file: &str, ledgers: &[(u64, u64)], lost: u64) -> Result<u64> {
    let found = numbers(&host.events(file)?)?;
    let written: u64 = ledgers.iter().map(|(_, written)| written).sum();
    let begun: u64 = ledgers.iter().map(|(begun, _)| begun).sum();
    for numbers in found.values() {
        ensure!(numbers.is_sorted_by(|a, b| a < b), "events of a writer are out of order or twice in {file}");
    }
    let recorded: u64 = found.values().map(|numbers| numbers.len() as u64).sum();
    ensure!(
        recorded + lost >= written && recorded <= begun,
        "{recorded} events recorded and {lost} lost of {written} written and {begun} begun ({file})"
    );
    Ok(written)
}
