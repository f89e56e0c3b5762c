//! `etw provider list|show`: providers with known schemas.

use std::io::Write;

use anyhow::{Result, anyhow};
use etw_app::schemas::Schemas;
use etw_app::{description, output};
use serde_json::json;

use crate::args::{Format, ProviderCommand};

/// Runs the command.
pub(crate) fn run(command: &ProviderCommand) -> Result<()> {
    let mut out = Vec::new();
    match command {
        #[cfg(target_os = "linux")]
        ProviderCommand::List { pattern, format, registered: true, instance, .. } => {
            super::session::put_registered(&mut out, pattern.as_deref(), *format, instance)?;
        }
        ProviderCommand::List { pattern, format, schemas, .. } => {
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
        ProviderCommand::Show { name, event, format, schemas } => {
            let schemas = Schemas::load(&schemas.options())?;
            let found = schemas.find(name)?;
            if found.is_empty() {
                return Err(anyhow!(
                    "unknown provider '{name}'; `etw provider list` lists known providers, `etw schema add FILE` adds one"
                ));
            }
            for provider in found {
                match format {
                    Format::Text => description::put_text(&mut out, &provider, event)?,
                    Format::Json => writeln!(out, "{}", description::to_json(&provider, event))?,
                }
            }
        }
    }
    output::open(None)?.write_all(&out)?;
    Ok(())
}
