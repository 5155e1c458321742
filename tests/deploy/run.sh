#!/usr/bin/env bash
# Runs a long test of deploy/, which CI leaves out, with the Debian packages that it needs (as root they are installed).
#   tests/deploy/run.sh page | images | compose | two-machines | slurm | release | all [UNITTEST ARGUMENTS]
# Environment: BUILD_DIR (default build). `page`, `two-machines` and `slurm` need the programs in BUILD_DIR/bin; `images`, `compose` and
# `release` build theirs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
bin=${BUILD_DIR:-build}/bin
need() {
  local missing=() package
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  [ "$(id -u)" = 0 ] || { echo "run: sudo apt-get install ${missing[*]}" >&2; exit 1; }
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}
page() { need chromium fonts-dejavu-core; python3 -B tests/deploy/page_test.py "$bin" -v "$@"; }
images() { need buildah crun mmdebstrap; python3 -B tests/deploy/images_run_test.py -v "$@"; }
compose() {
  need buildah crun mmdebstrap podman podman-compose netavark aardvark-dns iptables prometheus
  deploy/images/build.sh
  python3 -B tests/deploy/compose_test.py -v "$@"
}
two-machines() { need iproute2 nftables openssl; python3 -B tests/deploy/two_machines_test.py "$bin" -v "$@"; }
slurm() { need slurmctld slurmd slurm-client munge; python3 -B tests/deploy/slurm_test.py "$bin" -v "$@"; }
release() { need mmdebstrap buildah crun lintian openssh-client skopeo; python3 -B tests/deploy/release_run_test.py -v "$@"; }
what=${1:-}
[ $# -eq 0 ] || shift
case $what in
  page|images|compose|two-machines|slurm|release) "$what" "$@" ;;
  all) page "$@"; images "$@"; compose "$@"; two-machines "$@"; slurm "$@"; release "$@" ;;
  *) sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 4 ;;
esac
