//! `tracepdb`: TMF files, with the formats of WPP messages, from the annotations in PDB files.

mod args;
mod find;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use etw_app::output;
use etw_app::status::{Failed, code};
use openetw::schema::wpp::{TmfText, tmf_texts};
use openetw::{FileTime, Guid};

use crate::files;
use args::Options;

/// A TMF file to write.
struct Tmf {
    guid: Guid,
    text: String,
    messages: usize,
}

/// Runs the tool.
pub(super) fn run(words: &[OsString]) -> Result<ExitCode> {
    let mut out = output::open(None)?;
    let Some(options) = Options::parse(words)? else {
        out.write_all(args::help().as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    };
    let mut tmfs: Vec<Tmf> = Vec::new();
    let mut unreadable = 0;
    for path in &options.files {
        let read = std::fs::read(path).map_err(anyhow::Error::from);
        match read.and_then(|bytes| Ok(tmf_texts(&bytes)?)) {
            Ok(texts) => {
                if options.verbose {
                    let messages: usize = texts.iter().map(|text| text.messages.len()).sum();
                    writeln!(out, "{}: {messages} message formats", path.display())?;
                }
                let head = head(path)?;
                texts.into_iter().for_each(|text| add(&mut tmfs, &head, text));
            }
            Err(error) => {
                unreadable += 1;
                output::warn(&format_args!("{}: {error}", path.display()));
            }
        }
    }
    if tmfs.is_empty() {
        let text = "the files have no message formats; public symbols lack them, use the private PDB files";
        return Err(Failed::new(code::NOT_FOUND, text).into());
    }
    std::fs::create_dir_all(&options.directory)
        .with_context(|| format!("{}: cannot be created", options.directory.display()))?;
    for tmf in &tmfs {
        let name = tmf.guid.to_string();
        let path = options.directory.join(format!("{}.tmf", name.trim_matches(['{', '}'])));
        files::write(&path, tmf.text.as_bytes())?;
        if options.verbose {
            writeln!(out, "{}: {} messages", path.display(), tmf.messages)?;
        }
    }
    let read = options.files.len() - unreadable;
    writeln!(out, "{} TMF files from {read} PDB files", tmfs.len())?;
    if unreadable > 0 {
        let text = format!("{unreadable} of {} PDB files could not be read", options.files.len());
        return Err(Failed::new(code::GEN_FAILURE, text).into());
    }
    Ok(ExitCode::SUCCESS)
}

/// Adds the messages of a GUID. Each PDB file has a section with its own head; the GUID's line is in the first.
fn add(tmfs: &mut Vec<Tmf>, head: &str, text: TmfText) {
    let index = match tmfs.iter().position(|tmf| tmf.guid == text.guid) {
        Some(index) => index,
        None => {
            tmfs.push(Tmf { guid: text.guid, text: String::new(), messages: 0 });
            tmfs.len() - 1
        }
    };
    let Some(tmf) = tmfs.get_mut(index) else { return };
    let is_first = tmf.text.is_empty();
    tmf.text.push_str(head);
    if is_first {
        let _ = writeln!(tmf.text, "{}", text.head);
    }
    tmf.messages += text.messages.len();
    tmf.text.extend(text.messages);
}

/// Returns the comments that start a PDB file's section: its name and the time of its last change.
fn head(path: &Path) -> Result<String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let changed = std::fs::metadata(path)?.modified().unwrap_or(UNIX_EPOCH);
    Ok(format!("// PDB:  {name}\n// PDB:  Last Updated :{} (UTC) [Tracepdb]\n", time_text(changed)))
}

/// Formats a time as `2025-04-28:18:52:26:152`.
fn time_text(time: SystemTime) -> String {
    let nanos = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let time = FileTime::from_unix_nanos(i128::try_from(nanos).unwrap_or(0));
    let (year, month, day, hour, minute, second, ..) = time.to_civil();
    let millis = nanos / 1_000_000 % 1000;
    format!("{year}-{month:02}-{day:02}:{hour:02}:{minute:02}:{second:02}:{millis:03}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_and_times() {
        let mut tmfs = Vec::new();
        let text = |message: &str| TmfText {
            guid: Guid::from_u128(7),
            head: "7 N // SRC=n.c MJ= MN=".to_owned(),
            messages: vec![message.to_owned()],
        };
        add(&mut tmfs, "// a\n", text("1\n"));
        add(&mut tmfs, "// b\n", text("2\n"));
        assert_eq!((tmfs.len(), tmfs[0].messages), (1, 2));
        assert_eq!(tmfs[0].text, "// a\n7 N // SRC=n.c MJ= MN=\n1\n// b\n2\n");
        let time = UNIX_EPOCH + std::time::Duration::from_millis(1_745_866_346_152);
        assert_eq!(time_text(time), "2025-04-28:18:52:26:152");
    }
}
