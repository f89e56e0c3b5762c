//! The session that the page watches.

use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use etw_app::enabling::Wants;
use etw_app::input::Filters;
use etw_app::profiles::{self, Combined};
use etw_app::schemas::SchemaOptions;
use etw_live::{Options, Rule, Stopped, View, Watch, WatchLine, default_kernel_flags};
use openetw::profile::{ProfileFile, Recording, built_in};
use serde_json::{Value, json};

use super::{LinesRequest, ProfileRequest, RulesRequest, StartRequest, TableRequest};

/// Number of newest events to keep; the records of at most 256 MiB are kept anyway.
const KEEP: usize = 500_000;
/// Size of the session's buffers in bytes.
const BUFFER_BYTES: u64 = 64 << 10;
/// Maximum number of lines of an answer.
const MAX_LINES: usize = 2000;
/// Maximum number of rules.
const MAX_RULES: usize = 200;

/// The session that the page watches, if one was started.
#[derive(Default)]
pub(crate) struct Live(Mutex<State>);

#[derive(Default)]
struct State {
    watch: Option<Watch>,
    rules: Vec<Rule>,
    /// What of the recording profile this system cannot record.
    left_out: Vec<String>,
    /// Stopped sessions, whose hosts may serve other programs.
    stopped: Vec<Stopped>,
}

impl std::fmt::Debug for Live {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Live").finish_non_exhaustive()
    }
}

impl Live {
    /// Returns what the session has delivered, or what a new one would record.
    pub(crate) fn describe(&self) -> Value {
        let mut state = self.lock();
        let session = state.watch.as_mut().map(|watch| {
            let status = watch.status();
            json!({
                "title": watch.title(),
                "events": status.events,
                "rate": status.rate,
                "lost": status.lost,
                "not_kept": status.not_kept,
                "shown": status.shown,
                "next": status.next,
                "ended": status.ended,
                "trouble": status.trouble,
            })
        });
        let session = session.map(|mut session| {
            session["left_out"] = json!(state.left_out);
            session
        });
        json!({ "session": session, "kernel": default_kernel_flags() })
    }

