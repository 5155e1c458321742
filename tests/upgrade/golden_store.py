"""Makes tests/golden/store/REVISION.tar.xz: the data folder of a coordinator that was killed in the middle of a job, beside one that has ended.

    golden_store.py BIN REVISION        BIN: the programs of that revision (tests/upgrade/run.sh builds them)

To be run when a version is released. Also names the revision in tests/upgrade/previous, from which run.sh upgrades. The test opens every
store.
"""

import pathlib
import subprocess
import sys
import tarfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration/processes"))
import cluster  # noqa: E402  (reads the first argument)

JOB = """
name: {name}
model: {{synthetic: {{units: 2, elements: 640, initial: 1, inner_delta: [0.001, -0.0005]}}}}
train: {{steps: {steps}, batch: 1, seed: 3}}
sync: {{h: 10, tau: 1, up: {{codec: e3m0, error_feedback: true}}, down: {{codec: e3m0}}}}
pools: {{min: 2}}
evaluation: {{every_cycles: 50}}
checkpoint: {{every_cycles: 20, keep: 2}}
"""


def submit(session, name, steps):
    spec = session.folder / f"{name}.yaml"
    spec.write_text(JOB.format(name=name, steps=steps))
    result = session.cli("submit", "-f", spec)
    if result.returncode != 0:
        raise SystemExit(result.stdout + result.stderr)


def main():
    revision = sys.argv[2]
    session = cluster.Cluster()
    help_text = subprocess.run([cluster.BIN / "longhaul-coordinator", "--help"], capture_output=True, text=True, check=True).stdout
    session.http_flag = lambda: "--http-listen" if "--http-listen" in help_text else "--metrics-listen"
    try:
        session.start_coordinator()
        for pool in ("site-a", "site-b"):
            session.start_worker(pool)
        submit(session, "ended", 200)
        session.wait_job("ended")
        submit(session, "golden", 100000)
        session.wait_step(300, "golden")
        session.coordinator.kill()
        session.coordinator.wait()
        time.sleep(0.2)
        out = ROOT / f"tests/golden/store/{revision}.tar.xz"
        out.parent.mkdir(parents=True, exist_ok=True)

        def anonymous(member):
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            return member

        with tarfile.open(out, "w:xz") as archive:
            archive.add(session.folder / "data", "data", filter=anonymous)
        (ROOT / "tests/upgrade/previous").write_text(f"{revision}\n", encoding="utf-8")
        print(out, out.stat().st_size, "bytes")
    finally:
        session.close()


main()
