#!/bin/sh
# Writes SHA256SUMS of the files in a directory, and fails if a file of a release is missing: checksums.sh DIR
set -eu
[ $# = 1 ] || { echo "usage: scripts/ci/checksums.sh DIR" >&2; exit 2; }
cd "$1"

for wanted in '*_amd64.deb' '*_arm64.deb' '*-x86_64-linux.tar.gz' '*-aarch64-linux.tar.gz' '*-x86_64-windows.zip' \
    '*manylinux*_x86_64.whl' '*manylinux*_aarch64.whl' '*macosx*_x86_64.whl' '*macosx*_arm64.whl' '*win_amd64.whl' \
    'openetw-[0-9]*[0-9].tar.gz' etw_cli.cdx.json etw_viewer.cdx.json; do
    if [ -z "$(find . -maxdepth 1 -name "$wanted")" ]; then
        echo "error: there is no $wanted" >&2
        exit 1
    fi
done
rm -f SHA256SUMS
sums=$(LC_ALL=C sha256sum -- *)
printf '%s\n' "$sums" | tee SHA256SUMS
