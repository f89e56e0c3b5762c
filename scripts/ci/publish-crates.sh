#!/bin/sh
# Publishes the crates of the workspace, those that others depend on first. CARGO_REGISTRY_TOKEN gives the right to do so.
# With --dry-run, it builds each from its package only.
set -eu
# shellcheck source=scripts/ci/common.sh
. "$(dirname "$0")/common.sh"

need_compiler
need_rust
cargo publish --workspace --locked "$@"
