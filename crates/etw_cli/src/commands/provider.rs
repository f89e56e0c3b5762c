//! `etw provider list|show|search|diff`: providers with known schemas.

use std::io::Write;

use anyhow::{Result, anyhow, bail};
use etw_app::description::Described;
use etw_app::schema_diff::{Differences, Side};
use etw_app::schemas::Schemas;
use etw_app::search::{self, Kind};
use etw_app::{description, output, tracepoints};
use openetw::Guid;
use openetw::windows::Pack;
use serde_json::json;

use crate::args::Format;
use crate::args::provider::ProviderCommand;

/// Runs the command.
pub(crate) fn run(command: &ProviderCommand) -> Result<()> {
    let mut out = Vec::new();
    match command {
        #[cfg(any(target_os = "linux", windows))]
        ProviderCommand::List { pattern, format, registered: true, instance, .. } => {
            super::session::put_registered(&mut out, pattern.as_deref(), *format, instance)?;
        }
        ProviderCommand::List { pattern, format, schemas, .. } => {
            if let Some(names) = pattern.as_deref().map(tracepoints::list).transpose()?.flatten() {
                for name in names {
                    match format {
                        Format::Text => writeln!(out, "{name}")?,
                        Format::Json => writeln!(out, "{}", json!({"Name": name}))?,
                    }
                }
                return Ok(output::open(None)?.write_all(&out)?);
            }
            let schemas = Schemas::load(&schemas.options())?;
            let wanted = pattern.as_deref().unwrap_or_default().to_lowercase();
            for listed in schemas.list()? {
                if !listed.name.to_lowercase().contains(&wanted) && !listed.guid.to_string().contains(&wanted)
                {
                    continue;
                }
                match format {
                    Format::Text => writeln!(out, "{} {} ({})", listed.guid, listed.name, listed.origin)?,
                    Format::Json => {
                        let object = json!({"Name": listed.name, "Guid": listed.guid.to_string(), "Origin": listed.origin});
                        writeln!(out, "{object}")?;
                    }
                }
            }
        }
        ProviderCommand::Show { name, event, release, format, schemas } => {
            let schemas = Schemas::load(&schemas.options())?;
            let side =
                release.as_deref().map(|release| Side::find(windows(&schemas)?, release)).transpose()?;
            let found = match tracepoints::find(name)? {
                Some(provider) => vec![Described::from(&provider)],
                None => schemas.describe(name, side.map(|side| side.number))?,
            };
            if found.is_empty() {
                return Err(unknown(name));
            }
            if let (Format::Text, Some(side)) = (format, side) {
                writeln!(out, "Windows {}", side.text())?;
            }
            for provider in found {
                match format {
                    Format::Text => description::put_text(&mut out, &provider, event)?,
                    Format::Json => writeln!(out, "{}", description::to_json(&provider, event))?,
                }
            }
        }
        ProviderCommand::Search { text, provider, event, field, keyword, map, format, schemas } => {
            let wanted = [
                (*provider, Kind::Provider),
                (*event, Kind::Event),
                (*field, Kind::Field),
                (*keyword, Kind::Keyword),
                (*map, Kind::Map),
            ];
            let kinds: Vec<Kind> =
                wanted.into_iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, kind)| kind).collect();
            let text = text.join(" ");
            let found = match tracepoints::pattern_text(&text) {
                Some(words) => {
                    let all = tracepoints::find(tracepoints::ALL)?;
                    all.map(|all| search::search_provider(&all, words, &kinds)).unwrap_or_default()
                }
                None => search::search(&Schemas::load(&schemas.options())?, &text, &kinds)?,
            };
            if found.is_empty() {
                bail!("no name contains '{text}'");
            }
            match format {
                Format::Text => found.put_text(&mut out)?,
                Format::Json => found.put_json(&mut out)?,
            }
        }
        ProviderCommand::Diff { name, from, to, format, schemas } => {
            let schemas = Schemas::load(&schemas.options())?;
            let pack = windows(&schemas)?;
            let (from, to) = (Side::find(pack, from)?, Side::find(pack, to)?);
            let found = schemas.find_in_windows(name)?;
            if found.is_empty() {
                bail!(
                    "Windows has no provider '{name}'; `etw provider search --provider TEXT` searches their names"
                );
            }
            for block in found {
                let differences = Differences::new(block, from, to);
                match format {
                    Format::Text => differences.put_text(&mut out)?,
                    Format::Json => writeln!(out, "{}", differences.json())?,
                }
            }
        }
    }
    output::open(None)?.write_all(&out)?;
    Ok(())
}

fn windows(schemas: &Schemas) -> Result<&'static Pack<'static>> {
    schemas.pack().ok_or_else(|| anyhow!("the built-in schemas of Windows are damaged"))
}

fn unknown(name: &str) -> anyhow::Error {
    // Nothing else tells the GUID of a provider that describes its own events.
    let own = match name.parse::<Guid>() {
        Ok(_) => String::new(),
        Err(_) => {
            let guid = Guid::from_provider_name(name);
            format!(" (the GUID of a TraceLogging provider or EventSource with this name is {guid})")
        }
    };
    anyhow!(
        "unknown provider '{name}'{own}; `etw provider list` lists known providers, `etw schema add FILE` adds one"
    )
}
