#!/bin/sh
# Makes the pictures of docs/viewer.md, in docs/images. Needs Chromium.
#
#   scripts/viewer-screenshots.sh TRACE GC-TRACE GPU-TRACE PROFILE
#
#   TRACE      has samples, context switches, disks and files
#   GC-TRACE   has garbage collections of .NET
#   GPU-TRACE  has context switches with the threads that readied others
#   PROFILE    is a .wpaProfile
set -eu
[ $# = 4 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2; }
trace=$(realpath "$1") gc=$(realpath "$2") gpu=$(realpath "$3") profile=$(realpath "$4")
cd "$(dirname "$0")/.."
mkdir -p docs/images
cargo run --quiet --package etw_viewer --example screenshots -- docs/images "$trace" "$gc" "$gpu" "$profile"
