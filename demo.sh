#!/bin/sh
# Demonstrates OpenETW: installs missing packages (Debian, Ubuntu), builds `etw`, and decodes a trace.
#
#   ./demo.sh              makes a trace and shows it; on Linux it is recorded, for root also from the system
#   ./demo.sh trace.etl    shows this trace
set -eu
. "$(dirname "$0")/scripts/install.sh"

case ${1:-} in
    -*) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 2 ;;
    '' | /*) trace=${1:-} ;;
    *) trace=$PWD/$1 ;;
esac
cd "$(dirname "$0")"
[ -z "$trace" ] || [ -r "$trace" ] || die "cannot read $trace"

need_compiler
need_rust

say "Building etw"
cargo build --release --package etw_cli --package etw_viewer
target=${CARGO_TARGET_DIR:-target}
etw=$target/release/etw
show() { say "$ etw $*"; "$etw" "$@"; }

if [ -n "$trace" ]; then
    :
elif [ "$(uname -s)" = Linux ]; then
    trace=$target/demo.etl
    say "Recording events written by a shell"
    export etw
    show record --provider Example.Shop --output "$trace" -- sh -c '
        for id in 1 2 3 4 5 6 7 8; do "$etw" write Example.Shop Order id:u32=$id item=tea price=4.5; done'
else
    trace=$target/demo.etl
    say "Making a trace: $trace"
    cargo xtask generate --kind mixed --events 2000 --out "$trace"
fi

show info "$trace"
show dump --limit 10 "$trace"
show dump --limit 3 --format json "$trace"
if [ "$(uname -s)" = Linux ] && [ "$(id -u)" = 0 ] && [ -r /sys/kernel/btf/vmlinux ]; then
    say "Recording system events"
    show record --kernel Latency+DISPATCHER --output "$target/system.etl" --for 3s
    show report "$target/system.etl"
fi
say "To look at it in a browser, run: $etw view $trace"
say "For more, run: $etw --help"
