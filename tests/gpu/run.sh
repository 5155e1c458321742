#!/usr/bin/env bash
# Runs everything in this bundle, in under 9 minutes, and writes one report.
#   ./run.sh [--device cuda|cpu] [--torch FOLDER] [--report FILE]
# --torch: the folder of PyTorch's libraries (default: that of the python3 which is on the path).
set -euo pipefail
exec python3 -B "$(dirname "${BASH_SOURCE[0]}")/run.py" "$@"
