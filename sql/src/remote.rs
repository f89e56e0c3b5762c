//! Traces at URLs: downloaded by the program `curl` to files that last as long as the process.
//!
//! Traces are read as mapped files, and what a query needs of one lies in many places, so the whole file is fetched.

use std::cell::Cell;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use etw_app::UsageError;
use tempfile::TempDir;

/// Whether a word is a URL and not a file.
pub(crate) fn is_url(word: &str) -> bool {
    ["http://", "https://", "s3://"].iter().any(|scheme| word.starts_with(scheme))
}

/// Files that were downloaded. They are removed when this is dropped.
pub(crate) struct Downloads {
    directory: TempDir,
    /// Limit of one file.
    max_bytes: u64,
    count: Cell<usize>,
}

impl Downloads {
    /// Makes a directory for files, in `parent` or in that of the system.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be made.
    pub(crate) fn new(parent: Option<&std::path::Path>, max_bytes: u64) -> Result<Downloads> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("etw-sql-");
        let directory = match parent {
            Some(parent) => builder.tempdir_in(parent),
            None => builder.tempdir(),
        };
        let directory = directory.context("cannot make a directory for downloads")?;
        Ok(Downloads { directory, max_bytes, count: Cell::new(0) })
    }

    /// Downloads a file, and returns its path.
    ///
    /// # Errors
    ///
    /// Fails with the message of `curl`, or if there is no such program.
    pub(crate) fn get(&self, url: &str) -> Result<PathBuf> {
        if url.contains('*') {
            return Err(UsageError(format!("{url}: patterns are for files only")).into());
        }
        let number = self.count.replace(self.count.get() + 1);
        let directory = self.directory.path().join(number.to_string());
        std::fs::create_dir(&directory)?;
        // Archives and compressed files are told by their contents, so any name does.
        let path = directory.join("trace");
        let mut command = Command::new("curl");
        // The user's settings (.curlrc) may change what is written.
        command.args(["--disable", "--silent", "--show-error", "--fail", "--globoff", "--location"]);
        command.args(["--max-redirs", "5", "--proto", "=http,https", "--proto-redir", "=http,https"]);
        command.args(["--connect-timeout", "10", "--speed-limit", "1024", "--speed-time", "20"]);
        command.arg("--max-filesize").arg(self.max_bytes.to_string());
        command.args(["--user-agent", concat!("openetw/", env!("CARGO_PKG_VERSION"))]);
        // Keys are no arguments, which other users can see.
        command.arg("--output").arg(&path).args(["--config", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn();
        let mut child = child.with_context(|| format!("{url}: downloads need the program 'curl'"))?;
        let settings = match url.strip_prefix("s3://") {
            Some(object) => of_s3(object, |name| std::env::var(name).ok().filter(|value| !value.is_empty()))?,
            None => line("url", url)?,
        };
        if let Some(mut input) = child.stdin.take() {
            // A program that has ended says why.
            let _ = input.write_all(settings.as_bytes());
        }
        let output = child.wait_with_output().context("curl")?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let text = text.lines().last().unwrap_or_default();
            // "curl: (28) Operation too slow."
            bail!("{url}: {}", text.split_once(") ").map_or(text, |(_, text)| text));
        }
        Ok(path)
    }
}

/// Returns a line of a file of settings.
fn line(name: &str, value: &str) -> Result<String> {
    if value.contains(char::is_control) {
        bail!("the {name} of a download has a line break");
    }
    Ok(format!("{name} = \"{}\"\n", value.replace('\\', "\\\\").replace('"', "\\\"")))
}

/// Returns the settings for an object `bucket/key`, by the variables that other programs for S3 use.
fn of_s3(object: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String> {
    let Some((bucket, key)) =
        object.split_once('/').filter(|(bucket, key)| !bucket.is_empty() && !key.is_empty())
    else {
        return Err(UsageError(format!("'s3://{object}' has no object: s3://BUCKET/KEY")).into());
    };
    let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
    let region = region.unwrap_or_else(|| "us-east-1".to_owned());
    let endpoint = variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"));
    let mut settings = match endpoint {
        Some(endpoint) => line("url", &format!("{}/{bucket}/{key}", endpoint.trim_end_matches('/')))?,
        None => line("url", &format!("https://{bucket}.s3.{region}.amazonaws.com/{key}"))?,
    };
    // Without keys, the object must be public.
    if let (Some(id), Some(secret)) = (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) {
        settings.push_str(&line("aws-sigv4", &format!("aws:amz:{region}:s3"))?);
        settings.push_str(&line("user", &format!("{id}:{secret}"))?);
        if let Some(token) = variable("AWS_SESSION_TOKEN") {
            settings.push_str(&line("header", &format!("x-amz-security-token: {token}"))?);
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_urls_and_signatures() {
        let variable = |name: &str| match name {
            "AWS_ENDPOINT_URL" => Some("http://127.0.0.1:9000/".to_owned()),
            "AWS_ACCESS_KEY_ID" => Some("id".to_owned()),
            "AWS_SECRET_ACCESS_KEY" => Some("a\"b".to_owned()),
            _ => None,
        };
        assert_eq!(
            of_s3("traces/a/b.etl", variable).unwrap(),
            "url = \"http://127.0.0.1:9000/traces/a/b.etl\"\naws-sigv4 = \"aws:amz:us-east-1:s3\"\nuser = \"id:a\\\"b\"\n"
        );
        assert_eq!(
            of_s3("traces/b.etl", |_| None).unwrap(),
            "url = \"https://traces.s3.us-east-1.amazonaws.com/b.etl\"\n"
        );
        assert!(of_s3("traces", |_| None).is_err());
        let broken = |name: &str| (name == "AWS_REGION").then(|| "x\nuser = \"y\"".to_owned());
        assert!(of_s3("a/b", broken).is_err());
    }
}
