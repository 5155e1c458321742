#!/usr/bin/env bash
# Builds the images with buildah, without a daemon and without any registry: their base is made of Debian packages on this machine (mmdebstrap),
# unless --base names another. Needs root and the Debian packages buildah, crun and mmdebstrap.
#   deploy/images/build.sh [--base IMAGE] [--tag TAG] [--jobs N] [--installed PREFIX] [IMAGE]...
#     IMAGE: coordinator, worker, worker-cuda; default: the first two
#     --installed PREFIX   compile nothing: take the programs, and libtorch, that `cmake --install` has put there (not for worker-cuda)
# Packages come from where this machine takes them: its apt sources, its pip configuration and its certificates are
# seen while the images are built, and are not in them. Compiled objects are kept in the user's cache.
# The images are localhost/longhaul-IMAGE:TAG of buildah's own storage (STORAGE_DRIVER, default vfs).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
say() { printf 'images: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
export STORAGE_DRIVER=${STORAGE_DRIVER:-vfs}
base= tag=latest jobs=$(nproc) installed= images=()
while [ $# -gt 0 ]; do
  case $1 in
    --base) base=${2:?--base needs an image}; shift 2 ;;
    --tag) tag=${2:?--tag needs a word}; shift 2 ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift 2 ;;
    --installed) installed=${2:?--installed needs a folder}; shift 2 ;;
    coordinator|worker|worker-cuda) images+=("$1"); shift ;;
    -h|--help) sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit ;;
    *) fail "unknown argument '$1' (images: coordinator, worker, worker-cuda)" ;;
  esac
done
[ ${#images[@]} -gt 0 ] || images=(coordinator worker)
[ "$(id -u)" = 0 ] || fail "needs root: mmdebstrap and buildah's chroot isolation change the owners of files"
for tool in buildah mmdebstrap; do
  command -v "$tool" >/dev/null || fail "no $tool: apt-get install buildah crun mmdebstrap"
done

# Debian 12, the essential packages alone, with Debian's own address in its sources.
make_base() {
  local container folder sources
  buildah inspect --type image "$1" >/dev/null 2>&1 && return
  say "making the base $1"
  mapfile -t sources < <(find /etc/apt/sources.list.d -name '*.sources'; [ ! -s /etc/apt/sources.list ] || echo /etc/apt/sources.list)
  container=$(buildah from scratch)
  folder=$(buildah mount "$container")
  mmdebstrap --quiet --mode=root --variant=minbase bookworm "$folder" "${sources[@]}"
  rm -rf "$folder"/etc/apt/sources.list.d/* "$folder"/etc/apt/sources.list "$folder"/var/lib/apt/lists/* "$folder"/var/cache/apt/*
  echo "deb http://deb.debian.org/debian bookworm main" > "$folder/etc/apt/sources.list.d/debian.list"
  rm -f "$folder/etc/resolv.conf" "$folder/etc/hostname"
  buildah config --cmd bash "$container"
  buildah commit --quiet --rm "$container" "$1" >/dev/null
}

if [ -z "$base" ]; then
  base=localhost/longhaul-base:bookworm
  make_base "$base"
fi
# In the place of the stage `build`, with the same paths.
stage=()
if [ -n "$installed" ]; then
  [[ " ${images[*]} " != *" worker-cuda "* ]] || fail "--installed has no CUDA libraries for worker-cuda"
  context=$(mktemp -d -t longhaul-images.XXXXXX)
  trap 'rm -rf "$context"' EXIT
  chmod 755 "$context"
  install -D -t "$context/build/bin" "$installed"/bin/*
  for library in libtorch_cpu.so libc10.so libgomp.so.1 libcudart.so.13 libcupti.so.13; do
    install -D -m 644 -t "$context/runtime/usr/local/lib/longhaul" "$installed/lib/longhaul/$library"
  done
  deploy/images/tokenizers.sh "$(deploy/setup.sh --print-venv)/bin/pip" "$context/runtime"
  chmod -R go+rX "$context/runtime"
  stage=(--build-context "build=$context")
fi
cache=${LONGHAUL_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:?HOME is not set}/.cache}/longhaul}/images-ccache
mkdir -p "$cache"
mounts=(--volume "$cache:/ccache")
for path in /etc/apt/sources.list.d /etc/apt/sources.list /etc/apt/apt.conf.d /etc/pip.conf; do
  [ ! -s "$path" ] || mounts+=(--volume "$path:$path:ro")
done
# The package ca-certificates of the build stage adds what lies here.
[ ! -e /etc/ssl/certs/ca-certificates.crt ] ||
  mounts+=(--volume /etc/ssl/certs/ca-certificates.crt:/usr/local/share/ca-certificates/this-machine.crt:ro)
version=$(cat VERSION)
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
for image in "${images[@]}"; do
  say "building localhost/longhaul-$image:$tag"
  buildah bud --isolation chroot --format docker --layers=false "${mounts[@]}" "${stage[@]}" ${SOURCE_DATE_EPOCH:+--timestamp "$SOURCE_DATE_EPOCH"} --build-arg "BASE=$base" --build-arg "JOBS=$jobs" \
    --build-arg "VERSION=$version" --build-arg "REVISION=$revision" --build-arg "PIP_INDEX_URL=${PIP_INDEX_URL:-}" \
    -f "deploy/images/$image.Dockerfile" -t "localhost/longhaul-$image:$tag" . >&2
done
