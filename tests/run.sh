#!/usr/bin/env bash
# Sets up, configures, builds and runs all tests of the gate. tests/nightly.sh runs what takes longer.
# 5 GB of wheels are installed: the CUDA sources are compiled, which needs no GPU, and tests compare with PyTorch.
#   tests/run.sh [CTEST ARGUMENTS]      for example: tests/run.sh -R session     tests/run.sh -L unit
# Environment: BUILD_DIR (default build); JOBS (default: all cores); CI=true: a skip that tests/gate/skips.py does not know is an error.
# Exit status: 0 all passed; 1 something failed; 3 UNSTEADY, tests that failed passed alone; 4 tests were wrongly skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${BUILD_DIR:-build}
jobs=${JOBS:-$(nproc)}

SECONDS=0
deploy/setup.sh
set_up=$SECONDS SECONDS=0
cmake -S . -B "$build" -G Ninja -DLONGHAUL_CUDA=ON >"$build.configure.log" 2>&1 || { cat "$build.configure.log" >&2; exit 1; }
mv "$build.configure.log" "$build/configure.log"
cmake --build "$build" -j "$jobs"
echo "set-up ${set_up}s, build ${SECONDS}s, on $(nproc) cores"
export OMP_WAIT_POLICY=passive
# Most tests wait for processes most of their time: three run for each core. None needs the machine for itself.
exec python3 -B tests/gate/run_tests.py --build "$build" --jobs $((3 * jobs)) "$@"
