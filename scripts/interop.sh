#!/usr/bin/env bash
# The interop test: Dynamo's own client, in a Python process, reads what `nixl-media describe` holds.
#
#   scripts/interop.sh [--torch]                  prepare the Python environment, then run the test
#   scripts/interop.sh [--torch] prepare          only prepare the environment
#   scripts/interop.sh [--torch] python ARG…      run Python in the environment, as the test does
#
# Without --torch a numpy stand-in takes torch's place (600 MB are installed, once); with it real torch does (5.5 GB
# more). Everything is kept in .interop/ in the project; nothing is installed elsewhere. PYTHON names the interpreter
# (default python3; 3.11 or newer, with pip).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
sources=$root/test/interop
environment=$root/.interop
python=${PYTHON:-python3}

fail() {
  echo "interop: $1" >&2
  exit 1
}

# Which interpreter and which requirements a layer was made for: a layer with another stamp is made anew.
stamp_of() {
  "$python" -S -c 'import hashlib, sys
print(sys.implementation.cache_tag, hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())' "$1"
}

is_ready() { # FOLDER STAMP
  [[ -f $1/.complete && $(<"$1/.complete") == "$2" ]]
}

# Installs a requirements file into a folder. The folder appears under its name only when it is whole: an interrupted
# run leaves at most a partial folder, which the next run removes.
install_layer() { # NAME REQUIREMENTS SIZE PIP-OPTION…
  local folder=$environment/$1 requirements=$2 size=$3 stamp partial
  shift 3
  stamp=$(stamp_of "$requirements")
  is_ready "$folder" "$stamp" && return
  "$python" -m pip --version >/dev/null 2>&1 || fail "$python has no pip; install it (Debian: python3-pip), or name another interpreter with PYTHON"

  mkdir -p "$environment"
  (
    flock 9
    is_ready "$folder" "$stamp" && exit # another run made it while this one waited
    rm -rf "$environment"/partial.*
    partial=$(mktemp -d "$environment/partial.XXXXXX")
    trap 'rm -rf "$partial"' EXIT
    trap 'exit 130' INT TERM
    echo "interop: installing $(basename "$requirements") into ${folder#"$root"/} ($size, once)" >&2
    "$python" -m pip install --quiet --disable-pip-version-check --no-warn-conflicts --root-user-action ignore \
      --only-binary :all: --no-compile --target "$partial/new" "$@" --requirement "$requirements" >&2 9>&- ||
      fail "pip could not install $(basename "$requirements"); its message is above"
    echo "$stamp" >"$partial/new/.complete"
    if [[ -e $folder ]]; then mv "$folder" "$partial/old"; fi
    mv "$partial/new" "$folder"
  ) 9>"$environment/lock"
}

prepare() {
  "$python" -S -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    fail "needs Python 3.11 or newer; '$python' is not. Install one, or name another interpreter with PYTHON"
  install_layer base "$sources/requirements.txt" "600 MB" --no-deps
  if [[ $torch == real ]]; then install_layer torch "$sources/requirements-torch.txt" "5.5 GB"; fi
}

torch=stand-in
if [[ ${1:-} == --torch ]]; then
  torch=real
  shift
fi

case ${1:-test} in
  prepare)
    prepare
    ;;
  python)
    prepare
    shift
    if [[ $torch == real ]]; then layer=$environment/torch; else layer=$sources/stand_in; fi
    # -S: nothing that happens to be installed on the machine (CUDA bindings, another torch) takes part.
    export PYTHONPATH=$layer:$environment/base PYTHONPYCACHEPREFIX=$environment/bytecode
    exec "$python" -S "$@"
    ;;
  test)
    sh "$root/scripts/run.sh" scripts/setup.ts # packages and libnixl, for the side that is read from
    prepare
    # shellcheck source=scripts/find_bun.sh
    . "$root/scripts/find_bun.sh"
    bun=$(find_bun "$root") || fail "no suitable Bun was found"
    cd "$root"
    INTEROP_TORCH=$torch exec "$bun" --no-install test ./test/interop/interop.test.ts
    ;;
  *)
    fail "unknown command '$1'; see the head of scripts/interop.sh"
    ;;
esac
