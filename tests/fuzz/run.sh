#!/usr/bin/env bash
# Builds the fuzz targets with libFuzzer and sanitizers, and runs each on its corpus. Fails when one finds a fault; the
# input that shows it is left in build-fuzz/findings/TARGET.
#   tests/fuzz/run.sh [TARGET...] [--seconds N] [-j N]
#     TARGET        all when none is named
#     --seconds N   for each target; default 600
#     -j N          targets at a time; default: all cores
# What a search finds of new inputs is kept in build-fuzz/corpus/TARGET, for the next search.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

seconds=600
jobs=$(nproc)
targets=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --seconds) seconds=$2; shift 2 ;;
    -j) jobs=$2; shift 2 ;;
    -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "unknown option $1; --help shows the options" >&2; exit 2 ;;
    *) targets+=("$1"); shift ;;
  esac
done

if ! command -v clang++-14 >/dev/null; then
  echo "the fuzz targets need clang with libFuzzer: apt-get install clang-14 libclang-rt-14-dev" >&2
  exit 2
fi
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -j "$jobs"
if [[ ${#targets[@]} -eq 0 ]]; then
  mapfile -t targets < <(cd build-fuzz/fuzz && ls)
fi

# Limits of one input: 64 KiB, 10 seconds, one allocation of 256 MiB, the process 2 GiB.
run_one() {
  local target=$1 corpus=build-fuzz/corpus/$1 findings=build-fuzz/findings/$1
  local seeds
  seeds=$(find tests/fuzz -path "*/corpus/$target" -type d)
  mkdir -p "$corpus" "$findings"
  if nice -n 19 "build-fuzz/fuzz/$target" "$corpus" ${seeds:+"$seeds"} -max_total_time="$seconds" -max_len=65536 -len_control=20 \
      -timeout=10 -malloc_limit_mb=256 -rss_limit_mb=2048 -artifact_prefix="$findings/" -print_final_stats=1 \
      >"$findings/log" 2>&1; then
    echo "$target: $(grep -a DONE "$findings/log" | tail -1)"
  else
    echo "$target FAILED: $findings/log"
    grep -aE '^SUMMARY|runtime error|check failed|undocumented|Test unit written' "$findings/log" || true
    return 1
  fi
}
export -f run_one
export seconds
printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I{} bash -c 'run_one {}'
