#!/usr/bin/env bash
# Runs the benchmarks and collects their rows.
#   tests/benchmark/run.sh [NAME...] [--json FILE] [--list]
# NAME: a benchmark of run.py's table; without one, all. Needs a build (tests/run.sh makes one).
# Environment: BUILD_DIR (default build).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec python3 -B tests/benchmark/run.py --build "${BUILD_DIR:-build}" "$@"
