#!/usr/bin/env bash
# Renders the chart without Helm, by Go's text/template and sprig, Helm's own engine (deploy/helm/render).
#   deploy/helm/render.sh RELEASE [VALUES.yaml ...]      manifests on standard output
#   deploy/helm/render.sh --write                        makes deploy/kubernetes/*.yaml anew
# Values that are not as values.schema.json says are refused, with exit status 4.
# GO names the go program (Debian: golang-go), GOPATH where sprig, yaml.v3 and gojsonschema are (Debian: golang-github-masterminds-sprig-dev,
# golang-github-xeipuuv-gojsonschema-dev).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GO111MODULE=off GOPATH=${GOPATH:-/usr/share/gocode} GOCACHE=${GOCACHE:-$work/cache} GOFLAGS=
# In the cache, where go finds what it made before.
render=$GOCACHE/longhaul-render
"${GO:-go}" build -o "$render" "$here/render/main.go"
head='# Made of deploy/helm/longhaul by deploy/helm/render.sh --write: change the chart.'
if [ "${1:-}" = --write ]; then
  mkdir -p "$here/../kubernetes"
  { echo "$head"; "$render" "$here/longhaul" longhaul; } > "$here/../kubernetes/longhaul.yaml"
  for values in "$here"/values/*.yaml; do
    { echo "$head"; "$render" "$here/longhaul" longhaul "$values"; } > "$here/../kubernetes/$(basename "$values")"
  done
else
  "$render" "$here/longhaul" "${@:?usage: render.sh RELEASE [VALUES.yaml ...]}"
fi
