//! `etw schema add|list|show|export`: the schema store.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use etw_app::schemas::store_dir;
use etw_app::{description, output};
use openetw::schema::store::Store;
use openetw::schema::{Provider, manifest};
use openetw::{Guid, SchemaFiles};
use serde_json::json;

use crate::args::{Format, SchemaCommand, StoreArgs};

/// Runs the command.
pub(crate) fn run(command: &SchemaCommand) -> Result<()> {
    match command {
        SchemaCommand::Add { paths, store } => add(paths, &open(store)?),
        SchemaCommand::List { store, format } => list(&open(store)?, *format),
        SchemaCommand::Show { name, store, format } => show(name, &open(store)?, *format),
        SchemaCommand::Export { name, store, output } => export(name, &open(store)?, output.as_deref()),
    }
}

fn open(args: &StoreArgs) -> Result<Store> {
    let dir = store_dir(args.store.as_deref())?;
    Store::open(&dir).with_context(|| format!("cannot open the schema store in {}", dir.display()))
}

fn add(paths: &[std::path::PathBuf], store: &Store) -> Result<()> {
    let mut out = output::open(None)?;
    let (mut providers, mut events, mut problems, mut empty) = (0, 0, 0, 0);
    for path in paths {
        let read = SchemaFiles::read([path]);
        for file in &read.files {
            let kind = file.kind.map_or("unknown", |kind| kind.name());
            for (name, guid, events) in &file.providers {
                writeln!(out, "{}: {kind}: {name} {guid}, {events} events", file.path.display())?;
            }
            for problem in &file.problems {
                problems += 1;
                output::warn(&format_args!("{}: {problem}", file.path.display()));
            }
        }
        // The store replaces the schemas that an earlier call added under this name.
        let origin = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let added = store.add(&read.providers, &origin.to_string_lossy())?;
        providers += added.providers;
        events += added.events;
        empty += usize::from(read.providers.is_empty());
    }
    writeln!(
        out,
        "added {providers} providers with {events} events to {}{}",
        store.directory().display(),
        match problems {
            0 => String::new(),
            count => format!("; {count} problems"),
        }
    )?;
    if empty > 0 {
        bail!("{empty} of {} paths contain no readable schema", paths.len());
    }
    Ok(())
}

fn list(store: &Store, format: Format) -> Result<()> {
    let mut listed = store.list()?;
    listed.sort_by(|a, b| {
        (a.name.to_lowercase(), a.guid, &a.origin).cmp(&(b.name.to_lowercase(), b.guid, &b.origin))
    });
    let mut out = Vec::new();
    for entry in listed {
        match format {
            Format::Text => writeln!(
                out,
                "{} {} ({}, {} events, {})",
                entry.guid,
                entry.name,
                entry.decoding.name(),
                entry.events,
                entry.origin
            )?,
            Format::Json => writeln!(
                out,
                "{}",
                json!({
                    "Name": entry.name,
                    "Guid": entry.guid.to_string(),
                    "Decoding": entry.decoding.name(),
                    "Events": entry.events,
                    "Origin": entry.origin,
                })
            )?,
        }
    }
    output::open(None)?.write_all(&out)?;
    Ok(())
}

fn show(name: &str, store: &Store, format: Format) -> Result<()> {
    let mut out = Vec::new();
    for found in find(name, store)? {
        match format {
            Format::Text => description::put_text(&mut out, &found, &[])?,
            Format::Json => writeln!(out, "{}", description::to_json(&found, &[]))?,
        }
    }
    output::open(None)?.write_all(&out)?;
    Ok(())
}

fn export(name: &str, store: &Store, path: Option<&Path>) -> Result<()> {
    let found = find(name, store)?;
    let [provider] = found.as_slice() else {
        let guids: Vec<_> = found.iter().map(|provider| provider.info.guid.to_string()).collect();
        bail!("the store has {} providers '{name}'; use the GUID of one: {}", found.len(), guids.join(", "));
    };
    let text = manifest::write(provider).ok_or_else(|| {
        anyhow!(
            "{}: schemas of kind {} cannot be written as a manifest",
            provider.info.name,
            provider.info.decoding.name()
        )
    })?;
    let mut out = output::open(path)?;
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

fn find(name: &str, store: &Store) -> Result<Vec<Provider>> {
    let mut guids: Vec<Guid> = match name.parse() {
        Ok(guid) => vec![guid],
        Err(_) => store.find_by_name(name)?.iter().map(|listed| listed.guid).collect(),
    };
    guids.sort_unstable();
    guids.dedup();
    let mut found = Vec::new();
    for guid in guids {
        found.extend(store.provider(&guid)?);
    }
    if found.is_empty() {
        bail!(
            "the store in {} has no provider '{name}'; `etw schema list` lists its providers",
            store.directory().display()
        );
    }
    Ok(found)
}
