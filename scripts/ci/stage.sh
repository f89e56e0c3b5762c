#!/bin/sh
# Runs one check of `cargo xtask ci`, with what it needs installed: stage.sh NAME. `cargo xtask ci --list` lists the names.
set -eu
# shellcheck source=scripts/ci/common.sh
. "$(dirname "$0")/common.sh"
[ $# = 1 ] || die "usage: scripts/ci/stage.sh NAME"

need_compiler c++
need_rust sql
case $1 in
    format | "build with Clippy") need_rust_checkers ;;
    dependencies)
        need_cargo_tool cargo-deny deny
        need_cargo_tool cargo-machete machete
        ;;
    "page of the viewer") need_node ;;
    "kernel programs")
        # The versions that made the committed object.
        if ! has clang-14 || ! has llvm-strip-14; then apt_install clang-14 llvm-14; fi
        ;;
    tests) need_test_tools ;;
    "answers of SQL" | "independent readers") need_peers ;;
    "Python package" | "Python wheel") need_python ;;
    "other systems")
        need_rust_checkers
        need_rust_targets x86_64-pc-windows-gnu aarch64-apple-darwin aarch64-unknown-linux-gnu i686-unknown-linux-gnu \
            aarch64-pc-windows-msvc
        need_rust_source
        ;;
    "minimum Rust version") need_rust_toolchain "$msrv" ;;
    big-endian)
        need_rust_targets s390x-unknown-linux-gnu
        need_big_endian
        ;;
    "installed package") need_package_trial ;;
    "Windows programs under Wine") exec scripts/ci/wine.sh ;;
    "fuzzing, a few seconds each") need_cargo_tool cargo-fuzz fuzz ;;
    "benches, for a moment") need_test_tools ;;
esac

case $1 in
    "page of the viewer" | "kernel programs" | "other systems" | "minimum Rust version" | big-endian | "installed package")
        # On other machines these leave out what they lack. Everything is installed here.
        log=$(mktemp)
        failed=$(mktemp)
        trap 'rm -f "$log" "$failed"' EXIT
        { checks "$1" 2>&1 || echo failed >"$failed"; } | tee "$log"
        [ ! -s "$failed" ] || exit 1
        if grep -E '(^|: )(skipped|left out)[:,]' "$log"; then die "a part of the check was left out"; fi
        ;;
    *) checks "$1" ;;
esac
