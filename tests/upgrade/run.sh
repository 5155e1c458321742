#!/usr/bin/env bash
# Builds the programs of an earlier commit and mixes them with those of this one (upgrade_test.py). CI leaves it out, since it builds
# everything twice; golden_store_test.py needs no second build.
#   tests/upgrade/run.sh [REVISION] [UNITTEST ARGUMENTS]      REVISION: default the one in tests/upgrade/previous
# Environment: BUILD_DIR (default build), with this commit's programs in BUILD_DIR/bin; JOBS; PREVIOUS_BIN: programs that are built already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${BUILD_DIR:-build}
revision=$(cat tests/upgrade/previous)
if [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; then
  revision=$1
  shift
fi
if [ -z "${PREVIOUS_BIN:-}" ]; then
  commit=$(git rev-parse --verify "$revision^{commit}") || { echo "no commit $revision in this repository: fetch its history" >&2; exit 4; }
  folder=$build/previous/$commit
  if [ ! -e "$folder/.complete" ]; then
    rm -rf "$folder/source"
    mkdir -p "$folder/source"
    git archive "$commit" | tar -x -C "$folder/source"
    cmake -S "$folder/source" -B "$folder/build" -G Ninja -DLONGHAUL_BUILD_TESTS=OFF >"$folder/configure.log"
    ninja -C "$folder/build" ${JOBS:+-j "$JOBS"} longhaul longhaul-coordinator longhaul-worker longhaul-rank
    touch "$folder/.complete"
  fi
  PREVIOUS_BIN=$folder/build/bin
fi
LONGHAUL_PREVIOUS_BIN=$PREVIOUS_BIN python3 -B tests/upgrade/upgrade_test.py "$build/bin" -v "$@"
