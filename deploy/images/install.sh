#!/bin/sh
# Within an image: installs the Debian packages that a list names and leaves nothing behind but them.
#   install.sh LIST        a package on each line; # begins a comment
# DEBIAN_MIRROR: where from, if not from where the base image says.
set -eu
if [ -n "${DEBIAN_MIRROR:-}" ]; then
  rm -f /etc/apt/sources.list.d/*
  echo "deb $DEBIAN_MIRROR bookworm main" > /etc/apt/sources.list
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
sed 's/#.*//' "$1" | xargs apt-get install -y -qq --no-install-recommends
rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb /var/cache/apt/*.bin /var/log/apt /var/log/dpkg.log
