//! The arguments of `etw compare`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use etw_report::compare::{Condition, Format, Request};
use openetw::analysis::{ProcessFilter, TableKind};

use super::number;
use super::report::{ShapeArgs, once, stacks, time};
use super::symbols::SymbolArgs;

/// The examples at the end of `etw compare --help`.
pub(crate) const EXAMPLES: &str = "Examples:
  etw compare before.etl after.etl
  etw compare before.etl after.etl --process make --just-my-code --top 10
  etw compare before.etl after.etl --stacks samples,waits --format html -o difference.html
  etw compare before.etl after.etl --fail-if 'cpu > 10%' --fail-if 'function:parse* > 5%'
  etw compare before.etl after.etl --format json | jq '.tables.functions.functions[:5]'

Weights are compared per second, and as shares of the total. A condition of --fail-if is
  [TABLE] [process:NAME|function:NAME|exclusive:NAME] >|>=|<|<= NUMBER%|NUMBERpp
where TABLE is cpu (the samples) or one of --stacks, % is the change of the weight per second, and pp the change of the
share in percentage points. The exit status is 1 if a condition holds, or if the comparison fails. docs/compare.md has
more.";

/// The arguments of `etw compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Trace from before.
    #[arg(value_name = "BEFORE")]
    pub(crate) before: PathBuf,
    /// Trace from after.
    #[arg(value_name = "AFTER")]
    pub(crate) after: PathBuf,
    /// What to compare by stack [default: samples].
    #[arg(long, visible_alias = "table", value_name = "WHAT", value_delimiter = ',', value_parser = stacks())]
    pub(crate) stacks: Vec<TableKind>,
    /// Fail if this condition on the difference holds.
    #[arg(long, value_name = "CONDITION")]
    pub(crate) fail_if: Vec<Condition>,
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,
    /// Show at most this many rows that grew, and as many that shrank [default: 20; all in JSON].
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    /// Compare only processes with this image name, ignoring case.
    #[arg(long, value_name = "NAME")]
    pub(crate) process: Vec<String>,
    /// Compare only these processes.
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = number::<u32>)]
    pub(crate) pid: Vec<u32>,
    /// Compare only processes of this container of Linux: its name, the first digits of its id, or its pod (`POD`,
    /// `NAMESPACE/POD`).
    #[arg(long, value_name = "CONTAINER")]
    pub(crate) container: Vec<String>,
    /// Compare only processes of this control group of Linux and those below it: `/system.slice/nginx.service`, or names at
    /// any place of its path, `nginx.service`.
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Vec<String>,
    /// Compare only these threads.
    #[arg(long, visible_alias = "thread", value_name = "TID", value_delimiter = ',', value_parser = number::<u32>)]
    pub(crate) tid: Vec<u32>,
    /// Compare events at this time or later in each trace, as for `etw report`.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) from: Option<String>,
    /// Compare events before this time in each trace.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) to: Option<String>,
    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,
    /// Output format.
    #[arg(long, value_enum, default_value_t = CompareFormat::Text)]
    pub(crate) format: CompareFormat,
    /// Write to a file instead of standard output.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Output formats of comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareFormat {
    /// For people.
    Text,
    /// One JSON object.
    Json,
    /// A page with differential flame graphs, in one file.
    Html,
}

impl CompareArgs {
    /// Converts the arguments to a request.
    pub(crate) fn request(self) -> Result<Request> {
        let mut request = Request::new(self.before, self.after);
        let wanted = once(&self.stacks);
        request.tables = if wanted.is_empty() { vec![TableKind::Functions] } else { wanted };
        request.conditions = self.fail_if;
        request.shape = self.shape.shape();
        request.stack_tags = self.shape.stack_tags;
        request.top = self.top;
        request.processes = ProcessFilter {
            ids: self.pid,
            names: self.process,
            containers: self.container,
            control_groups: self.cgroup,
            threads: self.tid,
        };
        request.from = time(self.from.as_deref())?;
        request.to = time(self.to.as_deref())?;
        request.symbols = self.symbols.options();
        request.format = match self.format {
            CompareFormat::Text => Format::Text,
            CompareFormat::Json => Format::Json,
            CompareFormat::Html => Format::Html,
        };
        request.output = self.output;
        Ok(request)
    }
}
