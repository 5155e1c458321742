#!/usr/bin/env bash
# Packs everything that a host with a GPU owes this project into one archive: the gpu-labelled tests, the GPU benchmarks and
# the programs of a small job, with the shared libraries that a bare host with PyTorch lacks.
#   tests/gpu/bundle.sh [OUT]       default: build/longhaul-gpu.tar.gz; at most 60 MB
# There (glibc 2.34 or newer, Python with PyTorch 2.11 for CUDA 13): tar xf longhaul-gpu.tar.gz && longhaul-gpu/run.sh
# Options and limits: tests/gpu/README.md.
# Needs a build (tests/run.sh makes one). Environment: BUILD_DIR (default build).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${BUILD_DIR:-build}
exec python3 -B tests/gpu/bundle.py "$build" "${1:-$build/longhaul-gpu.tar.gz}"