    /// Starts a session.
    ///
    /// # Errors
    ///
    /// Fails if there is one already, if nothing is to be recorded, or if the user may not start it.
    pub(crate) fn start(&self, request: &StartRequest) -> Result<()> {
        let mut state = self.lock();
        if state.watch.is_some() {
            bail!("a session is running; stop it first");
        }
        let providers: Vec<String> = request
            .providers
            .iter()
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty())
            .collect();
        let kernel = request.kernel.trim();
        let profile = request.profile.as_ref();
        if kernel.is_empty() && providers.is_empty() && profile.is_none() {
            bail!("name kernel flags or a provider, or choose a profile");
        }
        let profile =
            profile.map(|profile| profiles::of_text(profile.text.as_deref(), &profile.name)).transpose()?;
        let profile = profile.as_slice();
        let left_out = Recording::new(profile).left_out.iter().map(ToString::to_string).collect();
        let combined = if profile.is_empty() { None } else { Some(Combined::from_profiles(profile)?) };
        let mut watch = Watch::start(&Options {
            kernel: (!kernel.is_empty()).then(|| kernel.to_owned()),
            provider: providers,
            wants: Wants { stacks: request.stacks, ..Wants::default() },
            profile: combined,
            session: None,
            output: None,
            keep: KEEP,
            buffer_size: BUFFER_BYTES,
            buffers: None,
            filters: Filters::default(),
            schemas: SchemaOptions::default(),
        })?;
        watch.set_rules(state.rules.clone());
        state.watch = Some(watch);
        state.left_out = left_out;
        Ok(())
    }

    /// Returns the recording profiles of a file, or the built-in ones.
    ///
    /// # Errors
    ///
    /// Fails if the text is no recording profile.
    pub(crate) fn profiles(request: &ProfileRequest) -> Result<Value> {
        let list = |file: &ProfileFile<'_>| {
            let mut found: Vec<Value> = Vec::new();
            for profile in file.profiles().iter().filter(|profile| !profile.is_internal) {
                let name = format!("{}.{}", profile.name, profile.detail_level.name());
                if !found.iter().any(|known| known["name"] == name.as_str()) {
                    found.push(json!({ "name": name, "description": profile.description }));
                }
            }
            json!(found)
        };
        Ok(match &request.text {
            Some(text) => list(&ProfileFile::parse(text)?),
            None => list(&built_in()?),
        })
    }

    /// Returns the tables of a view: what the events tell of processes, threads, files and more.
    ///
    /// # Errors
    ///
    /// Fails if no session is running, or if there is no such view.
    pub(crate) fn tables(&self, request: &TableRequest) -> Result<Value> {
        let view = match request.view.as_str() {
            "processes" => View::Processes,
            "threads" => View::Threads,
            "images" => View::Images,
            "files" => View::Files,
            "network" => View::Network,
            "machine" => View::Machine,
            other => bail!("no view '{other}'"),
        };
        let state = self.lock();
        let watch = state.watch.as_ref().context("no session is running")?;
        let sort = request.sort.map(|column| (column, request.descending));
        let (tables, note) = watch.tables(view, sort, &request.text);
        let tables: Vec<Value> = tables
            .into_iter()
            .map(|table| {
                let rows: Vec<Value> =
                    table.rows.iter().map(|row| json!({ "cells": row.cells, "depth": row.depth })).collect();
                let columns = table.columns.iter();
                let columns = columns.map(|column| json!({ "name": column.name, "summary": column.summary }));
                json!({
                    "columns": columns.collect::<Vec<Value>>(),
                    "is_number": table.is_number,
                    "rows": rows,
                    "sorted": table.sorted,
                    "count": table.count,
                    "forgotten": table.forgotten,
                })
            })
            .collect();
        Ok(json!({ "tables": tables, "note": note }))
    }

    /// Stops the session; its events are dropped.
    ///
    /// # Errors
    ///
    /// Fails if no session is running, or if it cannot be stopped.
    pub(crate) fn stop(&self) -> Result<()> {
        let watch = self.lock().watch.take().context("no session is running")?;
        let stopped = watch.stop()?;
        self.lock().stopped.push(stopped);
        Ok(())
    }

    /// Sets which events are shown and highlighted.
    ///
    /// # Errors
    ///
    /// Fails if a rule is wrong, or if there are more than 200.
    pub(crate) fn set_rules(&self, request: &RulesRequest) -> Result<()> {
        if request.rules.len() > MAX_RULES {
            bail!("more than {MAX_RULES} rules");
        }
        let rules = request
            .rules
            .iter()
            .map(|rule| Rule::new(&rule.column, &rule.relation, &rule.value, &rule.action))
            .collect::<Result<Vec<Rule>, String>>()
            .map_err(anyhow::Error::msg)?;
        let mut state = self.lock();
        state.rules.clone_from(&rules);
        if let Some(watch) = &mut state.watch {
            watch.set_rules(rules);
        }
        Ok(())
    }

    /// Returns lines and the number of all.
    ///
    /// # Errors
    ///
    /// Fails if no session is running.
    pub(crate) fn lines(&self, request: LinesRequest) -> Result<Value> {
        let state = self.lock();
        let watch = state.watch.as_ref().context("no session is running")?;
        let limit = request.limit.min(MAX_LINES);
        let from = match request.from {
            Some(from) => from,
            None => watch.lines(0, 0, request.until).0.saturating_sub(limit),
        };
        let (count, lines) = watch.lines(from, limit, request.until);
        let lines: Vec<Value> = lines
            .into_iter()
            .map(|WatchLine { line, is_lit }| {
                json!({
                    "number": line.number,
                    "cells": [line.time, line.process, line.process_id, line.thread_id, line.operation, line.detail,
                        line.result, line.duration],
                    "level": line.level,
                    "is_lit": is_lit,
                })
            })
            .collect();
        Ok(json!({ "count": count, "from": from, "lines": lines }))
    }

    /// Returns the details of an event as lines.
    ///
    /// # Errors
    ///
    /// Fails if no session is running, or if the event is not in memory any more.
    pub(crate) fn details(&self, number: u64) -> Result<Value> {
        let state = self.lock();
        let lines = state.watch.as_ref().context("no session is running")?.details(number);
        if lines.is_empty() {
            bail!("the event is not in memory any more");
        }
        Ok(json!({ "lines": lines }))
    }

    /// Returns the events in memory as a trace file.
    ///
    /// # Errors
    ///
    /// Fails if no session is running, or if a temporary file cannot be written.
    pub(crate) fn save(&self, only_shown: bool) -> Result<Vec<u8>> {
        let folder = tempfile::Builder::new().prefix("etw-view-").tempdir()?;
        let path = folder.path().join("live.etl");
        self.lock().watch.as_ref().context("no session is running")?.save(&path, only_shown)?;
        Ok(std::fs::read(&path)?)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
