#!/bin/sh
# Builds programs for Windows and runs them under Wine, where they use OpenETW. It needs an x86-64 machine, and root for all cases.
set -eu
# shellcheck source=scripts/ci/common.sh
. "$(dirname "$0")/common.sh"

need_compiler c++
need_rust
need_rust_targets x86_64-pc-windows-gnu
need_symbol_tools
need_peers
need_wine
need_dotnet
# The check skips without them.
for tool in wine x86_64-w64-mingw32-gcc mcs; do
    has "$tool" || die "$tool is missing"
done

checks "Windows programs under Wine"
