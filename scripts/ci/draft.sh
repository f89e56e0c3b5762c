#!/bin/sh
# Drafts the release of a tag with the files in a directory: draft.sh TAG DIR. Somebody reads it, and publishes it by hand.
set -eu
cd "$(dirname "$0")/../.."
[ $# = 2 ] || { echo "usage: scripts/ci/draft.sh TAG DIR" >&2; exit 2; }

notes=$(mktemp)
trap 'rm -f "$notes"' EXIT
scripts/ci/tag.sh "$1" >"$notes"
gh release create "$1" --draft --verify-tag --title "OpenETW ${1#v}" --notes-file "$notes" "$2"/*
