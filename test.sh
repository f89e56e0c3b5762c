#!/bin/sh
# Installs what the tests need (Debian, Ubuntu), then runs all checks.
#
#   ./test.sh
#
# Tests on real traces use $OPENETW_DATA or ../shared, and skip with a message if there are none.
# RUN_SLOW_TESTS=1 adds the tests that take minutes.
set -eu
. "$(dirname "$0")/scripts/install.sh"
cd "$(dirname "$0")"

# A build from nothing gains no time from incremental compilation, and it doubles what a build takes on disk.
[ -z "${CI:-}" ] || export CARGO_INCREMENTAL=0

need_compiler c++
need_rust
need_rust_checkers

# The build that all checks use takes longest and needs no more than that: the rest is installed meanwhile.
cargo build --workspace --all-targets &
build=$!
trap 'kill "$build" 2>/dev/null || :' EXIT

need_c_tools
need_tcl
need_rust_targets x86_64-pc-windows-gnu aarch64-apple-darwin aarch64-unknown-linux-gnu i686-unknown-linux-gnu \
    s390x-unknown-linux-gnu
need_rust_toolchain "$msrv"
need_cargo_tool cargo-nextest nextest
need_peers
need_symbol_tools
need_browser
need_node
need_python
need_package_tools
need_big_endian
need_wine
need_dotnet
if [ -n "${RUN_SLOW_TESTS:-}" ]; then
    need_rust_targets aarch64-pc-windows-msvc
    need_rust_source
    need_cargo_tool cargo-fuzz fuzz
fi

wait "$build"
trap - EXIT
exec "${CARGO_TARGET_DIR:-target}/debug/xtask" ci
