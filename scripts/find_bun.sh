# Sourced by run.sh and bin/nixl-media, by POSIX sh. `find_bun ROOT` prints the path of a Bun that suits the package in
# ROOT: the machine's own when it is new enough, else the one in a node_modules folder around the package.

# Prints a version like 1.4.5 or 1.4.5-canary.2 as one number that can be compared.
version_number() {
  saved_ifs=$IFS
  IFS=.
  set -f
  # shellcheck disable=SC2086 # split on purpose
  set -- ${1%%-*} 0 0 0
  set +f
  IFS=$saved_ifs
  case $1$2$3 in *[!0-9]* | '') return 1 ;; esac
  echo $(($1 * 1000000 + $2 * 1000 + $3))
}

# Whether the program is there, runs, and is new enough. A package manager that ran no install scripts leaves a
# stand-in for Bun that only prints a complaint.
is_suitable_bun() { # PROGRAM MINIMUM-NUMBER
  [ -f "$1" ] && [ -x "$1" ] || return 1
  bun_version=$("$1" --version 2>/dev/null) || return 1
  bun_number=$(version_number "$bun_version") || return 1
  [ "$bun_number" -ge "$2" ]
}

find_bun() { # ROOT
  minimum=$(sed -n 's/.*"bun": *">=\([0-9.]*\)".*/\1/p' "$1/package.json" | head -n 1)
  minimum=$(version_number "$minimum") || return 1

  # The machine's own: on PATH (npm puts node_modules/.bin there, which comes later), or where Bun's installer puts it.
  remaining=$PATH:${BUN_INSTALL:-${HOME:-}/.bun}/bin:
  while [ -n "$remaining" ]; do
    folder=${remaining%%:*}
    remaining=${remaining#*:}
    case $folder in */node_modules/.bin | [!/]* | '') continue ;; esac
    if is_suitable_bun "$folder/bun" "$minimum"; then
      echo "$folder/bun"
      return 0
    fi
  done

  # A node_modules folder of the package, or of the project that it is installed in.
  folder=$1
  while :; do
    for candidate in "$folder/node_modules/.bin/bun" "$folder"/node_modules/@oven/bun-linux-*/bin/bun; do
      if is_suitable_bun "$candidate" "$minimum"; then
        echo "$candidate"
        return 0
      fi
    done
    case $folder in /* ) ;; * ) return 1 ;; esac
    [ "$folder" != / ] || return 1
    folder=$(dirname "$folder")
  done
}
