"""Tools of Debian packages that tests alone need: from the machine, or unpacked into the user's cache. Unpacked they need no root and start no
service, unlike installed ones."""

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def cache():
    base = os.environ.get("LONGHAUL_CACHE_DIR") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "longhaul")
    return pathlib.Path(base)


def unpack(packages):
    """The folder in which these packages lie as in the root folder; a few seconds the first time."""
    folder = cache() / ("tools-" + hashlib.sha256(" ".join(packages).encode()).hexdigest()[:12])
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        download = ["apt-get", "download", "-qq", *packages]
        result = subprocess.run(download, cwd=work, capture_output=True, text=True, check=False)
        if result.returncode != 0 and os.geteuid() == 0:  # The lists may be missing or old.
            subprocess.run(["apt-get", "update", "-qq"], capture_output=True, check=False)
            result = subprocess.run(download, cwd=work, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise RuntimeError(f"cannot download the Debian packages {' '.join(packages)} (is `apt-get update` needed?): {result.stderr}")
        root = pathlib.Path(work, "root")
        for package in pathlib.Path(work).glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, root], check=True)
        try:
            root.rename(folder)
        except OSError:  # Another test was faster.
            if not folder.exists():
                raise
    return folder


def program(name, package):
    """The path of a program."""
    return shutil.which(name) or str(unpack([package]) / "usr/bin" / name)


def pip(python, *arguments):
    """The command with which the pip of deploy/setup.sh's environment serves another one."""
    venv = subprocess.run([ROOT / "deploy/setup.sh", "--print-venv"], capture_output=True, text=True, check=True).stdout.strip()
    return [f"{venv}/bin/python", "-m", "pip", "--python", python, "--disable-pip-version-check", "--no-input", *arguments]


def make_environment(folder, requirements, beside):
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", folder], check=True)
    if beside is not None:
        next(folder.glob("lib/python3*/site-packages")).joinpath("beside.pth").write_text(f"{beside}\n")
    subprocess.run(pip(folder / "bin/python", "install", "-q", "-r", requirements), check=True)
    (folder / ".complete").touch()


def environment(requirements, beside=None):
    """The Python of a virtual environment with these pinned packages; made the first time. `beside`: the site-packages of another one, whose
    packages (torch) it sees too, and does not install again."""
    folder = cache() / ("test-venv-" + hashlib.sha256(requirements.read_bytes() + str(beside or "").encode()).hexdigest()[:12])
    python = folder / "bin/python"
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Tests that run side by side share it: one makes it, the others wait.
    with open(f"{folder}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".complete").exists():
            make_environment(folder, requirements, beside)
    return str(python)
