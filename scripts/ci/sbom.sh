#!/bin/sh
# Writes what the programs contain, as CycloneDX: sbom.sh DIR. The lists have the dependencies of all systems.
set -eu
# shellcheck source=scripts/ci/common.sh
. "$(dirname "$0")/common.sh"
[ $# = 1 ] || die "usage: scripts/ci/sbom.sh DIR"

need_compiler
need_rust
need_cargo_tool cargo-cyclonedx cyclonedx

mkdir -p "$1"
# It writes a list beside the manifest of each member of the workspace.
remove() { find crates sql bindings tools xtask -name '*.cdx.json' -not -path '*/target/*' -exec rm {} +; }
trap remove EXIT
cargo cyclonedx --manifest-path Cargo.toml --format json --spec-version 1.5 --target all --no-build-deps
for package in etw_cli etw_viewer; do
    mv "crates/$package/$package.cdx.json" "$1/"
done
