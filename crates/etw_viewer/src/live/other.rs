//! The stand-in where there are no live sessions.

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::{LinesRequest, ProfileRequest, RulesRequest, StartRequest, TableRequest};

const TEXT: &str = "live sessions exist on Linux only";

/// No live sessions.
#[derive(Debug, Default)]
pub(crate) struct Live;

impl Live {
    pub(crate) fn describe(&self) -> Value {
        json!({ "session": null, "problem": TEXT })
    }

    pub(crate) fn start(&self, _request: &StartRequest) -> Result<()> {
        bail!(TEXT)
    }

    pub(crate) fn stop(&self) -> Result<()> {
        bail!(TEXT)
    }

    pub(crate) fn set_rules(&self, _request: &RulesRequest) -> Result<()> {
        bail!(TEXT)
    }

    pub(crate) fn lines(&self, _request: LinesRequest) -> Result<Value> {
        bail!(TEXT)
    }

    pub(crate) fn tables(&self, _request: &TableRequest) -> Result<Value> {
        bail!(TEXT)
    }

    pub(crate) fn profiles(_request: &ProfileRequest) -> Result<Value> {
        bail!(TEXT)
    }

    pub(crate) fn details(&self, _number: u64) -> Result<Value> {
        bail!(TEXT)
    }

    pub(crate) fn save(&self, _only_shown: bool) -> Result<Vec<u8>> {
        bail!(TEXT)
    }
}
