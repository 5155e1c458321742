#!/usr/bin/env bash
# Builds the benchmarks, runs them and collects their rows.
#   tests/benchmark/run.sh [NAME...] [--json FILE] [--list] [-- FLAGS]
# NAME: a benchmark of run.py's table; without one, all. FLAGS are passed to the one that is named. Exit status: run.py says it.
# Environment: BUILD_DIR (default build), a build of users' programs (not of preset ci); JOBS.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${BUILD_DIR:-build}
case " $* " in
  *" --list "* | *" --help "* | *" -h "*) ;;
  *)
    [ -e "$build/CMakeCache.txt" ] || cmake -S . -B "$build" -G Ninja >&2
    if grep -qE '^(LONGHAUL_LIGHTLY:BOOL=ON|LONGHAUL_SANITIZE:STRING=.|CMAKE_BUILD_TYPE:STRING=Debug)' "$build/CMakeCache.txt"; then
      echo "$build has programs for tests, which are slower than those of users: measure another build" >&2
      exit 4
    fi
    cmake --build "$build" --target benchmarks -j "${JOBS:-$(nproc)}" >&2
    ;;
esac
exec python3 -B tests/benchmark/run.py --build "$build" "$@"
