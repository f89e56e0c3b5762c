#!/bin/sh
# Checks that a tag is that of the workspace's version (v1.2.3), and prints what CHANGELOG.md says of the version: tag.sh TAG
set -eu
cd "$(dirname "$0")/../.."
[ $# = 1 ] || { echo "usage: scripts/ci/tag.sh TAG" >&2; exit 2; }

version=$(sed -n '/^\[workspace\.package\]/,/^\[workspace\.dep/s/^version = "\(.*\)"/\1/p' Cargo.toml)
if [ "$1" != "v$version" ]; then
    echo "error: the tag is $1, and the version in Cargo.toml $version" >&2
    exit 1
fi
notes=$(awk -v start="## [$version]" '
    index($0, start) == 1 { found = 1; next }
    found && /^## / { exit }
    found { print }' CHANGELOG.md)
if [ -z "$notes" ]; then
    echo "error: CHANGELOG.md says nothing of $version: give the changes under \"Unreleased\" its heading, ## [$version]" >&2
    exit 1
fi
printf '%s\n' "$notes"
