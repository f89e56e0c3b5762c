//! `etw mc`: checks manifests, and writes Rust code for their events.

use std::io::Write;

use anyhow::{Context, Result, bail};
use etw_app::output;
use openetw::schema::manifest;

use crate::args::McArgs;

/// Runs the command.
pub(crate) fn run(args: &McArgs) -> Result<()> {
    let path = args.manifest.display();
    let bytes = std::fs::read(&args.manifest).with_context(|| format!("cannot read '{path}'"))?;
    let checked = manifest::check(&bytes, &args.manifest.to_string_lossy());
    for problem in &checked.problems {
        eprintln!("{path}: {problem}");
    }
    match checked.problems.len() {
        0 if checked.providers.is_empty() => bail!("{path}: the manifest has no event provider"),
        0 => {}
        1 => bail!("{path}: 1 error"),
        count => bail!("{path}: {count} errors"),
    }
    if let Some(target) = &args.rust {
        let code = manifest::rust_code(&checked.providers);
        for left_out in &code.left_out {
            let manifest::LeftOut { provider, id, version, reason } = left_out;
            output::warn(&format_args!("{provider}: no function for event {id} version {version}: {reason}"));
        }
        std::fs::write(target, code.text).with_context(|| format!("cannot write '{}'", target.display()))?;
    }
    let events: usize = checked.providers.iter().map(|provider| provider.events.len()).sum();
    writeln!(
        output::open(None)?,
        "{path}: {} providers, {events} events, no error",
        checked.providers.len()
    )?;
    Ok(())
}
