//! `etw schema add|list|show|export`: the schema store.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use etw_app::description::{self, Described};
use etw_app::output;
use etw_app::progress::Progress;
use etw_app::schemas::{SchemaOptions, Schemas, store_dir};
use openetw::schema::store::{Added, Store};
use openetw::schema::{Provider, manifest};
use openetw::{Guid, SchemaFiles, SchemaReader, UndescribedPublisher};
use serde_json::json;

use crate::args::schema::SchemaCommand;
use crate::args::{Format, StoreArgs};

/// Runs the command.
pub(crate) fn run(command: &SchemaCommand) -> Result<()> {
    match command {
        SchemaCommand::Add { paths, language, partial, store } => {
            add(paths, language, *partial, &open(store)?)
        }
        SchemaCommand::List { store, format } => list(&open(store)?, *format),
        SchemaCommand::Show { name, store, format } => show(name, &open(store)?, *format),
        SchemaCommand::Export { name, store, output } => export(name, store, output.as_deref()),
    }
}

fn open(args: &StoreArgs) -> Result<Store> {
    let dir = store_dir(args.store.as_deref())?;
    Store::open(&dir).with_context(|| format!("cannot open the schema store in {}", dir.display()))
}

fn add(paths: &[std::path::PathBuf], language: &str, partial: bool, store: &Store) -> Result<()> {
    let mut out = output::open(None)?;
    let mut sum = Sum::default();
    let mut empty = 0;
    for path in paths {
        let progress = Progress::of_files();
        let on_progress = |done, total| progress.reach_file(done, total);
        let reader = SchemaReader::new().language(language).threads(output::threads(0));
        let mut read = reader.on_progress(&on_progress).read([path]);
        progress.finish();
        if !partial {
            read.remove_faulty_manifests();
        }
        sum.problems += put_files(&mut out, &read)?;
        // The store replaces the schemas that an earlier call added under this name.
        let origin = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        sum.add(&read, store.add(&read.providers, &origin.to_string_lossy())?);
        empty += usize::from(read.providers.is_empty());
    }
    sum.put(&mut out, store)?;
    if empty > 0 {
        bail!("{empty} of {} paths contain no readable schema", paths.len());
    }
    Ok(())
}

/// Lists what was read, and prints the problems as warnings; returns their number.
fn put_files(out: &mut dyn Write, read: &SchemaFiles) -> Result<usize> {
    let mut problems = 0;
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
    for publisher in &read.undescribed {
        let UndescribedPublisher { guid, name, file, exists, .. } = publisher;
        write!(out, "not described: {name} {guid}")?;
        match file {
            Some(file) if *exists => writeln!(out, ", {file} does not describe it")?,
            Some(file) => writeln!(out, ", {file} is missing")?,
            None => writeln!(out, ", the registry names no file")?,
        }
    }
    Ok(problems)
}

/// The sum of all paths.
#[derive(Default)]
struct Sum {
    files: usize,
    publishers: usize,
    undescribed: usize,
    providers: usize,
    events: usize,
    with_message: usize,
    problems: usize,
}

impl Sum {
    fn add(&mut self, read: &SchemaFiles, added: Added) {
        self.files += read.examined;
        self.publishers += read.publishers;
        self.undescribed += read.undescribed.len();
        self.providers += added.providers;
        self.events += added.events;
        let events = read.providers.iter().flat_map(|provider| &provider.events);
        self.with_message += events.filter(|event| event.message.is_some()).count();
    }

    fn put(&self, out: &mut dyn Write, store: &Store) -> Result<()> {
        let Sum { files, publishers, undescribed, providers, events, with_message, problems } = self;
        if *publishers > 0 {
            writeln!(
                out,
                "the registry lists {publishers} publishers; {undescribed} of them are not described"
            )?;
        }
        write!(out, "read {files} files; added {providers} providers with {events} events")?;
        if *with_message > 0 {
            write!(out, " ({with_message} with messages)")?;
        }
        write!(out, " to {}", store.directory().display())?;
        match problems {
            0 => writeln!(out)?,
            count => writeln!(out, "; {count} problems")?,
        }
        Ok(())
    }
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
        let found = Described::from(&found);
        match format {
            Format::Text => description::put_text(&mut out, &found, &[])?,
            Format::Json => writeln!(out, "{}", description::to_json(&found, &[]))?,
        }
    }
    output::open(None)?.write_all(&out)?;
    Ok(())
}

fn export(name: &str, args: &StoreArgs, path: Option<&Path>) -> Result<()> {
    let found: Vec<Arc<Provider>> = match find(name, &open(args)?) {
        Ok(found) => found.into_iter().map(Arc::new).collect(),
        Err(error) => {
            let options = SchemaOptions { store: args.store.clone(), ..SchemaOptions::default() };
            let built_in = Schemas::load(&options)?.find_built_in(name)?;
            if built_in.is_empty() {
                return Err(error);
            }
            built_in
        }
    };
    let [provider] = found.as_slice() else {
        let guids: Vec<_> = found.iter().map(|provider| provider.info.guid.to_string()).collect();
        bail!("there are {} providers '{name}'; use the GUID of one: {}", found.len(), guids.join(", "));
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
