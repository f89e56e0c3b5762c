//! Live sessions, started and stopped from the page with the rights of who runs `etw view --live`.

#![cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "without sessions, requests are only refused")
)]

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

use serde::Deserialize;

#[cfg(target_os = "linux")]
pub(crate) use linux::Live;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::Live;

/// A session to start.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct StartRequest {
    /// Kernel flags, joined by `+`; none if empty.
    #[serde(default)]
    pub(crate) kernel: String,
    /// Provider strings, as those of `etw watch -p`.
    #[serde(default)]
    pub(crate) providers: Vec<String>,
    /// Whether events of providers have their stack.
    #[serde(default)]
    pub(crate) stacks: bool,
    /// A recording profile to record, besides.
    #[serde(default)]
    pub(crate) profile: Option<ProfileRequest>,
}

/// A recording profile.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ProfileRequest {
    /// Its name, with its level of detail or without.
    #[serde(default)]
    pub(crate) name: String,
    /// The file with it (`.wprp`); missing for a built-in one.
    #[serde(default)]
    pub(crate) text: Option<String>,
}

/// A view of what the events tell of the machine.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct TableRequest {
    pub(crate) view: String,
    /// The column to sort by; the view's own order if missing.
    #[serde(default)]
    pub(crate) sort: Option<usize>,
    #[serde(default)]
    pub(crate) descending: bool,
    /// Only rows that contain this text.
    #[serde(default)]
    pub(crate) text: String,
}

/// A rule about the events to show.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RuleRequest {
    pub(crate) column: String,
    pub(crate) relation: String,
    pub(crate) value: String,
    pub(crate) action: String,
}

/// The rules of the view.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RulesRequest {
    pub(crate) rules: Vec<RuleRequest>,
}

/// Lines to show.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct LinesRequest {
    /// Index of the first line; of the last lines if missing.
    #[serde(default)]
    pub(crate) from: Option<usize>,
    pub(crate) limit: usize,
    /// Only events before the one with this number.
    #[serde(default)]
    pub(crate) until: Option<u64>,
}
