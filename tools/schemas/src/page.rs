//! The numbers of the pack in the documentation.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;

use anyhow::{Context, Result, bail};
use etw_schema_windows::Pack;
use etw_testkit::data::workspace_root;
use openetw::schema::{InType, PropertyType};

const PAGE: &str = "docs/windows-schemas.md";
const MARK: &str = "`cargo xtask schemas` writes the pack and this table.\n";

/// The sentence with the numbers in the README is between these marks.
const README: &str = "README.md";
const BEGIN: &str = "<!-- schemas -->";
const END: &str = "<!-- /schemas -->";

/// Writes the numbers into the page and the README, or checks that they are current.
pub(super) fn write(pack: &Pack<'_>, bytes: usize, is_check: bool) -> Result<()> {
    let (sentence, table) = numbers(pack, bytes)?;
    let text = |page| fs::read_to_string(workspace_root().join(page)).context(page);
    let page = text(PAGE)?;
    let (head, _) = page.split_once(MARK).with_context(|| format!("{PAGE} has no line for the table"))?;
    let made = format!("{head}{MARK}\n{sentence}.\n\n{table}");
    let readme = text(README)?;
    let parts = readme.split_once(BEGIN).zip(readme.split_once(END));
    let ((before, _), (_, after)) =
        parts.with_context(|| format!("{README} has no place for the numbers"))?;
    let made_readme = format!("{before}{BEGIN}{sentence}.{END}{after}");
    for (page, text, made) in [(PAGE, &page, made), (README, &readme, made_readme)] {
        match is_check {
            true if *text != made => {
                bail!("the numbers in {page} are not current: run `cargo xtask schemas`")
            }
            true => {}
            false => fs::write(workspace_root().join(page), made).context(page)?,
        }
    }
    Ok(())
}

/// Sums over layouts.
#[derive(Default)]
struct Sum {
    providers: BTreeSet<usize>,
    events: BTreeSet<(usize, u16, u8, u8)>,
    layouts: u64,
    inferred: u64,
    open: u64,
}

/// Returns a sentence and a table by release.
fn numbers(pack: &Pack<'_>, bytes: usize) -> Result<(String, String)> {
    let mut all = Sum::default();
    let mut by_release: Vec<Sum> = pack.releases().iter().map(|_| Sum::default()).collect();
    let mut classes = 0;
    for (at, listed) in pack.providers().iter().enumerate() {
        let block = pack.block_at(at).with_context(|| listed.name.clone())?;
        classes += u64::from(block.is_class());
        for layout in block.layouts() {
            let schema = &layout.schema;
            let descriptor = schema.descriptor;
            let is_open = schema.properties.iter().any(|property| {
                matches!(property.kind, PropertyType::Value { in_type: InType::UNKNOWN_EXTENT, .. })
            });
            let known =
                by_release.iter_mut().enumerate().filter(|(number, _)| layout.releases.contains(*number));
            for sum in known.map(|(_, sum)| sum).chain([&mut all]) {
                sum.providers.insert(at);
                sum.events.insert((at, descriptor.id, descriptor.version, descriptor.opcode.0));
                sum.layouts += 1;
                sum.inferred += u64::from(schema.inferred.is_some());
                sum.open += u64::from(is_open);
            }
        }
    }
    let mut text = String::from(
        "| release | build | providers and classes | events | layouts with derived lengths | known in part |\n\
         |---|---|---|---|---|---|\n",
    );
    let sentence = format!(
        "{} providers and {classes} classes of classic events, {} layouts of {} events, in {} KiB",
        pack.providers().len() as u64 - classes,
        all.layouts,
        all.events.len(),
        bytes / 1024,
    );
    for (release, sum) in pack.releases().iter().zip(&by_release) {
        let (providers, events) = (sum.providers.len(), sum.events.len());
        let (inferred, open) = (sum.inferred, sum.open);
        writeln!(
            text,
            "| Windows {} | {} | {providers} | {events} | {inferred} | {open} |",
            release.name, release.build
        )?;
    }
    writeln!(
        text,
        "| all | | {} | {} | {} | {} |",
        all.providers.len(),
        all.events.len(),
        all.inferred,
        all.open
    )?;
    Ok((sentence, text))
}
