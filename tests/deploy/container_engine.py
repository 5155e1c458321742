"""Stands in for `docker run|stop|start|logs|inspect` where there is no engine: a process with mounts and process numbers of its own. The image's files are those
of this machine, read-only; its environment and its first process are what its Dockerfile says. A flag that is not stood in for is an error.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

STATE = pathlib.Path("/run/containers")
IMAGES = pathlib.Path(pathlib.Path("/usr/local/stand-in/images").read_text())
TAKEN = {"--name": 1, "--restart": 1, "--network": 1, "--user": 1, "--tmpfs": 1, "--cap-drop": 1, "--security-opt": 1, "--stop-timeout": 1, "--env-file": 1, "--log-opt": 1,
         "--env": 1, "--volume": 1, "--detach": 0, "--read-only": 0}
ALWAYS = {"--network": ["host"], "--tmpfs": ["/tmp"], "--cap-drop": ["ALL"], "--security-opt": ["no-new-privileges"], "--detach": [True], "--read-only": [True]}

# Its root is an overlay of this machine's, so that there are places for the volumes, and nothing is written to afterwards.
ENTER = """
set -eu
mount --make-rprivate /
base=$1; shift
mkdir -p "$base"
mount -t tmpfs tmpfs "$base"
mkdir "$base/upper" "$base/work" "$base/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$base/upper,workdir=$base/work" "$base/root"
root=$base/root
for path in $PLACES; do mkdir -p "$root$path"; done
mount -o remount,ro "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"
mount --bind -o ro /usr/local "$root/usr/local"
mount --bind /etc/hosts "$root/etc/hosts"
mount --rbind /root "$root/root"
for volume in $VOLUMES; do
  IFS=: read -r from to how <<< "$volume"
  mount --bind "$from" "$root$to"
  [ -z "$how" ] || mount -o "remount,bind,$how" "$root$to"
done
exec chroot "$root" setpriv --reuid "${IDS%:*}" --regid "${IDS#*:}" --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all env -i "$@"
"""


def image(name):
    """(environment, first process) of the last stage of its Dockerfile."""
    text = (IMAGES / (re.fullmatch(r"localhost/longhaul-([a-z-]+):latest", name)[1] + ".Dockerfile")).read_text()
    last = re.sub(r"\\\n", " ", text.split("\nFROM ")[-1])
    entry = json.loads(re.search(r"^ENTRYPOINT (.*)$", last, re.MULTILINE)[1])
    if not os.path.exists(entry[0]):  # tini is no part of this machine.
        entry = entry[2:]
    return re.search(r"^ENV (.*)$", last, re.MULTILINE)[1].split(), entry


def parse(words):
    flags = {}
    while words[0].startswith("--"):
        flag = words.pop(0)
        if flag not in TAKEN:
            sys.exit("not stood in for: " + flag)
        flags.setdefault(flag, []).append(words.pop(0) if TAKEN[flag] else True)
    for flag, value in ALWAYS.items():
        if flags.get(flag) != value:
            sys.exit(f"not stood in for: a container without {flag} {value[0]}")
    return flags, words


def start(name):
    flags, words = json.loads((STATE / f"{name}.json").read_text())
    environment, entry = image(words[0])
    for path in flags.get("--env-file", []):
        environment += [line for line in pathlib.Path(path).read_text().splitlines() if line]
    environment += flags.get("--env", [])
    volumes = flags.get("--volume", [])
    with open(STATE / f"{name}.log", "ab") as log:
        process = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", ENTER, "enter", STATE / f"{name}.files", "PATH=/usr/local/bin:/usr/bin:/bin",
             *environment, *entry, *words[1:]],
            env={**os.environ, "IDS": flags["--user"][0], "VOLUMES": " ".join(volumes), "PLACES": " ".join(v.split(":")[1] for v in volumes)},
            cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    time.sleep(1)
    if process.poll() is not None:
        sys.exit(f"{name} ended with {process.returncode}: " + logs(name)[-2000:])
    (STATE / f"{name}.pid").write_text(str(process.pid))


def first_process(name):
    pid = (STATE / f"{name}.pid").read_text()
    return int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def stop(name):
    flags, _ = json.loads((STATE / f"{name}.json").read_text())
    pid = first_process(name)
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + float(flags["--stop-timeout"][0])
    while os.path.exists(f"/proc/{pid}"):
        if time.monotonic() > deadline:
            sys.exit(f"{name} does not stop: " + logs(name)[-2000:])
        time.sleep(0.05)


def logs(name):
    return (STATE / f"{name}.log").read_text()


def main(verb, *words):
    STATE.mkdir(exist_ok=True)
    if verb == "run":
        flags, rest = parse(list(words))
        (STATE / f"{flags['--name'][0]}.json").write_text(json.dumps([flags, rest]))
        start(flags["--name"][0])
    elif verb == "start":
        start(*words)
    elif verb == "stop":
        stop(*words)
    elif verb == "logs":
        print(logs(*words))
    elif verb == "inspect":
        print(first_process(*words))
    else:
        sys.exit("not stood in for: " + verb)


if __name__ == "__main__":
    main(*sys.argv[1:])
