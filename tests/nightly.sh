#!/usr/bin/env bash
# Runs what takes too long for the gate (tests/run.sh), and writes how it went to tests/NIGHTLY.md, which is committed.
#   tests/nightly.sh [PART...]       without one, all; a night on two cores. A part that fails does not stop the others.
#   tests/nightly.sh --list          names the parts and what they do
# Each part begins with an empty folder in build-nightly, except that the parts that need users' programs share those of part gate. A log
# is build-nightly/logs/PART.log. As root the Debian packages that a part needs are installed; a part that this machine cannot run is
# SKIPPED, with the reason.
# Environment: JOBS (default: all cores); BUILD_DIR: where users' programs are instead, for example build after tests/run.sh; FUZZ_SECONDS
# (60, of each target), SOAK_MINUTES (30), SEARCH_MINUTES (20), SIMULATION_SEEDS (20000).
# Exit status: 0 no part failed; 1 one did; 4 there is no such part.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$PWD/build-nightly
jobs=${JOBS:-$(nproc)}
LACKING=77   # The exit status of a part that this machine cannot run; the last line says why.
# No part takes longer, unless it hangs.
PART_HOURS_MAX=6

PARTS=(
  "gate: tests/run.sh from nothing, without a compiler cache"
  "coordinator-only: the build of the coordinator's image (LONGHAUL_WORKER=OFF)"
  "worker-cpu: the build of the worker's image (LONGHAUL_CUDA=OFF)"
  "plain: a build in which each source is compiled alone and parses its own headers"
  "asan: the tests of programs and libraries, and the inputs of the fuzz targets, under AddressSanitizer and UndefinedBehaviorSanitizer"
  "tsan: the same tests under ThreadSanitizer"
  "losses: each claim about a loss, with 16 seeds; Muon against AdamW"
  "simulation: many seeds of the simulated cluster; faults that the product once had, put back into a copy"
  "searches: combinations of options: in the engine, in jobs, over bad links"
  "fuzz: the fuzz targets under libFuzzer"
  "soak: faults for half an hour"
  "page: the status page in a browser"
  "images: the images are built, and train"
  "compose: the compose file on an engine"
  "two-machines: every command of docs/deploy/two-machines.md"
  "slurm: a pool as a batch job of a real Slurm"
  "release: the files of a release are made, installed on systems without a compiler, and train"
  "upgrade: the programs of the previous version mixed with these"
  "benchmarks: the smokes; then all measurements, none below half of its target"
)

lacking() { echo "$*"; exit "$LACKING"; }

# Configures and builds a preset in a folder of its own: FOLDER PRESET [TARGET...]
build() {
  local folder=$work/$1 preset=$2
  shift 2
  rm -rf "$folder"
  cmake --preset "$preset" -B "$folder"
  cmake --build "$folder" -j "$jobs" --target "${@:-all}"
}

# Users' programs, and the targets that are named.
users_build() {
  export BUILD_DIR=${BUILD_DIR:-$work/gate}
  cmake -S . -B "$BUILD_DIR" -G Ninja
  cmake --build "$BUILD_DIR" -j "$jobs" --target longhaul longhaul-coordinator longhaul-worker longhaul-rank longhaul-lm longhaul-sentencepiece "$@"
}

run_tests() {
  local folder=$1
  shift
  CI=true OMP_WAIT_POLICY=passive python3 -B tests/gate/run_tests.py --build "$folder" "$@"
}

# Without the tests of documents, packages and the tests' own tools, which run little of the programs, and without those of memory, of
# which sanitizers take much themselves.
run_sanitized() {
  LONGHAUL_SANITIZED=1 run_tests "$@" --jobs "$jobs" --timeout 7200 -E '^(benchmark|deploy|gate|gpu|nightly|tidy)_|^processes_(footprint|model_memory)_test$'
}

