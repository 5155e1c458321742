#!/usr/bin/env bash
# Writes the seeds of every corpus anew, with the product's own encoders (function Seeds of each target). Other files of a
# corpus, inputs that once showed a fault, stay.
#   tests/fuzz/write_seeds.sh        after a build of the target fuzz_replays. Environment: BUILD_DIR (default build).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

find tests/fuzz -name '*_fuzz.cc' | while read -r source; do
  name=$(basename "$source" .cc)
  "${BUILD_DIR:-build}/fuzz/replay" "$name" --write-seeds "$(dirname "$source")/corpus/$name"
done
