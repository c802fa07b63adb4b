#!/bin/sh
# Builds the gem's native half for the Ruby in PATH, into lib/manyhands/VERSION of the tree. `build.sh clippy` and
# `build.sh test` look at it instead.
#
# The bindings of Ruby's C API are generated from its headers by libclang, which finds no headers of its own: gcc has them.
set -eu
cd "$(dirname "$0")"
cargo=${CARGO:-cargo}
version=$(ruby -e 'print RUBY_VERSION[/\A\d+\.\d+/]')
if [ -z "${LIBCLANG_PATH:-}" ]; then
  LIBCLANG_PATH=$(dirname "$(ls /usr/lib/llvm-*/lib/libclang[.-]*so* 2>/dev/null | tail -1)")
fi
ls "$LIBCLANG_PATH"/libclang[.-]*so* >/dev/null 2>&1 \
  || { echo "libclang is not installed: sudo apt-get install libclang1-14, or what your distribution calls it; or set LIBCLANG_PATH" >&2; exit 1; }
[ -e "$(ruby -rrbconfig -e 'print RbConfig::CONFIG["rubyhdrdir"]')/ruby.h" ] \
  || { echo "Ruby's headers are not installed: sudo apt-get install ruby-dev" >&2; exit 1; }
export LIBCLANG_PATH
export BINDGEN_EXTRA_CLANG_ARGS="${BINDGEN_EXTRA_CLANG_ARGS:--isystem $(gcc -print-file-name=include)}"
case ${1:-} in
  clippy) exec $cargo clippy --release --locked --quiet --all-targets --target-dir "target/$version" -- -D warnings ;;
  test) exec $cargo test --release --locked --quiet --lib --target-dir "target/$version" ;;
esac
$cargo build --release --locked --quiet --target-dir "target/$version"
mkdir -p "lib/manyhands/$version"
# Other processes may have the old one loaded: a new file takes its place.
cp "target/$version/release/libmanyhands_native.so" "lib/manyhands/$version/new.so"
mv "lib/manyhands/$version/new.so" "lib/manyhands/$version/manyhands_native.so"
