#!/bin/sh
# Builds the native shim with the system's compiler, for machines where memory must not be executable: Bun's built-in
# compiler, which otherwise compiles it at start, does not work there. CC names another compiler.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
folder=${NIXL_MEDIA_NATIVE_DIR:-$root/.native}
library=$folder/libnixl_media_shim.so
compiler=${CC:-cc}

command -v "$compiler" >/dev/null 2>&1 || {
  echo "build:shim: there is no compiler '$compiler': install one (Debian: gcc), or name it with CC" >&2
  exit 1
}
mkdir -p "$folder"
# Renamed when it is whole: a program that starts meanwhile must not open half a library.
partial=$library.$$
trap 'rm -f "$partial"' EXIT
"$compiler" -shared -fPIC -O2 -o "$partial" "$root/ffi/shim.c" -ldl
mv "$partial" "$library"
echo "build:shim: $library"
