#!/bin/sh
# Makes the packages of a release in target/dist: the Debian package and the archive for Linux, which are tried if this is root,
# or with the argument `windows` the zip file for Windows. On the oldest system that the package is to run on.
set -eu
# shellcheck source=scripts/ci/common.sh
. "$(dirname "$0")/common.sh"

need_compiler c++
need_rust
case ${1:-linux} in
    linux)
        need_package_tools
        need_package_trial
        if [ "$(id -u)" = 0 ]; then cargo xtask dist --check; else cargo xtask dist; fi
        ;;
    windows)
        need_rust_targets x86_64-pc-windows-gnu
        has x86_64-w64-mingw32-gcc || apt_install gcc-mingw-w64-x86-64
        cargo xtask dist --windows
        ;;
    *) die "usage: scripts/ci/dist.sh [linux|windows]" ;;
esac
