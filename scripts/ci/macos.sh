#!/bin/sh
# Checks on macOS what reads traces: the tests of the crates for reading, and the commands of `etw` on small traces.
# It runs on Linux too.
set -eu
cd "$(dirname "$0")/../.."
[ -z "${CI:-}" ] || export CARGO_INCREMENTAL=0

# Those whose tests write no events: `etw_capture` and `etw_provider`, which other tests use, are empty on macOS.
cargo test --lib --tests --package etw_event --package etw_etl --package etw_nettrace --package etw_schema \
    --package etw_schema_windows --package etw_profile --package etw_columns --package etw_export --package etw_consumer \
    --package etw_symbols --package etw_arrow --package etw_timeline
cargo test --lib --package etw_machine --package etw_stacks --package etw_tables --package etw_analysis
cargo test --tests --examples --package openetw --features columns,windows-schemas

cargo build --package etw_cli
target=${CARGO_TARGET_DIR:-target}
etw=$target/debug/etw
work=$target/ci/macos
rm -rf "$work"
mkdir -p "$work"
show() {
    echo "$ etw $*" >&2
    "$etw" "$@"
}

show --version
# The seeds of the fuzz targets are small traces of each kind.
for trace in fuzz/seeds/etl_file/*; do
    name=$(basename "$trace")
    show info "$trace"
    show dump --format json "$trace" >"$work/$name.json"
    [ -s "$work/$name.json" ] || { echo "error: no events in $trace" >&2; exit 1; }
done

trace=fuzz/seeds/etl_file/mixed
show stats "$trace"
show stats --by process "$trace"
show report fuzz/seeds/etl_file/switches
show report --format html -o "$work/report.html" fuzz/seeds/etl_file/switches
show merge "$trace" -o "$work/merged.etl"
show relog "$trace" -o "$work/part.etl" --limit 3
show export "$trace" -o "$work/trace.pftrace"
show export "$trace" -o "$work/tables.parquet"
show provider show Microsoft-Windows-Kernel-Process --event 1
# What was written is read again.
for trace in merged part; do
    show info "$work/$trace.etl"
    show dump --format json "$work/$trace.etl" >"$work/$trace.json"
    [ -s "$work/$trace.json" ] || { echo "error: no events in $trace.etl" >&2; exit 1; }
done
