#!/bin/sh
# Compiles each story, and runs it in an empty directory on the library of target/dropin, as `make dropin` leaves it.
set -eu
cd "$(dirname "$0")/../../.."
dropin=$PWD/target/dropin
work=$(mktemp -d "$dropin/stories-XXXXXX")
trap 'rm -rf "$work"' EXIT
passed=0
for story in crates/manyhands-c/tests/*.c; do
    name=$(basename "$story" .c)
    mkdir "$work/$name"
    ${CC:-cc} -Wall -Wextra -Werror -g -I"$dropin/include" -o "$work/$name/$name" "$story" -L"$dropin/lib" -lsqlite3 -lpthread
    (cd "$work/$name" && LD_LIBRARY_PATH="$dropin/lib" timeout 120 "./$name") || { echo "$name failed"; exit 1; }
    passed=$((passed + 1))
done
echo "$passed passed, 0 failed"
