#!/usr/bin/env bash
# Sets up, configures, builds and runs all tests.
#   tests/run.sh [CTEST ARGUMENTS]      for example: tests/run.sh -R session     tests/run.sh -L unit
# Environment: BUILD_DIR (default build), JOBS (default: all cores).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${BUILD_DIR:-build}
jobs=${JOBS:-$(nproc)}

deploy/setup.sh
cmake -S . -B "$build" -G Ninja >"$build.configure.log" 2>&1 || { cat "$build.configure.log" >&2; exit 1; }
mv "$build.configure.log" "$build/configure.log"
cmake --build "$build" -j "$jobs"
# Tests that measure, or wait for a time, are marked RUN_SERIAL: others would disturb them.
OMP_WAIT_POLICY=passive ctest --test-dir "$build" -j "$jobs" --output-on-failure --no-tests=error "$@"
