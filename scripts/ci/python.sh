#!/bin/sh
# Checks the Python package with the module of the workspace's build: types, stubs, tests and examples.
set -eu
# shellcheck source=scripts/ci/common.sh
. "$(dirname "$0")/common.sh"

need_compiler c++
need_rust sql
need_python

checks "Python package"
