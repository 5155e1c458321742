"""Two sites and a hub, each in a network namespace of its own; every link is shaped both ways with `tc tbf`. Needs root, iproute2 and a
kernel that allows network namespaces.
"""

import contextlib
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration" / "processes"))
import cluster as processes  # noqa: E402  (reads the folder of the programs from sys.argv[1])

HUB = "lh-hub"
SITES = {"site-a": "10.99.1", "site-b": "10.99.2"}
BURST, LATENCY = "32kb", "100ms"


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


def remove_network():
    for namespace in (HUB, *(f"lh-{site}" for site in SITES)):
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
