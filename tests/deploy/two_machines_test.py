"""docs/deploy/two-machines.md, command by command, on two machines that are namespaces of this one: network, mounts, host name. Needs root and nft.

    two_machines_test.py BUILD/bin [unittest arguments]

What a namespace lacks is stood in for: systemctl by a program that runs a unit's ExecStart with its user and environment, scp by a copy, docker by
container_engine.py, which runs this machine's files with what the Dockerfiles say of an image (images_run_test.py runs the images' own files).
"""

import os
import pathlib
import re
import signal
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None
PAGE = ROOT / "docs/deploy/two-machines.md"
ADDRESS = {"hub": "10.77.0.1", "site": "10.77.0.2"}

# Of both machines. Units run in this mount and network namespace; "is-active" is what the test itself asks.
SYSTEMCTL = r"""#!/usr/bin/env python3
import os, pathlib, pwd, signal, subprocess, sys, time
state = pathlib.Path("/run/units"); state.mkdir(exist_ok=True)
words = [w for w in sys.argv[1:] if not w.startswith("-")]
verb, names = words[0], words[1:]
def start(name):
    unit = {}
    for line in pathlib.Path(f"/etc/systemd/system/{name}.service").read_text().splitlines():
        key, _, value = line.partition("=")
        unit.setdefault(key, []).append(value)
    environment = dict(e.split("=", 1) for e in unit.get("Environment", []))
    for line in pathlib.Path(unit["EnvironmentFile"][0]).read_text().splitlines():
        key, _, value = line.partition("=")
        environment[key] = value
    user = pwd.getpwnam(unit["User"][0])
    for folder in " ".join(unit.get("StateDirectory", [])).split():
        path = pathlib.Path("/var/lib", folder); path.mkdir(exist_ok=True)
        os.chown(path, user.pw_uid, user.pw_gid)
    log = open(state / f"{name}.log", "ab")
    process = subprocess.Popen(unit["ExecStart"][0].split(), env={**environment, "PATH": "/usr/bin:/bin"}, user=user.pw_uid, group=user.pw_gid,
                               extra_groups=[], cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    time.sleep(0.5)
    if process.poll() is not None:
        sys.exit(f"{name} ended with {process.returncode}: " + (state / f"{name}.log").read_text()[-2000:])
    (state / name).write_text(str(process.pid))
def running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
def stop(name):
    pid = int((state / name).read_text())
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 45
    while running(pid):
        if time.monotonic() > deadline:
            sys.exit(f"{name} does not stop")
        time.sleep(0.05)
if verb not in ("daemon-reload", "enable", "start", "stop", "restart"):
    sys.exit("not stood in for: " + verb)
for name in names:
    if verb in ("stop", "restart"):
        stop(name)
    if verb in ("enable", "start", "restart"):
        start(name)
"""


