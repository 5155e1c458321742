#!/usr/bin/env bash
# Sets up, configures, builds and runs all tests.
#   tests/run.sh [CTEST ARGUMENTS]      for example: tests/run.sh -R session     tests/run.sh -L unit
# Environment: BUILD_DIR (default build), JOBS (default: all cores).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${BUILD_DIR:-build}
jobs=${JOBS:-$(nproc)}
failed_list="$build/Testing/Temporary/LastTestsFailed.log"

# Prints the tests of the last run that failed, if they may run again: at most two, all with processes of their own
# (label integration). Those wait for each other, and a machine that is busy with other work may stop one for longer
# than its deadline.
may_run_again() {
  local failed all
  failed=$(cut -d: -f2 "$failed_list" 2>/dev/null) || return 1
  all=$(ctest --test-dir "$build" -N -L integration | sed -n 's/^ *Test *#[0-9]*: //p')
  [ -n "$failed" ] && [ "$(wc -l <<<"$failed")" -le 2 ] || return 1
  while read -r test; do grep -qxF "$test" <<<"$all" || return 1; done <<<"$failed"
  tr '\n' ' ' <<<"$failed"
}

took=
# What was called NAME has ended.
ended() { took+="${took:+, }$1 ${SECONDS}s" SECONDS=0; }

SECONDS=0
deploy/setup.sh
ended set-up
cmake -S . -B "$build" -G Ninja >"$build.configure.log" 2>&1 || { cat "$build.configure.log" >&2; exit 1; }
mv "$build.configure.log" "$build/configure.log"
cmake --build "$build" -j "$jobs"
ended build
rm -f "$failed_list"
export OMP_WAIT_POLICY=passive
# Most tests wait for processes most of their time: three run for each core. None needs the machine for itself.
status=0
ctest --test-dir "$build" -j $((3 * jobs)) --timeout 900 --output-on-failure --no-tests=error "$@" || status=$?
ended tests
echo "$took, on $(nproc) cores"
[ "$status" != 0 ] || exit 0
failed=$(may_run_again) || exit 1
echo "these tests failed, and run again, alone: $failed"
ctest --test-dir "$build" --rerun-failed --timeout 900 --output-on-failure
echo "UNSTEADY: these tests failed beside others and passed alone: $failed"
echo "Look for the race, in the product or in the test, with the output above."
