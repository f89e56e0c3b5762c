//! Whole pages of `info`, `dump`, `stats` and `report`, on traces that are made here.

use etw_testkit::problems::Problem;

use crate::Etw;
use crate::generated::{damage, write_trace};

/// Compares what these commands print with their snapshots.
macro_rules! pages {
    ($etw:expr, $($name:literal: $words:expr,)*) => {
        $(insta::assert_snapshot!($name, $etw.ok(&$words));)*
    };
}

#[test]
fn info() {
    let etw = Etw::new();
    write_trace(&etw.path("a.etl"), 2000, 0);
    write_trace(&etw.path("lossy.etl"), 2000, 5);
    write_trace(&etw.path("damaged.etl"), 2000, 0);
    damage(&etw.path("damaged.etl"));
    pages! { etw,
        "info": ["info", "a.etl"],
        "info_lossy": ["info", "lossy.etl"],
        "info_damaged": ["info", "damaged.etl"],
        "info_json": ["info", "damaged.etl", "--format", "json"],
    }
}

#[test]
fn dump() {
    let etw = Etw::new();
    write_trace(&etw.path("a.etl"), 3, 0);
    pages! { etw,
        "dump": ["dump", "a.etl"],
        "dump_json": ["dump", "a.etl", "--format", "json"],
        "dump_csv": ["dump", "a.etl", "--format", "csv"],
        "dump_xml": ["dump", "a.etl", "--format", "xml"],
    }
}

#[test]
fn stats() {
    let etw = Etw::new();
    write_trace(&etw.path("a.etl"), 90, 0);
    pages! { etw,
        "stats": ["stats", "a.etl"],
        "stats_top": ["stats", "a.etl", "--by", "process", "--top", "1"],
        "stats_csv": ["stats", "a.etl", "--by", "processor,level", "--format", "csv"],
        "stats_json": ["stats", "a.etl", "--by", "processor,level", "--format", "json"],
    }
}

#[test]
fn report() {
    let etw = Etw::new();
    write_trace(&etw.path("a.etl"), 10, 3);
    for (name, problem) in Problem::ALL {
        std::fs::write(etw.path(&format!("{name}.etl")), problem.bytes().unwrap()).unwrap();
    }
    let rows =
        ["report", "disk-problem.etl", "--table", "disk", "--group-by", "process,path", "--sum", "size"];
    pages! { etw,
        "report_without_kernel_events": ["report", "a.etl"],
        "report_cpu": ["report", "cpu-problem.etl"],
        "report_disk": ["report", "disk-problem.etl"],
        "report_locks": ["report", "lock-convoy.etl"],
        "report_collections": ["report", "gc-problem.etl"],
        "report_wait_chains": ["report", "lock-convoy.etl", "--table", "wait-chains", "--top", "2"],
        "report_xml": ["report", "disk-problem.etl", "--format", "xml"],
        "report_tree": ["report", "cpu-problem.etl", "--tree", "top-down"],
        "report_rows": rows,
    }
}
