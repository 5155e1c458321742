#!/bin/sh
# As root: makes this machine a node of pool @POOL@, as a service of systemd that starts with the machine.
# /etc/longhaul/worker.env then has room for further settings (LONGHAUL_RANKS=8).
set -e
cd "$(dirname "$0")"
worker=$(command -v longhaul-worker) || { echo "longhaul-worker is not in PATH: install it first (README.txt)" >&2; exit 1; }
id longhaul >/dev/null 2>&1 || useradd --system --home-dir /var/lib/longhaul --shell /usr/sbin/nologin longhaul
install -d /etc/longhaul
install -d -o longhaul -g longhaul -m 750 /etc/longhaul/tls
install -o longhaul -g longhaul -m 600 tls/* /etc/longhaul/tls/
sed -e 's|: tls/|: /etc/longhaul/tls/|' -e 's|^state-dir: .*|state-dir: /var/lib/longhaul/state|' worker.yaml >/etc/longhaul/worker.yaml
[ -e /etc/longhaul/worker.env ] || echo LONGHAUL_CONFIG=/etc/longhaul/worker.yaml >/etc/longhaul/worker.env
sed "s|^ExecStart=.*|ExecStart=$worker|" longhaul-worker.service >/etc/systemd/system/longhaul-worker.service
systemctl daemon-reload
systemctl enable --now longhaul-worker
