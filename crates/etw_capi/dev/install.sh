#!/bin/sh
# Installs the headers, the libraries, a pkg-config file and a CMake package below a directory:
#
#     cargo build --release --package etw_capi
#     crates/etw_capi/dev/install.sh DIR [target/release]
set -eu
if [ $# -lt 1 ]; then
  echo "usage: $0 DIR [DIRECTORY-OF-THE-LIBRARIES]" >&2
  exit 2
fi
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
prefix=$(cd "$1" && pwd)
built=${2:-$here/../../target/release}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml" | head -n 1)
if [ ! -f "$built/libetw_capi.so" ]; then
  echo "$0: no libetw_capi.so in $built; build it with: cargo build --release --package etw_capi" >&2
  exit 1
fi
mkdir -p "$prefix/include/openetw" "$prefix/lib/pkgconfig" "$prefix/lib/cmake/openetw"
cp "$here"/include/*.h "$prefix/include/openetw/"
cp "$built/libetw_capi.so" "$prefix/lib/libopenetw.so.0"
ln -sf libopenetw.so.0 "$prefix/lib/libopenetw.so"
if [ -f "$built/libetw_capi.a" ]; then
  cp "$built/libetw_capi.a" "$prefix/lib/libopenetw.a"
fi
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$here/dev/openetw.pc.in" >"$prefix/lib/pkgconfig/openetw.pc"
cp "$here/dev/openetwConfig.cmake" "$prefix/lib/cmake/openetw/"