def commands():
    """[(machines, script)] of the page's shell blocks; one without a machine is not repeated."""
    return [(words.split(), block) for words, block in re.findall(r"^```sh *([a-z ]*)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)]


class Machine:
    """Programs run in it by `run`. Its /etc, /usr/local, /var/lib, /srv, /opt and /run are its own."""

    OWN = ("etc", "usr/local", "var/lib", "srv", "run")

    def __init__(self, name, folder):
        self.name, self.netns = name, f"lh2-{name}"
        self.folder = folder / name
        self.folder.mkdir()
        subprocess.run(["ip", "netns", "add", self.netns], check=True)
        # The home of this test's user keeps programs and wheels that a service's user must be able to read.
        mounts = "".join(
            f"mkdir -p {self.folder}/{path}.upper {self.folder}/{path}.work\n"
            f"mount -t overlay overlay -o lowerdir=/{path},upperdir={self.folder}/{path}.upper,workdir={self.folder}/{path}.work /{path}\n"
            for path in self.OWN)
        home = pathlib.Path.home()
        script = f"""set -e
mount --make-rprivate /
{mounts}
mkdir -p {self.folder}/home
if [ -d {home}/.cache ]; then mkdir {self.folder}/home/.cache; mount --bind {home}/.cache {self.folder}/home/.cache; fi
chmod 755 {self.folder}/home; mount --rbind {self.folder}/home {home}
hostname {name}
echo "{ADDRESS['hub']} hub.example hub
{ADDRESS['site']} site" >> /etc/hosts
touch {self.folder}/up
exec sleep infinity"""
        self.holder = subprocess.Popen(["ip", "netns", "exec", self.netns, "unshare", "-m", "-u", "bash", "-c", script], stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while not (self.folder / "up").exists():
            if self.holder.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the machine {name} does not come up")
            time.sleep(0.05)

    def command(self, script):
        prologue = f"export PATH=/usr/local/stand-in:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root; cd {ROOT}; set -euo pipefail\n"
        return ["nsenter", "-t", str(self.holder.pid), "-m", "-u", f"--net=/run/netns/{self.netns}", "bash", "-c", prologue + script]

    def run(self, script, check=True, timeout=300):
        result = subprocess.run(self.command(script), capture_output=True, text=True, timeout=timeout, check=False, stdin=subprocess.DEVNULL)
        if check and result.returncode != 0:
            raise AssertionError(f"on {self.name}:\n{script}\n{result.stdout}{result.stderr}{self.logs()}")
        return result

    def logs(self):
        result = subprocess.run(self.command("tail -n 20 /run/units/*.log /run/containers/*.log || true"), capture_output=True, text=True, check=False)
        return result.stdout

    def write(self, path, text, mode=0o755):
        subprocess.run(self.command(f"mkdir -p {os.path.dirname(path)}; cat > {path}; chmod {mode:o} {path}"), input=text, text=True, check=True)

    def close(self):
        pids = subprocess.run(["ip", "netns", "pids", self.netns], capture_output=True, text=True, check=False).stdout.split()
        for pid in pids:
            os.kill(int(pid), signal.SIGKILL)
        self.holder.wait()
        subprocess.run(["ip", "netns", "del", self.netns], check=False)


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("nft"), "needs root and nft: tests/deploy/run.sh two-machines")
class TwoMachinesTest(unittest.TestCase):
    def setUp(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="longhaul-two-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        os.chmod(folder, 0o755)
        self.machines = {}
        for name in ADDRESS:
            self.machines[name] = Machine(name, folder)
            self.addCleanup(self.machines[name].close)
        subprocess.run(["ip", "link", "add", "lh2-a", "netns", "lh2-hub", "type", "veth", "peer", "name", "lh2-b", "netns", "lh2-site"], check=True)
        for name, device in (("hub", "lh2-a"), ("site", "lh2-b")):
            for words in (["addr", "add", f"{ADDRESS[name]}/24", "dev", device], ["link", "set", device, "up"], ["link", "set", "lo", "up"]):
                subprocess.run(["ip", "-n", f"lh2-{name}", *words], check=True)
            machine = self.machines[name]
            machine.write("/usr/local/stand-in/systemctl", SYSTEMCTL)
            machine.write("/usr/local/stand-in/scp", self.scp(folder))
            engine = pathlib.Path(__file__).with_name("container_engine.py").read_text()
            machine.write("/usr/local/stand-in/docker", f"#!/usr/bin/python3\n{engine}")
            machine.write("/usr/local/stand-in/images", str(ROOT / "deploy/images"), 0o644)

    @staticmethod
    def scp(folder):
        """Into the site's /etc/longhaul/tls, as the page has it."""
        return f"#!/bin/sh\nset -e\nwhile [ $# -gt 1 ]; do cp \"$1\" {folder}/site/etc.upper/longhaul/tls/; shift; done\n"

    def test_the_page(self):
        hub, site = self.machines["hub"], self.machines["site"]
        done, settings = 0, ""
        for machines, block in commands():
            # The repository's programs, wherever they were built.
            script = block.replace("build/bin/", f"{BIN}/")
            for name in machines:
                # A user's variables last as long as the shell.
                self.machines[name].run(settings + script if name == "hub" else script)
                done += 1
            settings += "".join(line + "\n" for line in block.splitlines() if line.startswith("export LONGHAUL_SERVER") or line.startswith("export LONGHAUL_TLS"))
            if machines and "submit -f" in block:
                self.check_job(hub, site, settings)
        self.assertGreater(done, 12)
        # Back after the pause and the restart.
        deadline = time.monotonic() + 30
        while "site-b" not in (listed := hub.run(settings + "longhaul pools", check=False).stdout) and time.monotonic() < deadline:
            time.sleep(0.5)
        self.assertIn("site-b", listed)
        self.check_containers(hub, site, settings)
        self.check_strangers(site)

    def test_a_kit_makes_a_service(self):
        site, ca = self.machines["site"], self.machines["site"].folder / "ca"
        for words in (["init"], ["kit", "site-b", "--coordinator", "hub.example:7070", "--out", site.folder / "home/kit.tar.gz"]):
            subprocess.run([BIN / "longhaul", "certs", "--dir", ca, *words], check=True, capture_output=True)
        site.run(f"install -m 755 {BIN}/longhaul-worker {BIN}/longhaul-rank /usr/local/bin/\ncd ~ && tar -xzf kit.tar.gz && longhaul-site-b/install-service.sh")
        self.assertEqual(site.run("stat -c '%U %a' /etc/longhaul/tls/site-b.key").stdout.split(), ["longhaul", "600"])
        pid = site.run("cat /run/units/longhaul-worker").stdout.strip()
        self.assertRegex(pathlib.Path(f"/proc/{pid}/status").read_text(), r"Uid:\t[1-9]")
        said = site.run("cat /run/units/longhaul-worker.log").stdout
        self.assertIn("site-b", said)
        self.assertNotIn('"level":"error"', said)
        # A second run keeps what was added.
        site.run("echo LONGHAUL_RANKS=2 >> /etc/longhaul/worker.env\nsystemctl stop longhaul-worker\n~/longhaul-site-b/install-service.sh")
        self.assertIn("LONGHAUL_RANKS=2", site.run("cat /etc/longhaul/worker.env").stdout)
        site.run("systemctl stop longhaul-worker")

    def check_job(self, hub, site, settings):
        self.assertIn("COMPLETED", hub.run(settings + "longhaul get first").stdout)
        hub.run("ls /var/lib/longhaul/coordinator/jobs/*/checkpoints/step-00000600 /var/lib/longhaul/coordinator/jobs/*/track/pool-site-b/scalars.jsonl")
        site.run("ls /var/lib/longhaul/track/first-*/pool-site-b/scalars.jsonl")
        # The services are the user's, and keys are for no one else.
        self.assertEqual(hub.run("stat -c %U /var/lib/longhaul/coordinator/coordinator.db").stdout.strip(), "longhaul")
        self.assertEqual(site.run("stat -c %A /etc/longhaul/tls/site-b.key").stdout.strip()[-3:], "---")

    def check_containers(self, hub, site, settings):
        self.assertIn("COMPLETED", hub.run(settings + "longhaul get second").stdout)
        for machine, name in ((hub, "coordinator"), (hub, "worker"), (site, "worker")):
            pid = machine.run(f"docker inspect {name}").stdout.strip()
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            self.assertIn("NoNewPrivs:\t1", status)
            self.assertRegex(status, r"CapBnd:\t0+\n")
            self.assertRegex(status, r"Uid:\t[1-9]")
            self.assertNotEqual(machine.run(f"nsenter -t {pid} -m chroot /proc/{pid}/root sh -c 'touch /usr/local/x /etc/x'", check=False).returncode, 0)

    def check_strangers(self, site):
        """What the firewall and the certificates keep out."""
        port = "timeout 3 bash -c '</dev/tcp/hub.example/{}'"
        self.assertEqual(site.run(port.format(7070), check=False).returncode, 0)
        self.assertNotEqual(site.run(port.format(7071), check=False).returncode, 0)
        without = site.run("longhaul.real --server hub.example:7070 --timeout 5s pools", check=False)
        self.assertNotEqual(without.returncode, 0)
        self.assertNotIn("site-b", without.stdout)


if __name__ == "__main__":
    if BIN is None:
        sys.exit("usage: two_machines_test.py BUILD/bin [unittest arguments]")
    del sys.argv[1]
    unittest.main()
