"""The coordinator and three pools of a soak, each node behind a link of its own, and what can be done to them."""

import json
import os
import pathlib
import shutil
import subprocess

from cluster import RANK_BEHIND_A_SLOW_LINK, Cluster, children, fill
from relay import Link

# What each rank may push. It keeps ranks from using all cores, so that what is tested is the exchange.
BYTES_PER_SECOND = 200_000
# Small, so that one file fills it at once.
DISK_MB = 256


class Node:
    """A worker of a pool. `up` says that it should run: nobody has ended it."""

    def __init__(self, fleet, pool, number, flags):
        self.name = pool if number is None else f"{pool}-{number}"
        self.pool, self.up = pool, False
        self._fleet, self._flags = fleet, flags
        self.link = Link(fleet.address)

    @property
    def process(self):
        return self._fleet.workers[self.name]

    def ranks(self):
        return children(self.process.pid)

    def start(self):
        self._fleet.start_program(self.name, "longhaul-worker", "--coordinator", self.link.address, "--pool", self.pool, *self._flags)
        self.up = True


class Fleet(Cluster):
    """Three pools: one rank, two ranks, two nodes of one rank. All state is below `folder`, temporary files too."""

    def __init__(self):
        super().__init__()
        self.bytes_per_second = BYTES_PER_SECOND
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        os.environ["TMPDIR"] = str(self.temporary)
        self.data_dir.mkdir()
        # Without the right to mount, the disk cannot be filled.
        self.disk_is_small = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "none", self.data_dir], capture_output=True, check=False).returncode == 0
        self.coordinator_up = False
        self.nodes = []

    def begin(self):
        self.start_coordinator()
        for pool, ranks, nodes in (("alder", 1, 1), ("birch", 2, 1), ("cedar", 1, 2)):
            for number in range(nodes):
                flags = ["--ranks", str(ranks), "--threads", "1", "--work-dir", self.folder / "work", "--progress-timeout", "10",
                         "--rank-program", RANK_BEHIND_A_SLOW_LINK]
                if pool != "cedar":
                    state = self.folder / f"state-{pool}"
                    state.mkdir()
                    flags += ["--state-dir", state, "--state-every", "1s"]
                if nodes > 1:
                    flags += ["--nodes", str(nodes), "--node", str(number), "--in-pool-address", f"127.0.0.{2 + number}"]
                self.nodes.append(Node(self, pool, number if nodes > 1 else None, flags))
        for node in self.nodes:
            node.start()

    def start_coordinator(self, *flags):
        super().start_coordinator(*flags)
        self.coordinator_up = True

    def fill_disk(self):
        """Leaves no byte to the coordinator."""
        fill(self.data_dir / "filler")

    def empty_disk(self):
        (self.data_dir / "filler").unlink()

    def answer(self, *arguments):
        """The data of a command's answer; None if the coordinator could not be asked."""
        said = self.cli(*arguments, "-o", "json", "--timeout", "10s")
        return json.loads(said.stdout)["data"] if said.returncode == 0 else None

    def keep(self, folder):
        """Copies data and logs there."""
        shutil.copytree(self.folder, folder, ignore=shutil.ignore_patterns("filler"), ignore_dangling_symlinks=True)

    def close(self):
        for node in self.nodes:
            node.link.close()
        # Where the soak has no mounts of its own.
        if self.disk_is_small:
            subprocess.run(["umount", "-l", self.data_dir], check=False)
        super().close()

    def left_over(self):
        """Processes that were started with this fleet's folder in their command line or environment."""
        mark = str(self.folder).encode()
        found = []
        for process in pathlib.Path("/proc").iterdir():
            if not process.name.isdigit() or int(process.name) == os.getpid():
                continue
            try:
                if mark in (process / "cmdline").read_bytes() or mark in (process / "environ").read_bytes():
                    found.append((int(process.name), (process / "cmdline").read_bytes().decode().split("\0")[0]))
            except OSError:
                # It has ended, or is somebody else's.
                continue
        return found
