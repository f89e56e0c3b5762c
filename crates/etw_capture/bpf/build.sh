#!/bin/sh
# Builds capture.bpf.o from capture.bpf.c, the same bytes wherever it is run.
# Needs clang-14 and llvm-strip-14 (Debian: clang-14, llvm-14), nothing else: no header of the system is used.
# usage: build.sh [OUTPUT]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
case "${1:-}" in
"") output=$here/capture.bpf.o ;;
-*) sed -n '2,4s/^# //p' "$0" && exit 0 ;;
/*) output=$1 ;;
*) output=$PWD/$1 ;;
esac
cd "$here"
# Debug information is where BTF comes from; stripped, only BTF is left.
clang-14 -target bpf -mcpu=v2 -O2 -g -std=gnu11 -nostdinc -Wall -Wextra -Werror -Wno-unused-parameter \
	-Wno-unused-variable -Wno-unused-const-variable "-ffile-prefix-map=$here=." "-fdebug-compilation-dir=." \
	-c capture.bpf.c -o "$output"
llvm-strip-14 --strip-debug "$output"
