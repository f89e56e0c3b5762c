#!/bin/sh
# Checks the workspace on Linux: clippy, generated pages, examples in the documentation, all tests, killed writers.
# Tests on real traces skip without them, and tests that need root without root.
set -eu
# shellcheck source=scripts/ci/common.sh
. "$(dirname "$0")/common.sh"

need_compiler c++
need_rust sql
need_rust_checkers
need_test_tools

checks "build with Clippy" "pages of the documentation" "numbers of the schema pack" "examples in the documentation" tests \
    "killed writers, some rounds"
