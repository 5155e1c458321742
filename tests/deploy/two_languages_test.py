"""What is written in C++ and again in Python says the same: the limits of a JSONL line, who may read a secret's file, which
proxy a connection takes, which files are a tokenizer's, and when a stream was open."""

import importlib.util
import itertools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else ROOT / "build/bin").resolve()


def load(path, **modules):
    """The module at `path`, with `modules` in place of what it imports and may not be installed here."""
    kept = dict(sys.modules)
    sys.modules.update({name.replace("__", "."): module for name, module in modules.items()})
    try:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        for name in modules:
            sys.modules.pop(name.replace("__", "."), None)
        sys.modules.update(kept)


class Refused(Exception):
    def __init__(self, code, message, hint=""):
        super().__init__(message)


class TwoLanguagesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_limits_of_a_line(self):
        header = (ROOT / "common/base/jsonl_line.h").read_text(encoding="utf-8")
        in_cpp = {name: int(number) for name, number in re.findall(r"constexpr int (k\w+) = (\d+);", header)}
        documents = (ROOT / "deploy/python/longhaul/documents.py").read_text(encoding="utf-8")
        default, most = map(int, re.search(r"^LINE_MIB_DEFAULT, LINE_MIB_MAX = (\d+), (\d+)$", documents, re.MULTILINE).groups())
        self.assertEqual(in_cpp, {"kLineMibDefault": default, "kLineMibMax": most})
        # The help pages and the refusals, too.
        tool = ["env", f"PYTHONPATH={ROOT / 'deploy/python'}", sys.executable, "-B", "-m", "longhaul.tokenize"]
        for arguments in ([BIN / "longhaul", "data", "check"], tool):
            page = subprocess.run([*arguments, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
            self.assertRegex(" ".join(page.split()), rf"longest line, in MiB \(default: {in_cpp['kLineMibDefault']}\)", arguments)
        above = str(in_cpp["kLineMibMax"] + 1)
        for arguments in ([BIN / "longhaul", "data", "check", "x"], [*tool, "--tokenizer", "x", "--out", "x", "x"]):
            result = subprocess.run([*arguments, "--line-mib-max", above], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(result.returncode, 4, result.stderr)
            self.assertIn(f"1 to {in_cpp['kLineMibMax']}", result.stderr)

    def test_how_long_a_stream_must_last_to_count_as_open(self):
        header = (ROOT / "coordinator/cli/client.h").read_text(encoding="utf-8")
        client = (ROOT / "deploy/python/longhaul/client.py").read_text(encoding="utf-8")
        minutes = re.search(r"kConnectMax = absl::Minutes\((\d+)\);", header)[1]
        self.assertEqual(float(re.search(r"^CONNECT_SECONDS_MAX = ([\d.]+)", client, re.MULTILINE)[1]), 60 * int(minutes))

    def test_which_files_are_a_tokenizers(self):
        source = (ROOT / "common/hf/hf_tokenizer.cc").read_text(encoding="utf-8")
        constants = "".join((ROOT / path).read_text(encoding="utf-8") for path in ("common/base/tokenizer_name.h", "common/hf/hf_tokenizer.cc"))
        words = re.split(r",\s*", re.search(r"kTokenizerFiles\[\] = \{(.*?)\};", source, re.S)[1].strip())
        names = [word.strip('"') if word.startswith('"') else re.search(rf'{word}\[\] = "([^"]+)"', constants)[1] for word in words]
        client = (ROOT / "deploy/python/longhaul/upload.py").read_text(encoding="utf-8")
        self.assertEqual(re.findall(r'"([^"]+)"', re.search(r"TOKENIZER_FILES = \((.*?)\)", client, re.S)[1]), names)

    def cli_refuses(self, path):
        result = subprocess.run([BIN / "longhaul", "list", "--server", "127.0.0.1:1", "--tls-ca", self.folder / "ca/ca.pem", "--token-file", path],
                                capture_output=True, text=True, timeout=60, check=False)
        self.assertIn(result.returncode, (2, 4), result.stderr)
        return "holds a secret that other users can read" in result.stderr

    def test_who_may_read_a_secret(self):
        subprocess.run([BIN / "longhaul", "certs", "init", "--dir", self.folder / "ca"], capture_output=True, timeout=60, check=True)
        errors = types.ModuleType("longhaul.errors")
        errors.LonghaulError = Refused
        access = load(ROOT / "deploy/python/longhaul/access.py", grpc=types.ModuleType("grpc"), longhaul=types.ModuleType("longhaul"),
                      longhaul__errors=errors, longhaul__proxy=types.SimpleNamespace(proxy_of=None))

        def python_refuses(path):
            try:
                self.assertEqual(access.read_token(str(path)), "0123456789abcdef" * 2)
            except Refused as refused:
                self.assertIn("holds a secret that other users can read", str(refused))
                return True
            return False

        path = self.folder / "token"
        path.write_text("0123456789abcdef" * 2 + "\n", encoding="ascii")
        # A file of another owner may be readable for a group. Only root can make one.
        owners = (os.geteuid(), os.geteuid() + 1) if os.geteuid() == 0 else (os.geteuid(),)
        found = set()
        for owner, mode in itertools.product(owners, (0o400, 0o600, 0o700, 0o440, 0o640, 0o420, 0o460, 0o410, 0o404, 0o602, 0o401, 0o644)):
            os.chown(path, owner, -1)
            path.chmod(mode)
            refused = python_refuses(path)
            self.assertEqual(refused, self.cli_refuses(path), f"owner {owner}, mode {mode:o}")
            found.add(refused)
        self.assertEqual(found, {True, False})

    def test_which_proxy_a_connection_takes(self):
        """The cases of the C++ test hold in Python."""
        errors = types.ModuleType("longhaul.errors")
        errors.LonghaulError = Refused
        proxy = load(ROOT / "deploy/python/longhaul/proxy.py", longhaul=types.ModuleType("longhaul"), longhaul__errors=errors)
        cases = (ROOT / "tests/unit/common/rpc/proxy_test.cc").read_text(encoding="utf-8")

        def choose(variables, address="hub.example:7070"):
            return proxy.choose_proxy(address, variables)

        exempt = re.findall(r'EXPECT_(TRUE|FALSE)\(IsDirect\("(.*?)", "(.*?)"\)\);', cases)
        self.assertGreater(len(exempt), 20)
        for expected, address, no_proxy in exempt:
            direct = not choose({"https_proxy": "http://p:1", "no_proxy": no_proxy}, address).address
            self.assertEqual(direct, expected == "TRUE", (address, no_proxy))
        read = re.findall(r'EXPECT_EQ\(read\("(.*?)"\), "(.*?)"\);', cases)
        self.assertGreater(len(read), 5)
        for url, expected in read:
            found = choose({"https_proxy": url})
            self.assertEqual(f"{found.address} {found.credentials.decode()}", expected, url)
        urls = re.search(r'const char\* const url : \{("http://a:s3cret@p".*?)\}\)', cases, re.DOTALL)[1]
        for url in [*re.findall(r'"(.*?)"', urls), "https://p:1", "socks5://p:1"]:
            with self.assertRaises(Refused) as refused:
                choose({"https_proxy": url})
            self.assertIn("https_proxy: ", str(refused.exception), url)
            self.assertNotIn("s3cret", str(refused.exception), url)
        for name in ("grpc_proxy", "https_proxy", "HTTPS_PROXY", "http_proxy", "all_proxy", "ALL_PROXY"):
            self.assertEqual(choose({name: "http://p:1"}).variable, name)
        self.assertEqual(choose({"HTTP_PROXY": "http://p:1"}).variable, "")
        self.assertEqual(choose({"https_proxy": "", "HTTPS_PROXY": "http://p:1"}).variable, "HTTPS_PROXY")
        self.assertEqual(choose({"https_proxy": "http://p:1", "HTTPS_PROXY": "http://q:1"}).address, "p:1")
        for address in ("localhost:1", "127.0.0.9:1", "[::1]:1"):
            self.assertEqual(choose({"https_proxy": "http://p:1"}, address).address, "", address)


if __name__ == "__main__":
    unittest.main()
