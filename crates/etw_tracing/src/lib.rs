//! Events and spans of [`tracing`] as events of Event Tracing for Windows.
//!
//! A [`TracingLayer`] writes to a provider of the program. Sessions enable the provider like any other, at any time;
//! while none does, an event costs a load and a branch.
//!
//! ```
//! use openetw::provider;
//! use tracing_openetw::TracingLayer;
//! use tracing_subscriber::layer::SubscriberExt;
//! use tracing_subscriber::util::SubscriberInitExt;
//!
//! provider!(static APP: "MyCompany.MyApp");
//!
//! APP.register();
//! tracing_subscriber::registry().with(TracingLayer::new(&APP)).init();
//! let _span = tracing::info_span!("request", path = "/").entered();
//! tracing::warn!(status = 404, "not found");
//! ```
//!
//! The values of an event are computed only if a session wants it. Each logging statement is described once, and values
//! are collected in memory that the thread reuses, so writing an event neither allocates nor takes a lock.
//!
//! On Windows they are events of the system's own ETW. Sessions exist on Linux and Windows only; elsewhere this crate is empty.
//!
//! Out of scope: records of `log`, which `openetw-logger` writes.
#![cfg(any(target_os = "linux", windows))]
#![forbid(unsafe_code)]

mod descriptions;
mod layer;

pub use layer::TracingLayer;
