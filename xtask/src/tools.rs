//! The programs in `tools`, which need the product: `xtask` builds and starts them.

use std::ffi::OsString;
use std::process::Command;

use anyhow::Result;
use clap::Args;
use shell::{built, cargo};

use crate::workspace;

/// The arguments of a tool, which parses them itself: `--help` lists them.
#[derive(Args)]
pub(crate) struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    all: Vec<OsString>,
}

impl Arguments {
    /// Builds the tool in a profile and runs it with these arguments after the given ones.
    pub(crate) fn run(&self, tool: &str, profile: &str, before: &[&str]) -> Result<()> {
        let mut run = cargo(["run", "--quiet", "--profile", profile, "--package", tool, "--"]);
        shell::run(run.args(before).args(&self.all))
    }

    /// Builds the workspace, whose programs the tool needs beside itself, and runs the tool.
    pub(crate) fn run_beside(&self, tool: &str) -> Result<()> {
        workspace::build()?;
        shell::run(Command::new(built(tool)?).args(&self.all))
    }

    /// Runs the benches, in the profile of packages unless they only have to run.
    pub(crate) fn bench(&self) -> Result<()> {
        let is_measured = !self.all.iter().any(|one| one == "--smoke" || one == "--help" || one == "-h");
        self.run("bench", if is_measured { "packaged" } else { "dev" }, &[])
    }
}

/// Runs a tool that the workspace's build has made.
pub(crate) fn run_built(tool: &str, arguments: &[&str]) -> Result<()> {
    shell::run(Command::new(built(tool)?).args(arguments))
}
