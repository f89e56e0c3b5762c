#!/bin/sh
# Installs what the checks need (Debian, Ubuntu), then runs them.
#
#   ./test.sh          what every change must pass
#   ./test.sh --all    also other systems, packages, model checking, independent readers, Wine, fuzzing, benches
#
# Tests on real traces use $OPENETW_DATA or ../shared, and skip without them.
# RUN_SLOW_TESTS=1 adds the tests that take minutes.
set -eu
. "$(dirname "$0")/scripts/install.sh"
cd "$(dirname "$0")"
case ${1:-} in
    '' | --all) ;;
    *) die "usage: ./test.sh [--all]" ;;
esac

# A build from nothing gains no time from incremental compilation, and it doubles what a build takes on disk.
[ -z "${CI:-}" ] || export CARGO_INCREMENTAL=0

need_compiler c++
need_rust sql
need_rust_checkers

# The build that all checks use takes longest and needs no more than that: the rest is installed meanwhile.
cargo xtask ci --only "build with Clippy" &
build=$!
trap 'kill "$build" 2>/dev/null || :' EXIT

need_c_tools
need_tcl
need_cargo_tool cargo-nextest nextest
need_cargo_tool cargo-deny deny
need_cargo_tool cargo-machete machete
need_peers
need_symbol_tools
need_browser
need_node
need_python
if [ "${1:-}" = --all ]; then
    need_rust_targets x86_64-pc-windows-gnu aarch64-apple-darwin aarch64-unknown-linux-gnu i686-unknown-linux-gnu \
        s390x-unknown-linux-gnu aarch64-pc-windows-msvc
    need_rust_source
    need_rust_toolchain "$msrv"
    need_cargo_tool cargo-fuzz fuzz
    need_package_trial
    need_big_endian
    need_wine
    need_dotnet
    need_node_for_windows
fi

wait "$build"
trap - EXIT
exec cargo xtask ci "$@"
