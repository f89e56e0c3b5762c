//! `etw mc`: checks manifests, and writes C and Rust code for their events.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use etw_app::output;
use openetw::schema::manifest;

use crate::args::schema::McArgs;

/// Runs the command.
pub(crate) fn run(args: &McArgs) -> Result<()> {
    let path = args.manifest.display();
    let bytes = std::fs::read(&args.manifest).with_context(|| format!("cannot read '{path}'"))?;
    let checked = manifest::check(&bytes, &args.manifest.to_string_lossy());
    for problem in &checked.problems {
        etw_app::say!("{path}: {problem}");
    }
    match checked.problems.len() {
        0 if checked.providers.is_empty() => bail!("{path}: the manifest has no event provider"),
        0 => {}
        1 => bail!("{path}: 1 error"),
        count => bail!("{path}: {count} errors"),
    }
    if let Some(target) = &args.rust {
        let code = manifest::rust_code(&checked.providers);
        write_code(target, &code.text, &code.left_out, "function")?;
    }
    if args.um {
        if args.resource_dir.is_some() {
            output::warn(&format_args!(
                "-r: resources are not written; `etw schema add {path}` takes their place"
            ));
        }
        let names = manifest::CNames { prefix: args.prefix.clone(), removed: args.removed.clone() };
        let header = manifest::c_header(&bytes, &checked.providers, &names);
        let stem = args.manifest.file_stem().unwrap_or_default().to_string_lossy();
        let name = args.name.as_deref().unwrap_or(&stem);
        let target = args.header_dir.join(format!("{name}.{}", args.extension.trim_start_matches('.')));
        write_code(&target, &header.text, &header.left_out, "macro")?;
    }
    let events: usize = checked.providers.iter().map(|provider| provider.events.len()).sum();
    writeln!(
        output::open(None)?,
        "{path}: {} providers, {events} events, no error",
        checked.providers.len()
    )?;
    Ok(())
}

/// Writes code, and warns of the events that it cannot write.
fn write_code(target: &Path, code: &str, left_out: &[manifest::LeftOut], what: &str) -> Result<()> {
    for manifest::LeftOut { provider, id, version, reason } in left_out {
        output::warn(&format_args!("{provider}: no {what} for event {id} version {version}: {reason}"));
    }
    let directory = target.parent().map_or(Ok(()), std::fs::create_dir_all);
    directory
        .and_then(|()| output::write_public(target, code.as_bytes()))
        .with_context(|| format!("cannot write '{}'", target.display()))
}
