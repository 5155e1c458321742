#!/usr/bin/env bash
# Runs everything in this bundle, in under 9 minutes, and writes one report.
#   ./run.sh [--device cuda|cpu] [--torch FOLDER] [--report FILE] [--seconds N] [--only STEP]...
# --torch: the folder of PyTorch's libraries (default: that of the python3 which is on the path).
# --seconds: the limit of the whole run (default: 525). --only: runs this step and no other; may be given again.
# Beside the report (default: report.txt in this folder) lies steps.log, with all that the steps printed.
set -euo pipefail
exec python3 -B "$(dirname "${BASH_SOURCE[0]}")/run.py" "$@"
