#!/bin/sh
# Makes the pictures of docs/viewer.md, in docs/images. Needs Chromium.
#
#   scripts/viewer-screenshots.sh TRACE     a trace with samples, context switches, disks and files
set -eu
[ $# = 1 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 2; }
trace=$(realpath "$1")
cd "$(dirname "$0")/.."
mkdir -p docs/images
cargo run --quiet --package etw_viewer --example screenshots -- "$trace" docs/images
