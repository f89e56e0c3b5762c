//! Marks: user texts among the kernel's events (`PerfInfo/Mark`), written by `xperf -m` and similar commands.

use std::ffi::CString;

use anyhow::{Result, bail};
use etw_app::providers::enable;
use etw_app::status::{Failed, code, usage};
use openetw::kernel_events::ids;
use openetw::provider::{Outcome, Provider};
use openetw::session::Controller;
use openetw::{Guid, Level, Opcode};

use crate::host;

/// Name of the provider that writes marks. On Windows the kernel writes them.
const NAME: &str = "OpenETW-Marks";
/// Type of the event in the class PerfInfo.
const MARK: Opcode = Opcode(ids::PerfInfo::MARK.opcode());

/// Writes a mark into every session that records kernel events.
pub(crate) fn mark(text: &str) -> Result<()> {
    let mut running = host::running()?;
    let sessions = running.as_mut().map(Controller::list).transpose()?.unwrap_or_default();
    let marked = sessions.into_iter().filter(|session| session.properties.enable_flags != 0);
    let names: Vec<String> = marked.map(|session| session.properties.logger_name).collect();
    let Some(controller) = running.as_mut().filter(|_| !names.is_empty()) else {
        let text = "no session records kernel events, which marks need; `xperf -on FLAGS` starts one";
        return Err(Failed::new(code::INSTANCE_NOT_FOUND, text).into());
    };
    mark_in(text, &names, controller)
}

/// Writes a mark into these sessions.
pub(crate) fn mark_in(text: &str, names: &[String], controller: &mut Controller) -> Result<()> {
    let text = CString::new(text).map_err(|_| usage("a mark cannot contain a null character"))?;
    let guid = Guid::from_provider_name(NAME);
    for name in names {
        controller.enable(name, &enable(guid, Level(0), 0, 0))?;
    }
    let provider = Provider::create(NAME, Some(guid), None);
    provider.register();
    let outcome = provider.trace_event(
        &ids::PerfInfo::MARK.class().guid(),
        MARK,
        0,
        Level(0),
        text.as_bytes_with_nul(),
    );
    provider.unregister();
    for name in names {
        controller.disable(name, guid)?;
    }
    match outcome {
        Outcome::Written => Ok(()),
        other => bail!("the mark cannot be written: {other:?}"),
    }
}
