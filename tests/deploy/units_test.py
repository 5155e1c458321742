"""The systemd units: that systemd takes them, what they keep their services from, and that they let them work.

    units_test.py BUILD/bin [unittest arguments]
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNITS = ROOT / "deploy/systemd"
PAGE = ROOT / "docs/deploy/two-machines.md"
# What systemd-analyze says of a unit with a User= alone is 9.2 of 10. A worker needs the machine's devices.
EXPOSURE_MAX = {"longhaul-coordinator": 2.0, "longhaul-worker": 2.5}


def settings(name):
    """{key: [value]}"""
    found = {}
    for key, value in re.findall(r"^(\w+)=(.*)$", (UNITS / f"{name}.service").read_text(), re.MULTILINE):
        found.setdefault(key, []).append(value)
    return found


class UnitsTest(unittest.TestCase):
    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
    def test_units_are_sound(self):
        with tempfile.TemporaryDirectory() as folder:
            for unit in UNITS.glob("*.service"):
                # The programs need not be installed for this.
                text = re.sub(r"ExecStart=\S+", "ExecStart=/bin/true", unit.read_text()).replace("User=longhaul", "User=root")
                path = pathlib.Path(folder, unit.name)
                path.write_text(text)
                result = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, check=False)
                self.assertEqual((result.returncode, unit.name in result.stderr), (0, False), result.stderr)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
    def test_a_service_that_is_taken_over_can_do_little(self):
        self.assertEqual({unit.stem for unit in UNITS.glob("*.service")}, set(EXPOSURE_MAX))
        for name, most in EXPOSURE_MAX.items():
            words = ["systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={most * 10:.0f}", UNITS / f"{name}.service"]
            result = subprocess.run(words, capture_output=True, text=True, check=False)
            exposed = [line for line in result.stdout.splitlines() if line.startswith(("✗", "→"))]
            self.assertEqual(result.returncode, 0, "\n".join(exposed))

    def test_a_worker_keeps_what_gpus_need(self):
        """Each of these hides the devices, or forbids what CUDA does; ProtectClock allows the clock alone (systemd.exec)."""
        worker = settings("longhaul-worker")
        for key in ("PrivateDevices", "DevicePolicy", "DeviceAllow", "ProtectClock", "MemoryDenyWriteExecute", "PrivateNetwork", "PrivateUsers"):
            self.assertNotIn(key, worker)
        self.assertIn("AF_NETLINK", worker["RestrictAddressFamilies"][0].split())
        # Memory is shared between processes of GPUs by pidfd_getfd, which is in @debug.
        self.assertEqual([f for f in worker["SystemCallFilter"] if not f.startswith("~") or "@debug" in f], [])

    def test_what_a_worker_writes_lies_where_its_unit_lets_it(self):
        """And outlasts a restart, which /tmp of a unit does not."""
        worker = settings("longhaul-worker")
        kept = [f"/var/lib/{folder}" for folder in worker["StateDirectory"][0].split()]
        self.assertIn("LONGHAUL_WORK_DIR=/var/lib/longhaul/work", worker["Environment"])
        for variable, folder in re.findall(r"\b(LONGHAUL_(?:WORK|STATE|TRACK)_DIR)=(/\S+)", str(worker["Environment"]).replace("'", " ") + PAGE.read_text()):
            self.assertIn(folder, kept, variable)


if __name__ == "__main__":
    del sys.argv[1:2]
    unittest.main()
