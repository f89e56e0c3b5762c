#!/bin/sh
# Makes docs/images/report.png, the picture in the README: records this machine for two seconds while it sorts
# and compresses, and takes a screenshot of the report. Needs root (for the kernel's events) and Chromium.
#
#   scripts/screenshot.sh [ETW]     ETW: the command, by default target/release/etw
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
etw=$(realpath "${1:-$root/target/release/etw}")
for browser in chromium chromium-browser google-chrome ''; do
    command -v "$browser" >/dev/null 2>&1 && break
done
[ -n "$browser" ] || { echo "screenshot.sh: install chromium (apt-get install chromium)" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$etw" record -k Latency+DISPATCHER+NETWORKTRACE -o trace.etl -- sh -c '
    seq 400000 | sort -R | tee numbers | gzip > numbers.gz &
    seq 600000 | awk "{ s += sin(\$1) } END { print s }" > sum
    wait
    sort -n numbers | sha256sum > digest'
"$etw" report trace.etl --format html -o report.html
"$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1200,1120 \
    --screenshot=report.png "file://$work/report.html" 2>/dev/null
mkdir -p "$root/docs/images"
cp report.png "$root/docs/images/report.png"
echo "$root/docs/images/report.png"
