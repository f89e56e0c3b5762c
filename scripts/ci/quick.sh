#!/bin/sh
# Checks what takes seconds: format, structure, dependencies, and that the page of the viewer is what its source gives.
set -eu
# shellcheck source=scripts/ci/common.sh
. "$(dirname "$0")/common.sh"

need_compiler
need_rust
need_rust_checkers
need_cargo_tool cargo-deny deny
need_cargo_tool cargo-machete machete
need_node

checks format layers dependencies "page of the viewer"
