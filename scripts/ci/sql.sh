#!/bin/sh
# Checks `etw-sql`: its tests, with a server of S3 and a cluster, and where there are real traces its answers against DuckDB's.
set -eu
# shellcheck source=scripts/ci/common.sh
. "$(dirname "$0")/common.sh"

need_compiler c++
need_rust sql
need_cargo_tool cargo-nextest nextest
need_peers

checks "answers of SQL"
# Features are resolved as for all tests, so that nothing is compiled again.
cargo nextest run --workspace --filterset 'package(etw_sql)'
