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
# Most tests wait for processes half of their time: two run for each core. Those that measure are marked RUN_SERIAL.
OMP_WAIT_POLICY=passive ctest --test-dir "$build" -j $((2 * jobs)) --timeout 900 --output-on-failure --no-tests=error "$@"
