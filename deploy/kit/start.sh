#!/bin/sh
# Starts a node of pool @POOL@ here. Arguments are those of longhaul-worker, for example --ranks 8 --device cuda.
set -e
cd "$(dirname "$0")"
command -v longhaul-worker >/dev/null || { echo "longhaul-worker is not in PATH: install it first (README.txt)" >&2; exit 1; }
exec longhaul-worker --config worker.yaml "$@"
