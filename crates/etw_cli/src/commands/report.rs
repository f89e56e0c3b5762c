//! `etw report`, and the report pages that tools request.

use anyhow::Result;
use etw_report::Page;
use etw_tools::{PageFormat, PageRequest};

use crate::args::report::ReportArgs;

/// Runs the command.
pub(crate) fn run(args: ReportArgs) -> Result<()> {
    match args.rows_request()? {
        Some(request) => etw_report::rows::run(&request),
        None => etw_report::run(&args.request()?),
    }
}

/// Returns the page that a tool requests.
pub(crate) fn page(request: PageRequest<'_>) -> Result<Vec<u8>> {
    let PageRequest { trace, report, tally, processors, format, rows } = request;
    let page = Page::new(trace, report, tally, processors);
    let mut out = Vec::new();
    match format {
        PageFormat::Xml => page.put_xml(&mut out, rows)?,
        PageFormat::Html => page.put_html(&mut out, rows)?,
    }
    Ok(out)
}
