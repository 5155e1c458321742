#!/bin/sh
# Puts the tokenizer in Python, and the packages that it needs, where Debian's python3 finds them.
#   tokenizers.sh PIP ROOT        PIP: of Python 3.11; ROOT: the folder below which the image's files lie
set -eu
here=$(cd "$(dirname "$0")" && pwd)
target=$2/usr/local/lib/python3.11/dist-packages
[ -n "${PIP_INDEX_URL:-}" ] || unset PIP_INDEX_URL
"$1" install --quiet --no-cache-dir --disable-pip-version-check --no-deps --target "$target" -r "$here/requirements-tokenizers.txt"
# Without what is generated for the client, which workers do not need.
mkdir -p "$target/longhaul"
cp "$here"/../python/longhaul/*.py "$target/longhaul/"
