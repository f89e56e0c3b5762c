#!/bin/sh
# Builds the wheel, installs it in an environment of its own, and runs all checks and tests.
#
#   ./test.sh [PYTEST ARGUMENTS]
#
# Tests on real traces use $OPENETW_DATA or ../shared beside the checkout, and skip without them.
set -eu
cd "$(dirname "$0")"
target=${CARGO_TARGET_DIR:-target}
venv=$target/venv
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install -q 'maturin>=1.7,<2'
cargo fmt --check
rm -rf "$target/wheels"
"$venv/bin/maturin" build --release --locked --out "$target/wheels"
# shellcheck disable=SC2125
wheel=$(echo "$target"/wheels/*.whl)
"$venv/bin/pip" install -q "$wheel[test]"
"$venv/bin/pip" install -q --force-reinstall --no-deps "$wheel"
exec "$venv/bin/python" -m pytest "$@"
