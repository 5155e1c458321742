#!/usr/bin/env bash
# Installs what the build needs on Debian 12: the packages of deploy/packages.txt, and the wheels of
# deploy/requirements.txt in a virtual environment under the user's cache folder. Safe to run again: what is there stays.
#   deploy/setup.sh                 install; progress on stderr
#   deploy/setup.sh --cpu           what a build without CUDA (LONGHAUL_CUDA=OFF) needs, 1.3 GB instead of 5; its Python
#                                   cannot import torch. A later run without the flag adds the rest.
#   deploy/setup.sh --print-venv    print the folder of the virtual environment and do nothing else
# The environment's name holds a hash of the pins, so that checkouts with the same pins share it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

pins=$(grep -vE '^\s*(#|$)' "$here/requirements.txt" | sha256sum | cut -c1-12)
cache=${LONGHAUL_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:?HOME is not set}/.cache}/longhaul}
venv=$cache/venv-$pins
[ "${1:-}" != --print-venv ] || { echo "$venv"; exit 0; }
cpu=
case $# in
  0) ;;
  *) [ "$*" = --cpu ] || fail "unknown arguments '$*' (known: --cpu, --print-venv)"; cpu=1 ;;
esac

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

has_wheels() { [ -e "$venv/.complete" ] || { [ -n "$cpu" ] && [ -e "$venv/.cpu" ]; }; }

pip_install() {
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --progress-bar off "$@" >&2
}

install_wheels() {
  if has_wheels; then say "wheels are installed in $venv"; return; fi
  local size=5
  [ -z "$cpu" ] || size=1.3
  say "installing pinned wheels into $venv (about $size GB, a few minutes)"
  mkdir -p "$cache"
  exec 9>"$venv.lock"
  flock 9                               # two checkouts that start together install once
  ! has_wheels || return 0
  if [ ! -e "$venv/.cpu" ]; then
    rm -rf "$venv"
    /usr/bin/python3 -m venv "$venv"
  fi
  if [ -n "$cpu" ]; then
    pip_install --no-deps -r "$here/images/requirements-cpu.txt" "$(grep '^numpy==' "$here/requirements.txt")"
    touch "$venv/.cpu"
  else
    pip_install -r "$here/requirements.txt"
    link_cuda_names "$(echo "$venv"/lib/python3*/site-packages/nvidia/cu13)"
    touch "$venv/.complete"
  fi
}

install_packages
install_wheels
