#!/bin/sh
# Compiles the writer in C, and links it to the library of a folder that crates/manyhands-c/build.sh has made: by default target/dropin. The
# writer is put beside that library.
set -eu
cd "$(dirname "$0")/../.."
dropin=${1:-target/dropin}
work=$(mktemp -d "$dropin/writer-XXXXXX")
trap 'rm -rf "$work"' EXIT
${CC:-cc} -O1 -g -Wall -Wextra -Werror -Itarget/dropin/include -o "$work/writer" reliability/c/*.c \
    -L"$dropin/lib" -l:libmanyhands_sqlite3.so -lpthread -Wl,-rpath,'$ORIGIN/lib'
mv "$work/writer" "$dropin/writer"
