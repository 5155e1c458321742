#!/usr/bin/env bash
# Installs what the build needs on Debian 12: the packages of deploy/packages.txt, and the wheels of
# deploy/requirements.txt in a virtual environment under the user's cache folder. Safe to run again: what is there stays.
#   deploy/setup.sh                 install; progress on stderr
#   deploy/setup.sh --print-venv    print the folder of the virtual environment and do nothing else
# The environment's name holds a hash of the pins, so that checkouts with the same pins share it (about 5 GB).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

pins=$(grep -vE '^\s*(#|$)' "$here/requirements.txt" | sha256sum | cut -c1-12)
cache=${LONGHAUL_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:?HOME is not set}/.cache}/longhaul}
venv=$cache/venv-$pins
[ "${1:-}" != --print-venv ] || { echo "$venv"; exit 0; }
[ $# -eq 0 ] || fail "unknown argument '$1' (known: --print-venv)"

install_packages() {
  command -v dpkg-query >/dev/null || fail "this is not a Debian system: install the packages of deploy/packages.txt by hand"
  local missing=() package
  while read -r package; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || missing+=("$package")
  done < <(grep -vE '^\s*(#|$)' "$here/packages.txt")
  [ ${#missing[@]} -gt 0 ] || { say "all Debian packages are installed"; return; }
  if [ "$(id -u)" != 0 ]; then
    fail "these packages are missing and only root can install them; run: sudo apt-get install ${missing[*]}"
  fi
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# The toolkit wheels hold `lib` and versioned names only; nvcc and the linker look for `lib64` and `libX.so`.
link_cuda_names() {
  local cuda=$1 library base
  [ -d "$cuda" ] || fail "the CUDA wheels are incomplete: no $cuda"
  [ -e "$cuda/lib64" ] || ln -s lib "$cuda/lib64"
  for library in "$cuda"/lib/lib*.so.*; do
    base=${library%%.so.*}.so
    [ -e "$base" ] || ln -s "$(basename "$library")" "$base"
  done
}

install_wheels() {
  if [ -e "$venv/.complete" ]; then say "wheels are installed in $venv"; return; fi
  say "installing the wheels of deploy/requirements.txt into $venv (about 5 GB, a few minutes)"
  mkdir -p "$cache"
  exec 9>"$venv.lock"
  flock 9                               # two checkouts that start together install once
  [ ! -e "$venv/.complete" ] || return 0
  rm -rf "$venv"
  /usr/bin/python3 -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --progress-bar off -r "$here/requirements.txt" >&2
  link_cuda_names "$(echo "$venv"/lib/python3*/site-packages/nvidia/cu13)"
  touch "$venv/.complete"
}

install_packages
install_wheels
