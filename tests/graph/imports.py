"""What the tests of graphs share: our programs, and the import of a folder that deploy/graphs wrote."""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
GRAPHS = ROOT / "deploy/graphs"
sys.path.append(str(GRAPHS))


def import_graph(longhaul, made, out):
    """Imports it as the guide says; returns what the import told."""
    nodes = len((made / "ids.txt").read_text(encoding="utf-8").splitlines())
    files = [part for name in ("edges", "features", "labels", "train", "valid", "test") for part in (f"--{name}", made / f"{name}.npy")]
    done = subprocess.run([longhaul, "graph", "import", "edges", "--nodes", str(nodes), *files, "--class-names", made / "classes.txt",
                           "--ids", made / "ids.txt", "--reverse-edges", "--out", out, "-o", "json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
    return json.loads(done.stdout)["data"]
