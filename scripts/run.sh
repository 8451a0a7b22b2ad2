#!/bin/sh
# Runs a file of this project with Bun (a shell script by itself), on a fresh clone too: what is missing is installed first.
#
#   scripts/run.sh [--in-callers-folder] FILE [ARG…]
#
# Installing says what it does on stderr, so that stdout stays the program's. The program takes this shell's place (exec),
# so that signals reach it. With --in-callers-folder it runs where npm was called (INIT_CWD) rather than in the project,
# so that relative paths among the arguments mean what the caller meant.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
lock=$root/.native/install.lock
installer=
have_lock=

say() { echo "nixl-media: $*" >&2; }

fail() {
  say "$*"
  exit 1
}

# --- what happens when this shell is ended while it installs ---

release_lock() {
  if [ -n "$have_lock" ]; then rm -f "$lock"; fi
  have_lock=
}

# An installer has children: all of its group, where setsid gave it one.
end_installer() { # SIGNAL
  kill -s "$1" -- "-$installer" 2>/dev/null || kill -s "$1" "$installer" 2>/dev/null || :
}

interrupted() { # SIGNAL
  trap - EXIT HUP INT TERM
  if [ -n "$installer" ]; then
    # By force after a second: npm goes on installing when it is told to end, and what it leaves is half installed in
    # any case, which the next run sees.
    end_installer TERM
    (sleep 1 && end_installer KILL) >/dev/null 2>&1 &
    wait "$installer" 2>/dev/null || :
    kill $! 2>/dev/null || :
  fi
  release_lock
  kill -s "$1" $$
}

# Runs a command in the background with its output on stderr, since a shell handles signals only while it waits.
run_interruptibly() {
  if command -v setsid >/dev/null 2>&1; then
    setsid "$@" </dev/null >&2 &
  else
    "$@" </dev/null >&2 &
  fi
  installer=$!
  result=0
  wait "$installer" || result=$?
  installer=
  return $result
}

# --- one installation at a time ---

# The lock is a symbolic link whose target says who has it: made and filled in one step. A holder on this machine that is
# no longer alive is cleared away, under a second lock, lest two who saw it clear each other's.
take_lock() {
  mkdir -p "$root/.native"
  self=$(uname -n):$$
  waited=0
  refused=0
  until ln -s "$self" "$lock" 2>/dev/null; do
    if ! holder=$(readlink "$lock"); then
      # Given back in this moment; or it cannot be made at all.
      refused=$((refused + 1))
      if [ "$refused" -ge 10 ]; then fail "cannot write to $root/.native, where installing keeps its lock"; fi
      continue
    fi
    if [ "${holder%:*}" = "$(uname -n)" ] && ! [ -d "/proc/${holder##*:}" ]; then
      if mkdir "$lock.clearing" 2>/dev/null; then
        if [ "$(readlink "$lock")" = "$holder" ]; then rm -f "$lock"; fi
        rmdir "$lock.clearing"
        continue
      fi
    fi
    if [ "$waited" = 0 ]; then say "waiting for another installation to end"; fi
    if [ "$waited" -ge 600 ]; then fail "another installation ($holder) does not end: if there is none, remove $lock and $lock.clearing"; fi
    waited=$((waited + 1))
    sleep 1
  done
  have_lock=yes
}

# --- installing ---

# Whether the packages are those of the lockfile: whether a marker that is written last is newer. The first is npm's, for
# who ran it by hand; the second is ours. npm ci begins by removing both.
is_installed() {
  for marker in "$root/node_modules/.package-lock.json" "$root/node_modules/.installed"; do
    if [ -f "$marker" ] && [ -z "$(find "$root/package-lock.json" -newer "$marker")" ]; then return 0; fi
  done
  return 1
}

install_packages() {
  cd "$root"
  if command -v npm >/dev/null 2>&1; then
    say "installing packages with npm (once)"
    # Said in full: npm run -s, NODE_ENV=production and the like reach npm ci through the environment.
    run_interruptibly npm ci --include=dev --include=optional --no-audit --no-fund --loglevel=error ||
      fail "npm could not install the packages; its message is above"
  elif bun=$(find_bun "$root"); then
    say "installing packages with Bun (once)"
    run_interruptibly "$bun" install --frozen-lockfile --no-save ||
      fail "Bun could not install the packages; its message is above"
  else
    fail "neither npm nor a suitable Bun was found: install Node.js with npm, or Bun (https://bun.com)"
  fi
  mkdir -p node_modules
  : >node_modules/.installed
}

# The first time, the native parts are fetched as well for what needs them and does not see to it itself. What cannot be
# had is for the program to say.
first_setup() {
  case $1 in
    src/* | bench/* | test/* | scripts/interop.sh) run_interruptibly "$bun" --no-install "$root/scripts/setup.ts" || : ;;
  esac
}

in_callers_folder=
if [ "${1:-}" = --in-callers-folder ]; then
  in_callers_folder=yes
  shift
fi
file=${1:?usage: scripts/run.sh [--in-callers-folder] FILE [ARG…]}
shift

# shellcheck source=scripts/find_bun.sh
. "$root/scripts/find_bun.sh"

newly_installed=
if ! is_installed; then
  for signal in HUP INT TERM; do
    # shellcheck disable=SC2064 # expanded now on purpose
    trap "interrupted $signal" "$signal"
  done
  trap release_lock EXIT
  take_lock
  if ! is_installed; then
    install_packages
    newly_installed=yes
  fi
  release_lock
fi

bun=$(find_bun "$root") || fail "the packages hold no Bun that runs here: remove $root/node_modules and try again, or install Bun (https://bun.com)"
if [ -n "$newly_installed" ]; then first_setup "$file"; fi
trap - EXIT HUP INT TERM

folder=$root
if [ -n "$in_callers_folder" ] && [ -d "${INIT_CWD:-}" ]; then folder=$INIT_CWD; fi
cd "$folder"
case $file in
  *.sh)
    PATH=$(dirname "$bun"):$PATH
    export PATH
    exec "$root/$file" "$@"
    ;;
esac
# Neither packages nor settings nor variables come from the folder that the caller happens to be in.
exec "$bun" --no-install --no-env-file --config="$root/bunfig.toml" --tsconfig-override="$root/tsconfig.json" "$root/$file" "$@"
