#!/usr/bin/env bash
# Makes the artefacts of a release from the committed tree, on Debian 12, x86-64:
#   deploy/release.sh [--out DIR] [--build DIR] [--sign KEY] [--uncommitted] [PART...]     PART: deb tarball wheels images chart; default: all
#     --out DIR      where they go (default: dist); it must not exist, or be empty
#     --build DIR    a build folder that is there, instead of build-release from nothing; its programs name the folder of the sources
#     --sign KEY     a private key of OpenSSH (ssh-keygen -t ed25519) with which SHA256SUMS is signed
#     --uncommitted  changes that are not committed are no error; the provenance says so
# deb: longhaul and longhaul-worker for Debian 12. tarball: programs with all libraries for other distributions. wheels:
# longhaul-cpu, longhaul-cuda, longhaul-programs, longhaul-client. images: OCI archives of coordinator and worker (needs root, buildah and mmdebstrap;
# skipped without). chart: the Helm chart, as `helm install` takes it and as OCI archive. Beside them a bill of materials, the provenance and SHA256SUMS.
# The time of every file is that of the commit (SOURCE_DATE_EPOCH), so that the same commit gives the same files, except images.
# docs/deploy/install.md says how to verify them. Environment: JOBS (default: all cores); RELEASE_BUILDER (default: local), who builds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
say() { printf 'release: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
out=dist build= key= uncommitted= parts=()
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=${2:?--out needs a folder}; shift 2 ;;
    --build) build=${2:?--build needs a folder}; shift 2 ;;
    --sign) key=${2:?--sign needs a file}; shift 2 ;;
    --uncommitted) uncommitted=1; shift ;;
    deb|tarball|wheels|images|chart) parts+=("$1"); shift ;;
    -h|--help) sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit ;;
    *) say "unknown argument '$1'"; sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 4 ;;
  esac
done
[ ${#parts[@]} -gt 0 ] || parts=(deb tarball wheels images chart)
has() { [[ " ${parts[*]} " == *" $1 "* ]]; }
jobs=${JOBS:-$(nproc)}
version=$(cat VERSION)
commit=$(git rev-parse HEAD) clean=true
[ -z "$(git status --porcelain)" ] || clean=false
[ "$clean" = true ] || [ -n "$uncommitted" ] || fail "the tree has changes that are not committed (git status); --uncommitted allows them"
[ -z "$key" ] || [ -r "$key" ] || fail "no key $key"
[ -z "$(ls -A "$out" 2>/dev/null)" ] || fail "$out holds files: remove it, or choose another folder with --out"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
umask 022
mkdir -p "$out"
out=$(realpath "$out")
work=$(mktemp -d -t longhaul-release.XXXXXX)
trap 'rm -rf "$work"' EXIT

deploy/setup.sh
# Tools of the release, as the wheels of deploy/setup.sh.
cache=$(dirname "$(deploy/setup.sh --print-venv)")
tools=$cache/release-$(sha256sum deploy/release/requirements.txt | cut -c1-12)
if [ ! -e "$tools/.complete" ]; then
  rm -rf "$tools"
  /usr/bin/python3 -m venv "$tools"
  "$tools/bin/python" -m pip install --quiet --disable-pip-version-check --no-input -r deploy/release/requirements.txt >&2
  touch "$tools/.complete"
fi
PATH=$tools/bin:$PATH

mapped=
if [ -z "$build" ]; then
  build=build-release mapped=1
  say "building in $build"
  # Messages name sources as below the root of the tree, wherever it lies.
  map="-ffile-prefix-map=$PWD/= -ffile-prefix-map=$(deploy/setup.sh --print-venv)/="
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLONGHAUL_BUILD_TESTS=OFF -DCMAKE_CXX_FLAGS="$map" \
    -DCMAKE_CUDA_FLAGS="${map//-ffile/-Xcompiler=-ffile}" >&2
fi
cmake --build "$build" -j "$jobs" --target longhaul longhaul-coordinator longhaul-sentencepiece longhaul-worker longhaul-rank longhaul-lm \
  longhaul_cuda_modules >&2
for component in longhaul longhaul-worker cuda bundled; do
  cmake --install "$build" --prefix "$work/stage" --component "$component" --strip >/dev/null
done
if [ -n "$mapped" ] && named=$(grep -lF -e "$PWD/" -e "$(deploy/setup.sh --print-venv)" "$work"/stage/bin/* "$work"/stage/lib/*.so); then
  fail "these programs name folders of this machine: $named"
fi

package() {  # GENERATOR: cpack leaves its work beside the packages.
  say "packaging: $1"
  (cd "$build" && cpack -G "$1" -B "$work/$1" >"$work/$1.log") || { cat "$work/$1.log" >&2; fail "cpack -G $1 failed"; }
  find "$work/$1" -maxdepth 1 -type f \( -name '*.deb' -o -name '*.tar.gz' \) -exec mv -t "$out" {} +
}
! has deb || package DEB
! has tarball || package TGZ
if has wheels; then
  say "packaging: wheels"
  "$tools/bin/python" -B deploy/release/wheels.py "$work/stage" "$out"
  # Of a copy, since a build leaves files behind.
  mkdir -p "$work/client/deploy"
  cp -r deploy/python "$work/client/deploy/"
  cp -r proto VERSION "$work/client/"
  "$tools/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-input -w "$out" "$work/client/deploy/python" >&2
fi
if has chart; then
  say "packaging: chart"
  "$tools/bin/python" -B deploy/release/chart.py "$out"
fi
skipped=
if has images; then
  lacks=
  [ "$(id -u)" = 0 ] || lacks="root"
  for tool in buildah mmdebstrap; do command -v "$tool" >/dev/null || lacks="${lacks:+$lacks, }$tool"; done
  if [ -n "$lacks" ]; then
    skipped="images (this machine lacks $lacks)"
    say "SKIPPED: $skipped"
  else
    export STORAGE_DRIVER=${STORAGE_DRIVER:-vfs}
    deploy/images/build.sh --tag "$version" --installed "$work/stage" coordinator worker
    for image in coordinator worker; do
      buildah push --quiet "localhost/longhaul-$image:$version" "oci-archive:$out/longhaul-$image-$version.oci.tar:longhaul-$image:$version" >&2
    done
  fi
fi

"$tools/bin/python" -B deploy/release/statements.py "$work/stage" "$out" commit="$commit" clean="$clean" builder="${RELEASE_BUILDER:-local}" skipped="$skipped"
(cd "$out" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%f\n' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS)
if [ -n "$key" ]; then
  ssh-keygen -q -Y sign -n longhaul-release -f "$key" "$out/SHA256SUMS"
else
  say "not signed: --sign KEY signs SHA256SUMS"
fi
say "$version in $out:"
(cd "$out" && du -h --apparent-size -- *) >&2
