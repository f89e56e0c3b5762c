#!/bin/sh
# Shows OpenETW at work: installs what is missing (Debian, Ubuntu; says what), builds `etw`, decodes a trace, and on
# Linux records a program.
#
#   ./demo.sh              makes a trace and shows it
#   ./demo.sh trace.etl    shows a trace of yours
set -eu
. "$(dirname "$0")/scripts/install.sh"

case ${1:-} in
    -*) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2 ;;
    '' | /*) trace=${1:-} ;;
    *) trace=$PWD/$1 ;;
esac
cd "$(dirname "$0")"
[ -z "$trace" ] || [ -r "$trace" ] || die "cannot read $trace"

need_compiler
need_rust

say "Building etw"
cargo build --release --package etw_cli
etw=${CARGO_TARGET_DIR:-target}/release/etw

if [ -z "$trace" ]; then
    trace=${CARGO_TARGET_DIR:-target}/demo.etl
    say "Making a trace: $trace"
    cargo xtask generate --kind mixed --events 2000 --out "$trace"
fi

show() { say "$ etw $*"; "$etw" "$@"; }
show info "$trace"
show dump --limit 10 "$trace"
show dump --limit 3 --format json "$trace"
if [ "$(uname -s)" = Linux ]; then
    say "Recording a program that writes events"
    cargo build --release --package etw_cli --example numbered_events
    target=${CARGO_TARGET_DIR:-target}
    recorded=$target/recorded.etl
    show record --provider Example.Numbers --output "$recorded" -- "$target/release/examples/numbered_events"
    show dump --provider Example.Numbers --limit 3 "$recorded"
fi
say "More: $etw --help"
