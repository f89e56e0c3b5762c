#!/bin/sh
# Publishes the wheels and the source package in a directory: publish-python.sh DIR.
# The right to do so comes from the workflow's identity.
set -eu
# shellcheck source=scripts/ci/common.sh
. "$(dirname "$0")/common.sh"
[ $# = 1 ] || die "usage: scripts/ci/publish-python.sh DIR"

venv=${CARGO_TARGET_DIR:-target}/ci/uv
python3 -m venv "$venv"
"$venv/bin/python" -m pip install -q uv
"$venv/bin/uv" publish --trusted-publishing always "$1"/openetw-*.whl "$1"/openetw-*[0-9].tar.gz
