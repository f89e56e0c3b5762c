#!/bin/sh
# LTTng-UST's side of the write bench: builds write.c in DIRECTORY and prints nanoseconds per event, one line per round.
#
# run.sh DIRECTORY MODE KIND THREADS EVENTS ROUNDS
#
# MODE is `overwrite` (a flight recorder without a reader), `file` (to DIRECTORY; events are dropped if the disk is slow,
# and the last line has their number), or `disabled` (a session daemon without a session).
set -eu
# Processes and mounts of its own, where that is allowed: the daemon meets no other one, and ends with this script,
# however that ends.
apart="unshare --mount --pid --fork --kill-child --mount-proc"
if [ -z "${OPENETW_BENCH_APART:-}" ] && $apart true 2>/dev/null; then
    export OPENETW_BENCH_APART=1
    exec $apart "$0" "$@"
fi
if [ -n "${OPENETW_BENCH_APART:-}" ]; then
    # Where the daemon of root has its sockets, whatever LTTNG_HOME is.
    mkdir -p /run/lttng
    mount -t tmpfs tmpfs /run/lttng
fi
here=$(cd "$(dirname "$0")" && pwd)
directory=$1 mode=$2 kind=$3 threads=$4 events=$5 rounds=$6
program=$directory/lttng-write
if [ ! -x "$program" ] || [ "$here/write.c" -nt "$program" ]; then
    cc -O2 -I"$here" -o "$program" "$here/write.c" -llttng-ust -llttng-ust-common -ldl -lpthread
fi
export LTTNG_HOME="$directory" LTTNG_UST_REGISTER_TIMEOUT=3000
session=openetw-bench-$$
daemon=
is_served() { lttng --no-sessiond list >/dev/null 2>&1; }
finish() {
    lttng destroy "$session" >/dev/null 2>&1 || true
    # Stop the daemon if it was started here.
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
    rm -rf "$directory/$session"
}
trap finish EXIT
if ! is_served; then
    lttng-sessiond --quiet >/dev/null &
    daemon=$!
    tries=0
    until is_served; do
        tries=$((tries + 1))
        [ "$tries" -lt 100 ] || { echo "lttng-sessiond does not start" >&2; exit 1; }
        sleep 0.1
    done
fi
case $mode in
overwrite)
    lttng create "$session" --snapshot --output="$directory/$session" >/dev/null
    lttng enable-channel --userspace --session "$session" --overwrite --subbuf-size=512k --num-subbuf=4 bench >/dev/null
    ;;
file)
    lttng create "$session" --output="$directory/$session" >/dev/null
    lttng enable-channel --userspace --session "$session" --discard --subbuf-size=512k --num-subbuf=16 bench >/dev/null
    ;;
esac
if [ "$mode" != disabled ]; then
    lttng enable-event --userspace --session "$session" --channel bench 'openetw_bench:*' >/dev/null
    lttng start "$session" >/dev/null
fi
"$program" "$kind" "$threads" "$events" "$rounds"
if [ "$mode" = file ]; then
    lttng stop "$session" >/dev/null
    lttng list "$session" | sed -n 's/.*Discarded events: *\([0-9]*\).*/lost \1/p' | head -1
fi
