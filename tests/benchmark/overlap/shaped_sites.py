"""Two sites and a hub that routes between them, each in a network namespace of its own; every link is shaped both ways with `tc tbf`. Needs root, iproute2 and a
kernel that allows network namespaces. far_network() has a round trip as well, without netem, which not every kernel has: each site is behind
a namespace of its own, and ../link/relay.cc carries the packets between the two.
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration" / "processes"))
import cluster as processes  # noqa: E402  (reads the folder of the programs from sys.argv[1])

HUB = "lh-hub"
SITES = {"site-a": "10.99.1", "site-b": "10.99.2"}
BURST, LATENCY = "32kb", "100ms"
RELAY = processes.BIN.parent / "benchmark/relay" if processes.BIN else None


def run(*command):
    subprocess.run(command, check=True, capture_output=True, text=True)


def make_network(mbit):
    run("ip", "netns", "add", HUB)
    run("ip", "-n", HUB, "link", "set", "lo", "up")
    for site, net in SITES.items():
        run("ip", "netns", "add", f"lh-{site}")
        run("ip", "-n", f"lh-{site}", "link", "set", "lo", "up")
        run("ip", "-n", HUB, "link", "add", f"to-{site}", "type", "veth", "peer", "name", "uplink", "netns", f"lh-{site}")
        for namespace, link, host in ((HUB, f"to-{site}", 1), (f"lh-{site}", "uplink", 2)):
            run("ip", "-n", namespace, "addr", "add", f"{net}.{host}/24", "dev", link)
            run("ip", "-n", namespace, "link", "set", link, "up")
            run("tc", "-n", namespace, "qdisc", "add", "dev", link, "root", "tbf", "rate", f"{mbit}mbit", "burst", BURST, "latency", LATENCY)
        run("ip", "-n", f"lh-{site}", "route", "add", "default", "via", f"{net}.1")
    run("ip", "netns", "exec", HUB, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")


def data_parallel(text, steps, *flags):
    """What PyTorch's DistributedDataParallel does between the two sites of network(): the row of eager_reference.py."""
    root = pathlib.Path(__file__).resolve().parents[3]
    venv = subprocess.run([root / "deploy/setup.sh", "--print-venv"], check=True, capture_output=True, text=True).stdout.strip()
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "uplink", "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    ranks = [subprocess.Popen(["ip", "netns", "exec", f"lh-{site}", f"{venv}/bin/python", "-B", root / "tests/benchmark/engine/eager_reference.py", text,
                               "--steps", str(steps), "--ranks", str(len(SITES)), "--rank", str(rank), "--meet", f"{SITES['site-a']}.2:29500", *flags],
                              stdout=subprocess.PIPE, text=True, env=environment) for rank, site in enumerate(SITES)]
    try:
        row = ranks[0].communicate(timeout=1200)[0]
        if any(rank.wait(timeout=60) for rank in ranks):
            raise subprocess.CalledProcessError(1, "eager_reference.py")
        return json.loads(row)
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
            rank.stdout.close()


def remove_network():
    for namespace in (HUB, *(f"lh-{site}" for site in SITES), *(f"lh-{site}-way" for site in SITES)):
        subprocess.run(["ip", "netns", "del", namespace], capture_output=True, check=False)


def lacking(mbit=100):
    """Why this machine cannot have them; None if it can. None are left."""
    if not (shutil.which("ip") and shutil.which("tc")):
        return "cannot shape links here: iproute2 is not installed"
    try:
        with network(mbit):
            return None
    except subprocess.CalledProcessError as error:
        return f"cannot make shaped network namespaces here: {error.stderr}"


@contextlib.contextmanager
def network(mbit):
    remove_network()
    try:
        make_network(mbit)
        yield
    finally:
        remove_network()


def shape(mbit):
    """Changes the rate of all links."""
    for site in SITES:
        for namespace, link in ((HUB, f"to-{site}"), (f"lh-{site}", "uplink")):
            run("tc", "-n", namespace, "qdisc", "replace", "dev", link, "root", "tbf", "rate", f"{mbit}mbit", "burst", BURST, "latency", LATENCY)


def make_far_network(mbit, rtt_ms, relays):
    run("ip", "netns", "add", HUB)
    run("ip", "-n", HUB, "link", "set", "lo", "up")
    for site, net in SITES.items():
        near, far = f"lh-{site}-way", f"lh-{site}"
        for namespace in (near, far):
            run("ip", "netns", "add", namespace)
            run("ip", "-n", namespace, "link", "set", "lo", "up")
        run("ip", "-n", HUB, "link", "add", f"to-{site}", "type", "veth", "peer", "name", "uplink", "netns", near)
        for namespace, link, host in ((HUB, f"to-{site}", 1), (near, "uplink", 2)):
            run("ip", "-n", namespace, "addr", "add", f"{net}.{host}/30", "dev", link)
            run("ip", "-n", namespace, "link", "set", link, "up")
        relays.append(subprocess.Popen([RELAY, "--near", near, "--far", far, "--mbit", str(mbit), "--rtt-ms", str(rtt_ms)], stdout=subprocess.PIPE,
                                       text=True))
        if relays[-1].stdout.readline().strip() != "ready":
            raise subprocess.CalledProcessError(relays[-1].wait(), str(RELAY), stderr="it made no link")
        for namespace, host in ((near, 5), (far, 6)):
            run("ip", "-n", namespace, "addr", "add", f"{net}.{host}/30", "dev", "lh-link")
        run("ip", "-n", far, "route", "add", "default", "via", f"{net}.5")
        run("ip", "-n", HUB, "route", "add", f"{net}.4/30", "via", f"{net}.2")
        run("ip", "netns", "exec", near, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")


@contextlib.contextmanager
def far_network(mbit, rtt_ms):
    """As network(), with a round trip between each site and the hub."""
    remove_network()
    relays = []
    try:
        make_far_network(mbit, rtt_ms, relays)
        yield
    finally:
        for relay in relays:
            relay.terminate()
            relay.wait()
            relay.stdout.close()
        remove_network()


@contextlib.contextmanager
def session():
    """A coordinator at the hub and a worker at each site."""
    started = processes.Cluster()
    try:
        started.address = "0.0.0.0:0"
        started.prefix = {"coordinator": ["ip", "netns", "exec", HUB], **{site: ["ip", "netns", "exec", f"lh-{site}"] for site in SITES}}
        started.start_coordinator("--allow-plaintext-beyond-localhost", "--lease", "30s")
        port = started.address.rsplit(":", 1)[1]
        for site, net in SITES.items():
            started.address = f"{net}.1:{port}"
            started.start_worker(site)
        started.address = f"127.0.0.1:{port}"
        yield started
    finally:
        started.close()
