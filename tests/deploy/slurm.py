"""A Slurm of this machine alone, as root, in a folder of its own: munged, slurmctld and N slurmd, each a node.

    with Slurm(3) as slurm:
        slurm.run("srun", "-N3", "hostname")
"""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

# A requeued job waits until its credentials have expired: 120 s unless cred_expire says another time.
CONFIGURATION = """ClusterName=longhaul
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=10
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_interval=1,bf_interval=1
SlurmdTimeout=10
KillWait=10
SlurmdParameters=config_overrides
PlugStackConfig=/dev/null
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Slurm:
    def __init__(self, nodes):
        self.names = [f"n{i + 1}" for i in range(nodes)]
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="longhaul-slurm-"))
        self.folder.chmod(0o755)
        (self.folder / "state").mkdir()
        host = socket.gethostname().split(".")[0]
        port, *ports = free_ports(nodes + 1)
        lines = [f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={of_node} CPUs=2 RealMemory=2000 State=UNKNOWN"
                 for name, of_node in zip(self.names, ports, strict=True)]
        text = CONFIGURATION.format(folder=self.folder, host=host, port=port, nodes="\n".join(lines))
        (self.folder / "slurm.conf").write_text(text)
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}
        self.processes = {}

    def _start(self, name, *command):
        with open(self.folder / f"{name}.out", "ab") as out:
            self.processes[name] = subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def run(self, *command, check=True):
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=120, check=check)

    def __enter__(self):
        try:
            self._begin()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def _begin(self):
        f = self.folder
        self._start("munged", "munged", "-F", "--force", "--key-file", f / "munge.key", "--socket", f / "munge.socket", "--pid-file", f / "munged.pid",
                    "--log-file", f / "munged.log", "--seed-file", f / "munged.seed", "--num-threads", "2")
        self._await(lambda: (f / "munge.socket").exists())
        self._start("slurmctld", "slurmctld", "-D", "-c")
        for name in self.names:
            self._start(name, "slurmd", "-D", "-N", name)
        self._await(lambda: self.run("sinfo", "-h", "-o", "%T %D", check=False).stdout.split() == ["idle", str(len(self.names))])

    def _await(self, condition, seconds=60):
        deadline = time.monotonic() + seconds
        while not condition():
            ended = [name for name, process in self.processes.items() if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                logs = "".join(f"--- {path.name}\n{path.read_text(errors='replace')[-1500:]}" for path in sorted(self.folder.glob("*.out")))
                raise AssertionError(f"Slurm does not begin; ended: {ended}\n{logs}")
            time.sleep(0.1)

    def state(self, job):
        """RUNNING, PENDING, ...; and the names of its nodes."""
        shown = self.run("scontrol", "-o", "show", "job", job, check=False).stdout
        fields = dict(word.split("=", 1) for word in shown.split() if "=" in word)
        nodes = fields.get("NodeList", "(null)")
        return fields.get("JobState", ""), [] if nodes == "(null)" else self.run("scontrol", "show", "hostnames", nodes).stdout.split()

    def of_node(self, name):
        """The processes of a node's jobs. They outlive its slurmd."""
        found = []
        for process in filter(str.isdigit, os.listdir("/proc")):
            try:
                environment = pathlib.Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"SLURM_CONF={self.folder}/slurm.conf".encode() in environment and f"SLURMD_NODENAME={name}".encode() in environment:
                found.append(int(process))
        return found

    def lose(self, name):
        """The machine of a node goes away with all that ran on it."""
        self.processes[name].kill()
        self.processes[name].wait()
        # Between a step's daemon and its task none may be missed.
        for _ in range(2):
            for process in [*self._step_daemons(name), *self.of_node(name)]:
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        del self.processes[name]
        self.run("scontrol", "update", f"nodename={name}", "state=down", "reason=lost")

    def _step_daemons(self, name):
        """All of this Slurm if `name` is None. They have a node's name in their command only through their tasks, so: the parents of its tasks."""
        found = set()
        for process in filter(str.isdigit, os.listdir("/proc")):
            try:
                if not pathlib.Path(f"/proc/{process}/comm").read_text().startswith("slurmstepd"):
                    continue
                ours = f"SLURM_CONF={self.folder}/".encode() in pathlib.Path(f"/proc/{process}/environ").read_bytes()
                children = {int(child) for child in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()}
            except OSError:
                continue
            if ours and (name is None or children & set(self.of_node(name))):
                found.add(int(process))
        return found

    def close(self):
        if "slurmctld" in self.processes:
            self.run("scancel", "--full", "-u", "root", check=False)
            time.sleep(0.5)
        for name in [*self.names, "slurmctld", "munged"]:
            process = self.processes.get(name)
            if process is None or process.poll() is not None:
                continue
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for process in self._step_daemons(None):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.folder, ignore_errors=True)
