//! A comparison as text.

use std::io::Write;

use anyhow::Result;

use super::condition::Verdict;
use super::rows::{Row, Subject, ends, percent_text};
use super::{Compared, Side};
use crate::words::shown;

/// Appends the comparison, with at most `top` rows of each kind that grew, and as many that shrank.
pub(super) fn put(
    out: &mut Vec<u8>,
    sides: &[Side; 2],
    compared: &[Compared],
    verdicts: &[Verdict],
    top: usize,
    width: usize,
) -> Result<()> {
    for (name, side) in ["before", "after"].into_iter().zip(sides) {
        let verdict =
            side.losses.as_deref().map_or("complete".to_owned(), |losses| format!("INCOMPLETE: {losses}"));
        let Side { file, seconds, events, .. } = side;
        writeln!(out, "{name:6}  {file}: {seconds:.3} s, {events} events, {verdict}")?;
    }
    for compared in compared {
        let all = compared.all();
        let [before, after] = all.rates.map(|rate| compared.rate_text(rate));
        let change = percent_text(all.change_percent());
        writeln!(out, "\n{}: {before} before, {after} after ({change})", compared.kind.title())?;
        if all.sums.iter().all(|sum| sum.is_zero()) {
            writeln!(out, "  No stacks; they are recorded by: {}", compared.kind.flags())?;
            continue;
        }
        for subject in Subject::ALL {
            put_rows(out, compared, subject, top, width)?;
        }
    }
    if !verdicts.is_empty() {
        writeln!(out)?;
    }
    for verdict in verdicts {
        let outcome = if verdict.holds { "FAILED" } else { "passed" };
        writeln!(out, "{outcome}  {verdict}")?;
    }
    Ok(())
}

fn put_rows(
    out: &mut Vec<u8>,
    compared: &Compared,
    subject: Subject,
    top: usize,
    width: usize,
) -> Result<()> {
    let rows = compared.rows(subject);
    let ([grew, shrank], others) = ends(&rows, top);
    writeln!(out, "\n{}", subject.title())?;
    if grew.is_empty() && shrank.is_empty() {
        writeln!(out, "  Nothing changed.")?;
        return Ok(());
    }
    writeln!(
        out,
        "  {:>10}  {:>10}  {:>11}  {:>9}  {:>8}  {:>7}  Name",
        "Before", "After", "Change", "Change %", "Before %", "After %"
    )?;
    for row in grew {
        put_row(out, compared, row, width)?;
    }
    if others > 0 {
        writeln!(out, "  … {others} more that changed less or not")?;
    }
    shrank.iter().try_for_each(|row| put_row(out, compared, row, width))
}

fn put_row(out: &mut Vec<u8>, compared: &Compared, row: &Row, width: usize) -> Result<()> {
    let [before, after] = row.rates.map(|rate| compared.rate_text(rate));
    let sign = if row.change() < 0.0 { '-' } else { '+' };
    let change = format!("{sign}{}", compared.rate_text(row.change().abs()));
    let percent = percent_text(row.change_percent());
    let [share_before, share_after] = row.shares;
    let line = format!(
        "  {before:>10}  {after:>10}  {change:>11}  {percent:>9}  {share_before:>8.2}  {share_after:>7.2}  "
    );
    let name = shown(&row.name);
    let room = width.saturating_sub(line.chars().count());
    let len = name.chars().count();
    // The inner end of a stack tells more.
    let name = match len > room {
        true => format!("…{}", name.chars().skip(len - room.saturating_sub(1).min(len)).collect::<String>()),
        false => name,
    };
    writeln!(out, "{line}{name}")?;
    Ok(())
}