part_gate() {
  rm -rf "$work/gate"
  CI=true CCACHE_DISABLE=1 BUILD_DIR=$work/gate tests/run.sh
}
part_coordinator-only() {
  build coordinator-only coordinator-only
  "$work/coordinator-only/bin/longhaul-coordinator" --version
  "$work/coordinator-only/bin/longhaul" spec init >"$work/coordinator-only/job.yaml"
  "$work/coordinator-only/bin/longhaul" submit --dry-run -f "$work/coordinator-only/job.yaml" >/dev/null
}
part_worker-cpu() {
  build worker-cpu worker-cpu
  "$work/worker-cpu/bin/longhaul-worker" --version
  "$work/worker-cpu/bin/longhaul-rank" --version
}
part_plain() {
  rm -rf "$work/plain"
  cmake -S . -B "$work/plain" -G Ninja -DLONGHAUL_UNITY=OFF -DLONGHAUL_PRECOMPILE=OFF
  # All that is missing, not the first alone.
  cmake --build "$work/plain" -j "$jobs" -- -k 0
}
part_asan() {
  command -v clang++-14 || lacking "no clang++-14"
  build asan asan all fuzz_replays
  run_sanitized "$work/asan" -C fuzz
}
part_tsan() {
  command -v clang++-14 || lacking "no clang++-14"
  build tsan tsan
  run_sanitized "$work/tsan"
}
part_losses() {
  users_build partition_test onebit_test fused_blocks_test
  LONGHAUL_SEEDS=16 run_tests "$BUILD_DIR" --jobs 1 --timeout 10800 -C losses -L losses
  python3 -B tests/paper/muon_against_adamw.py "$BUILD_DIR/bin" --steps 900 --seeds 1 2 3
}
part_simulation() {
  users_build cluster_search
  "$BUILD_DIR/bin/cluster_search" --seeds "${SIMULATION_SEEDS:-20000}"
  rm -rf "$work/planted"
  python3 -B tests/simulation/planted_faults.py "$work/planted"
}
part_searches() {
  users_build worker_engine_test
  local minutes=${SEARCH_MINUTES:-20} seed
  seed=$(date +%Y%j)
  LONGHAUL_SEEDS=1000 "$BUILD_DIR/tests/worker_engine_test" --gtest_filter='*Combinations*'
  python3 -B tests/integration/combinations/job_search.py "$BUILD_DIR/bin" --minutes "$minutes" --seed "$seed"
  python3 -B tests/integration/combinations/link_search.py "$BUILD_DIR/bin" --minutes "$minutes" --seed "$seed"
}
part_fuzz() {
  command -v clang++-14 || lacking "no clang++-14"
  tests/fuzz/run.sh --seconds "${FUZZ_SECONDS:-60}" -j "$jobs"
}
part_soak() {
  users_build
  tests/soak/run.sh --minutes "${SOAK_MINUTES:-30}" --seed "$(date +%Y%j)"
}
# The long tests of deploy/, which install what they need.
deployment() {
  [ "$(id -u)" = 0 ] || lacking "needs root"
  users_build
  tests/deploy/run.sh "$1"
}
part_page() { deployment page; }
part_images() { deployment images; }
part_compose() { deployment compose; }
part_two-machines() { deployment two-machines; }
part_slurm() { deployment slurm; }
part_release() {
  [ "$(id -u)" = 0 ] || lacking "needs root"
  # From nothing, as they are published: the programs of BUILD_DIR name folders of this machine.
  rm -rf build-release
  BUILD_DIR='' tests/deploy/run.sh release
}
part_upgrade() {
  users_build
  tests/upgrade/run.sh
}
part_benchmarks() {
  users_build benchmarks
  run_tests "$BUILD_DIR" --jobs 1 -C benchmarks -L benchmark
  tests/benchmark/run.sh --json "$work/benchmarks.json"
}

names=()
for part in "${PARTS[@]}"; do names+=("${part%%:*}"); done

case ${1:-} in
  --list) printf '%s\n' "${PARTS[@]}"; exit ;;
  --part)
    # One part as a process of its own: so it ends at its first error.
    "part_$2"
    exit ;;
  -*) sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 4 ;;
esac
chosen=("${@:-${names[@]}}")
for name in "${chosen[@]}"; do
  [[ " ${names[*]} " == *" $name "* ]] || { echo "there is no part $name, but ${names[*]}" >&2; exit 4; }
done

deploy/setup.sh
mkdir -p "$work/logs"
failed=()
for name in "${chosen[@]}"; do
  log=$work/logs/$name.log
  echo "$(date +%H:%M) $name"
  SECONDS=0 status=0
  timeout --foreground "${PART_HOURS_MAX}h" tests/nightly.sh --part "$name" >"$log" 2>&1 </dev/null || status=$?
  case $status in
    0) result=passed ;;
    "$LACKING") result=SKIPPED ;;
    124) result="FAILED after ${PART_HOURS_MAX} hours" ;;
    *) result=FAILED ;;
  esac
  [[ $result != FAILED* ]] || failed+=("$name")
  python3 -B tests/gate/nightly_report.py tests/NIGHTLY.md "$name" "$result" "$SECONDS" "$log" "${names[@]}"
done
[ ${#failed[@]} -gt 0 ] || exit 0
echo "FAILED: ${failed[*]}; logs in $work/logs"
exit 1
