//! Writes the table of `docs/tools/wprp.md`: the part of each published recording profile that Linux records.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use etw_testkit::data;
use openetw::kernel::{EnableFlags, KernelProvider, StackWalks};
use openetw::profile::{ProfileFile, ProviderName, Recording, decode};

use crate::Files;

const PAGE: &str = "docs/tools/wprp.md";
/// Line before the table.
const MARK: &str = "<!-- `cargo xtask profiles` writes what follows. -->\n";

/// Returns the page; `None` without published profiles.
pub(crate) fn made() -> Result<Option<Files>> {
    let Some(directory) = data::data_dir().map(|directory| directory.join("wprp")) else { return Ok(None) };
    let text = fs::read_to_string(data::workspace_root().join(PAGE)).context(PAGE)?;
    let (page, count) = page_of(&text, &directory)?;
    println!("{PAGE}: {count} files");
    Ok(Some(vec![(PAGE, page)]))
}

/// Returns the page with the table of the files in a directory, and the number of files.
fn page_of(text: &str, directory: &Path) -> Result<(String, usize)> {
    let (head, _) = text.split_once(MARK).with_context(|| format!("{PAGE} has no line for the table"))?;
    let mut table = String::from(
        "\n| file | profiles | keywords | stacks | providers | left out |\n|---|---|---|---|---|---|\n",
    );
    let files = files(directory)?;
    for file in &files {
        let name = file.strip_prefix(directory)?.display().to_string();
        row(&name, file, &mut table).with_context(|| name.clone())?;
    }
    Ok((format!("{head}{MARK}{table}"), files.len()))
}

fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for folder in fs::read_dir(directory)?.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()) {
        files.extend(fs::read_dir(folder)?.flatten().map(|entry| entry.path()));
    }
    files.sort();
    Ok(files)
}

fn row(name: &str, file: &Path, table: &mut String) -> Result<()> {
    let bytes = fs::read(file)?;
    let text = decode(&bytes);
    let read = ProfileFile::parse(&text)?;
    let profiles: Vec<_> =
        read.profiles().iter().map(|definition| read.resolve(definition)).collect::<Result<_, _>>()?;
    let recording = Recording::new(&profiles);
    let sessions = &recording.sessions;
    let flags = sessions.iter().fold(EnableFlags::empty(), |flags, session| flags | session.flags);
    let mut keywords: Vec<&str> = Vec::new();
    for flag in EnableFlags::KNOWN.iter().filter(|flag| flags.0 & flag.bit != 0) {
        if !keywords.contains(&flag.wpr) {
            keywords.push(flag.wpr);
        }
    }
    let hooks: BTreeSet<u16> = sessions.iter().flat_map(|session| session.stacks.iter().copied()).collect();
    let hooks: Vec<u16> = hooks.into_iter().collect();
    let stacks = if hooks.is_empty() {
        String::new()
    } else {
        StackWalks::from_hook_ids(&hooks)?.to_string().replace('+', ", ")
    };
    let is_of_kernel = |provider: &ProviderName| {
        KernelProvider::ALL.iter().any(|known| match provider {
            ProviderName::Guid(guid) => *guid == known.guid,
            ProviderName::Registered(name) => name.eq_ignore_ascii_case(known.name),
            ProviderName::Hashed(_) => false,
        })
    };
    let mut providers: Vec<&ProviderName> = Vec::new();
    for provider in sessions.iter().flat_map(|session| &session.providers) {
        if !providers.contains(&&provider.name) {
            providers.push(&provider.name);
        }
    }
    let of_kernel = providers.iter().filter(|provider| is_of_kernel(provider)).count();
    let providers = match of_kernel {
        0 => providers.len().to_string(),
        count => format!("{}, {count} of the kernel", providers.len()),
    };
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for left_out in &recording.left_out {
        reasons.entry(&left_out.reason).or_default().push(&left_out.what);
    }
    let reasons: Vec<String> =
        reasons.iter().map(|(reason, what)| format!("{}: {reason}", what.join(", "))).collect();
    writeln!(
        table,
        "| {name} | {} | {} | {stacks} | {providers} | {} |",
        profiles.len(),
        keywords.join(", "),
        reasons.join("; ")
    )?;
    Ok(())
}
