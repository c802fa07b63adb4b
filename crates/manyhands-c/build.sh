#!/bin/sh
# Makes target/dropin: the library that takes the place of libsqlite3, its headers, and plain SQLite of the same version and with the
# same options beside it (stock/), which tests compare it with. With the argument `campaign` it makes target/dropin-campaign instead:
# only the library, and one that can die at its crash points and has faults planted, for the campaigns of reliability/.
#
# The static library has SQLite's functions and ours of the same names. SQLite's get the prefix `stock_`, and ours lose the
# prefix `manyhands_`: see src/lib.rs. No other name than SQLite's is visible outside.
set -eu
cd "$(dirname "$0")/../.."
out=target/dropin
features=
if [ "${1-}" = campaign ]; then
    out=target/dropin-campaign
    features="--features crash-points,planted"
fi
build=target/dropin-build
cargo=${CARGO:-cargo}
# SQLite as Linux distributions build it, with everything that a driver may look for. Foreign keys are off by default, as everywhere.
LIBSQLITE3_FLAGS="-DHAVE_FDATASYNC=1 -DSQLITE_ENABLE_MATH_FUNCTIONS=1 -DSQLITE_MAX_VARIABLE_NUMBER=250000 \
-USQLITE_DEFAULT_FOREIGN_KEYS -DSQLITE_ENABLE_FTS4=1 -DSQLITE_ENABLE_SESSION=1 -DSQLITE_ENABLE_PREUPDATE_HOOK=1 \
-DSQLITE_ENABLE_UNLOCK_NOTIFY=1 -DSQLITE_ENABLE_SNAPSHOT=1 -DSQLITE_ENABLE_NORMALIZE=1 \
-DSQLITE_ENABLE_STMTVTAB=1"
export LIBSQLITE3_FLAGS
# shellcheck disable=SC2086
$cargo rustc --locked --release --quiet --target-dir $build -p manyhands-c $features --crate-type staticlib
ours=$build/release/libmanyhands_c.a
# The folder of the SQLite that was just linked: the newest one.
sqlite=$(ls -td $build/release/build/libsqlite3-sys-*/out/libsqlite3.a | head -1)
sources=$($cargo metadata --locked --format-version 1 | python3 -c 'import json, pathlib, sys
packages = json.load(sys.stdin)["packages"]
print(next(pathlib.Path(it["manifest_path"]).parent for it in packages if it["name"] == "libsqlite3-sys") / "sqlite3")')
version=$(sed -n 's/^#define SQLITE_VERSION  *"\(.*\)"$/\1/p' "$sources/sqlite3.h")

mkdir -p $out/lib/pkgconfig
work=$(mktemp -d "$out/work-XXXXXX")
trap 'rm -rf "$work"' EXIT
nm --defined-only -g "$ours" 2>/dev/null | sed -n 's/.* T manyhands_\(sqlite3.*\)$/\1/p' | sort -u > "$work/ours"
sed 's/.*/& stock_&/' "$work/ours" > "$work/aside"
sed 's/.*/manyhands_& &/' "$work/ours" > "$work/forward"
objcopy --redefine-syms="$work/aside" "$ours" "$work/aside.a"
objcopy --redefine-syms="$work/forward" "$work/aside.a" "$work/libmanyhands_sqlite3.a"
printf '{ global: sqlite3*; local: *; };\n' > "$work/visible"
link="${CC:-cc} -shared -Wl,-soname,libsqlite3.so.0 -Wl,-Bsymbolic -Wl,--gc-sections -Wl,--strip-debug -Wl,--version-script=$work/visible"
# Each name of SQLite's is a root: nothing else keeps a function that only programs call.
roots=$(nm --defined-only -g "$work/libmanyhands_sqlite3.a" 2>/dev/null | sed -n 's/.* [TDRB] \(sqlite3.*\)$/-Wl,-u,\1/p' | sort -u)
# shellcheck disable=SC2086
$link $roots -o "$work/libmanyhands_sqlite3.so" "$work/libmanyhands_sqlite3.a" -lpthread -ldl -lm -lgcc_s

# Other processes may have the old ones loaded: a new file takes the place.
mv "$work/libmanyhands_sqlite3.so" "$out/lib/"
# The last one is what .NET asks for.
for name in libsqlite3.so.0 libsqlite3.so libe_sqlite3.so; do ln -sf libmanyhands_sqlite3.so "$out/lib/$name"; done
if [ -n "$features" ]; then
    echo "$out/lib/libmanyhands_sqlite3.so: for campaigns"
    exit
fi
mv "$work/libmanyhands_sqlite3.a" "$out/lib/"
mkdir -p $out/include $out/stock
$link -o "$work/stock.so" -Wl,--whole-archive "$sqlite" -Wl,--no-whole-archive -lpthread -ldl -lm
mv "$work/stock.so" $out/stock/libsqlite3.so.0
ln -sf libsqlite3.so.0 $out/stock/libsqlite3.so
cp "$sources/sqlite3.h" "$sources/sqlite3ext.h" $out/include/
cat > $out/lib/pkgconfig/sqlite3.pc <<PC
prefix=\${pcfiledir}/../..
libdir=\${prefix}/lib
includedir=\${prefix}/include

Name: SQLite
Description: SQLite's interface, by Manyhands
Version: $version
Libs: -L\${libdir} -lsqlite3
Libs.private: -lm -ldl -lpthread
Cflags: -I\${includedir}
PC
echo "$out/lib/libmanyhands_sqlite3.so: SQLite $version, $(wc -l < "$work/ours") functions of ours"
# For drivers that compile SQLite into themselves.
python3 crates/manyhands-c/loader/generate.py
