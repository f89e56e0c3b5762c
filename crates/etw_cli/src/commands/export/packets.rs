//! Export of network packets in events as a capture file.

use std::io::BufWriter;

use anyhow::Result;
use etw_app::output;
use openetw::export::PcapngWriter;

use super::{for_each, open, say};
use crate::args::export::ExportArgs;

pub(super) fn run(args: &ExportArgs) -> Result<()> {
    let mut opened = open(args)?;
    let out = BufWriter::with_capacity(1 << 16, output::open_data(Some(&args.output))?);
    let mut writer = PcapngWriter::new(out)?;
    for_each(&mut opened, |event| Ok(writer.put(event)?))?;
    let summary = writer.finish()?;
    say(
        &args.output,
        &[
            (summary.packets, &"packets"),
            (summary.fragments, &"events with packets"),
            (summary.others, &"events without packets"),
            (summary.incomplete, &"events with fragments of incomplete packets (omitted)"),
            (summary.unreadable, &"events with unreadable packets (omitted)"),
            (summary.cut, &"packets truncated to 262144 bytes"),
        ],
    );
    if summary.packets == 0 {
        output::warn(
            &"no event contains a packet; record Microsoft-Windows-NDIS-PacketCapture or Microsoft-Windows-PktMon",
        );
    }
    opened.close()
}
