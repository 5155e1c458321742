#!/usr/bin/env bash
# Runs soak.py with the built programs.
#   tests/soak/run.sh --minutes 30 [--seed N] [--json FILE]
# Environment: BUILD_DIR (default build). As root, in mounts of its own: the coordinator's disk is small and is filled.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
own_mounts=()
unshare -m true 2>/dev/null && own_mounts=(unshare -m)
exec "${own_mounts[@]}" python3 -B tests/soak/soak.py "${BUILD_DIR:-build}/bin" "$@"
