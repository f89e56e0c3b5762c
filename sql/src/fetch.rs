//! Whole objects for other programs, as `etw dump` and `etw info` read them.

use std::io::{self, Read, Write};
use std::path::Path;

use anyhow::Result;
use etw_app::output::with_causes;
use etw_app::urls::FetchReport;

use crate::inputs;
use crate::opened::Files;
use crate::remote::shown;
use crate::source::OpenOptions;

/// Fetches the objects that words mean, says where they are ([`FetchReport`]), and keeps them until standard input is closed.
///
/// # Errors
///
/// Fails if there can be no temporary files, or if standard output is closed.
pub(crate) fn run(words: &[String], temp_dir: Option<&Path>) -> Result<()> {
    let files = Files::new(OpenOptions::default(), temp_dir, u64::MAX);
    let mut objects = Vec::new();
    for (number, word) in words.iter().enumerate() {
        let mut urls = match inputs::objects(word, &files) {
            Ok(urls) => urls,
            Err(error) => {
                say(&FetchReport::Failed { word: number, shown: shown(word), reason: with_causes(&error) })?;
                continue;
            }
        };
        urls.sort();
        for url in urls.iter().filter_map(|url| url.to_str()) {
            let shown = shown(url);
            match files.remote().and_then(|remote| remote.fetch(url)) {
                Ok(object) => {
                    say(&FetchReport::Fetched { word: number, shown, path: object.path().to_owned() })?;
                    objects.push(object);
                }
                Err(error) => say(&FetchReport::Failed { word: number, shown, reason: with_causes(&error) })?,
            }
        }
    }
    say(&FetchReport::Done)?;
    // Whoever reads the objects has opened them when it closes this.
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn say(said: &FetchReport) -> Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{}", serde_json::to_string(said)?)?;
    output.flush()?;
    Ok(())
}
