//! The kernel logger's flags in `etw provider show`.

use std::io::Write;

use anyhow::Result;
use openetw::kernel::{EnableFlags, Flag, Support};
use serde_json::{Value, json};

/// Writes the flags and groups as text, with their names in each tool.
pub(crate) fn put_text(out: &mut Vec<u8>) -> Result<()> {
    writeln!(
        out,
        "\nFlags of -k (the names of evntrace.h, xperf, recording profiles and logman, and whether Linux supports them)"
    )?;
    let mut put = |[bit, name, xperf, wpr, logman, linux]: [&str; 6]| {
        writeln!(out, "  {bit:<10}  {name:<18}  {xperf:<12}  {wpr:<17}  {logman:<16}  {linux}")
    };
    put(["BIT", "EVNTRACE.H", "XPERF", "WPR", "LOGMAN", "LINUX"])?;
    for flag in EnableFlags::KNOWN {
        let linux = refusal(flag).map_or_else(|| "yes".to_owned(), |reason| format!("no: {reason}"));
        put([&format!("{:#010x}", flag.bit), flag.name, flag.xperf, flag.wpr, flag.logman, &linux])?;
    }
    writeln!(out, "\nGroups")?;
    for (name, members) in EnableFlags::GROUPS {
        writeln!(out, "  {name:<12}  {members}")?;
    }
    Ok(())
}

/// Returns the flags as JSON.
pub(crate) fn flags_json() -> Value {
    let object = |flag: &Flag| {
        json!({
            "Bit": format!("{:#x}", flag.bit),
            "Name": flag.name,
            "Xperf": flag.xperf,
            "Wpr": flag.wpr,
            "Logman": flag.logman,
            "IsGiven": refusal(flag).is_none(),
            "Reason": refusal(flag),
        })
    };
    EnableFlags::KNOWN.iter().map(object).collect()
}

/// Returns the groups as JSON.
pub(crate) fn groups_json() -> Value {
    let object = |(name, members): &(&str, &str)| json!({"Name": name, "Members": members.split('+').collect::<Vec<_>>()});
    EnableFlags::GROUPS.iter().map(object).collect()
}

fn refusal(flag: &Flag) -> Option<&'static str> {
    match flag.support {
        Support::Refused(reason) => Some(reason),
        Support::Captured(_) | Support::Control => None,
    }
}
