//! Whole sessions: a provider's process, a host's, and a consumer's or a file, as they run on any machine.

pub(super) mod consumer;
pub(super) mod host;
mod latency;
mod throughput;
pub(super) mod writer;

use anyhow::Result;
use openetw::{Guid, Level};

use super::Row;
pub(super) use host::Hosted;

/// Name of the bench's provider.
const PROVIDER: &str = "OpenETW.Bench.Session";

/// A manifest for its only event, three integers.
fn manifest() -> String {
    let guid = Guid::from_provider_name(PROVIDER);
    format!(
        r#"<instrumentationManifest xmlns="http://schemas.microsoft.com/win/2004/08/events">
          <instrumentation><events><provider name="{PROVIDER}" guid="{guid}" symbol="BENCH">
            <templates><template tid="Integers">
              <data name="Thread" inType="win:UInt32"/><data name="Number" inType="win:UInt32"/>
              <data name="Time" inType="win:UInt64"/>
            </template></templates>
            <events><event value="1" level="win:Informational" template="Integers" symbol="INTEGERS"/></events>
          </provider></events></instrumentation></instrumentationManifest>"#
    )
}

const EVENT: openetw::EventDescriptor =
    openetw::EventDescriptor { id: 1, level: Level::INFORMATION, ..openetw::EventDescriptor::ZERO };

/// Measures everything.
pub(crate) fn rows(seconds: f64) -> Result<Vec<Row>> {
    let mut rows = throughput::rows(seconds)?;
    rows.extend(latency::rows(seconds)?);
    Ok(rows)
}
