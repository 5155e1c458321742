"""Pushes over a long link, between two network namespaces joined by relay.cc, against raw TCP over the same link.

    python3 tests/benchmark/link/wan.py BUILD/benchmark [--mbit 1000] [--rtt-ms 100] [--smoke]

Prints the rows of wan_benchmark. Needs root, iproute2, network namespaces and TUN devices; says so and ends with status 77
where they are not to be had. In both namespaces net.ipv4.tcp_slow_start_after_idle is 0, so that a connection that idled is
as warm as one that did not; everything else is as the host has it.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys

NEAR, FAR = "lh-near", "lh-far"
HOSTS = {NEAR: "10.98.0.1", FAR: "10.98.0.2"}
SKIPPED = 77


def run(*command):
    subprocess.run(command, check=True, capture_output=True, text=True)


def add_namespaces():
    for namespace in HOSTS:
        run("ip", "netns", "add", namespace)
        run("ip", "-n", namespace, "link", "set", "lo", "up")


def remove_namespaces():
    for namespace in HOSTS:
        subprocess.run(["ip", "netns", "del", namespace], capture_output=True, check=False)


def start(*command):
    """The process, and its first line: what it writes when it is ready."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().split()


def stop(process):
    process.terminate()
    process.wait(timeout=10)


def configure():
    for namespace, host in HOSTS.items():
        run("ip", "-n", namespace, "addr", "add", f"{host}/24", "dev", "lh-link")
        run("ip", "netns", "exec", namespace, "sh", "-c", "echo 0 > /proc/sys/net/ipv4/tcp_slow_start_after_idle")


def measure(programs, options):
    server, ready = start("ip", "netns", "exec", FAR, programs / "wan_benchmark", "serve", HOSTS[FAR])
    try:
        if len(ready) != 3:
            return 1
        command = ["ip", "netns", "exec", NEAR, programs / "wan_benchmark", "measure", HOSTS[FAR], *ready[1:], f"{options.mbit:g}"]
        return subprocess.run(command + (["--smoke"] if options.smoke else []), check=False).returncode
    finally:
        stop(server)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", type=pathlib.Path, help="folder of relay and wan_benchmark")
    parser.add_argument("--mbit", type=float, default=1000)
    parser.add_argument("--rtt-ms", type=float, default=100)
    parser.add_argument("--smoke", action="store_true", help="a few MiB: shows that it runs, its figures mean nothing")
    options = parser.parse_args()
    if options.smoke:
        options.rtt_ms = 20
    if not shutil.which("ip"):
        print("cannot make a long link here: iproute2 is not installed", file=sys.stderr)
        return SKIPPED
    remove_namespaces()
    try:
        add_namespaces()
        relay, ready = start(options.programs / "relay", "--near", NEAR, "--far", FAR, "--mbit", f"{options.mbit:g}", "--rtt-ms", f"{options.rtt_ms:g}")
        if ready != ["ready"]:
            return relay.wait()
        try:
            configure()
            return measure(options.programs, options)
        finally:
            stop(relay)
    except subprocess.CalledProcessError as error:
        print(f"cannot make a long link here: {error.stderr}", file=sys.stderr)
        return SKIPPED
    finally:
        remove_namespaces()


if __name__ == "__main__":
    sys.exit(main())
