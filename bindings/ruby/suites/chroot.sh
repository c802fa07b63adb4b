#!/bin/sh
# bindings/ruby/suites/chroot.sh FOLDER [SUITE]
#
# Another Debian's Ruby and Rails, in a folder, with this tree's gem built for it: forky has Ruby 3.3, Rails 7.2, Puma 8 and sqlite3-ruby 2.9. As root, since
# it mounts the tree and this machine's Rust into the folder. What is there is kept: a second call only builds the gem.
set -eu
root=$1 suite=${2:-forky}
tree=$(cd "$(dirname "$0")/../../.." && pwd)
case $suite in
  trixie) libclang=libclang1-19 ;;
  forky) libclang=libclang1-21 ;;
  *) echo "$suite: which libclang has it? trixie and forky are known" >&2; exit 2 ;;
esac
packages=ruby,ruby-dev,ruby-railties,ruby-activerecord,ruby-sqlite3,ruby-minitest,puma,gcc,libc6-dev,make,tzdata,sqlite3,$libclang
if [ ! -e "$root/usr/bin/puma" ]; then
  command -v mmdebstrap >/dev/null || { echo "mmdebstrap is not installed: apt-get install mmdebstrap" >&2; exit 1; }
  mirror=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources | head -1)
  # What is not released yet may have lists whose time is over.
  mmdebstrap --quiet --variant=apt --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Apt::Install-Recommends "false"' \
    --include="$packages" "$suite" "$root" "deb $mirror $suite main"
fi

# Mounts a folder at its own path, once.
show() {
  mkdir -p "$root$1"
  mountpoint -q "$root$1" || mount --bind "$1" "$root$1"
}
mkdir -p "$root/proc"
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
show /dev
show "$tree"
show "${CARGO_HOME:-$HOME/.cargo}"
show "${RUSTUP_HOME:-$HOME/.rustup}"
chroot "$root" env -i HOME="$HOME" LANG=C.UTF-8 PATH="${CARGO_HOME:-$HOME/.cargo}/bin:/usr/bin:/bin" \
  CARGO_HOME="${CARGO_HOME:-$HOME/.cargo}" RUSTUP_HOME="${RUSTUP_HOME:-$HOME/.rustup}" "$tree/bindings/ruby/build.sh"
