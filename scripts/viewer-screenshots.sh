#!/bin/sh
# Makes the pictures of docs/viewer.md and docs/viewer-tutorial.md, in docs/images. Needs Chromium.
#
#   scripts/viewer-screenshots.sh TRACE GPU-TRACE PROFILE
#
#   TRACE      has samples, disks, files and garbage collections of .NET
#   GPU-TRACE  has packets of graphics adapters
#   PROFILE    is a .wpaProfile
set -eu
[ $# = 3 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
trace=$(realpath "$1") gpu=$(realpath "$2") profile=$(realpath "$3")
cd "$(dirname "$0")/.."
mkdir -p docs/images
OPENETW_RUNTIME_DIR=$(mktemp -d)
export OPENETW_RUNTIME_DIR
trap 'rm -rf "$OPENETW_RUNTIME_DIR"' EXIT
cargo build --quiet --package etw_viewer --example live_events
# The page runs statements with the program beside its server: cargo xtask sql
ln -sf ../etw-sql "${CARGO_TARGET_DIR:-target}/debug/examples/etw-sql"
cargo run --quiet --package etw_viewer --example screenshots -- docs/images "$trace" "$gpu" "$profile"
