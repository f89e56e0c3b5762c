#!/bin/sh
# Runs all tests as root, among them those that only root can run: capture of the kernel, namespaces, other users.
# They are compiled before, as the user.
set -eu
# shellcheck source=scripts/ci/common.sh
. "$(dirname "$0")/common.sh"

need_compiler c++
need_rust sql
need_test_tools

checks build
status=0
as_root env "PATH=$PATH" "HOME=$HOME" "CI=${CI:-}" "CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-1}" \
    cargo xtask ci --only tests || status=$?
# The user's next build writes there.
[ "$(id -u)" = 0 ] || as_root chown -R "$(id -u):$(id -g)" "${CARGO_TARGET_DIR:-target}"
exit "$status"
