"""What old clients and new servers of v1, and the other way round, agree on: everything that an earlier contract had keeps its meaning on the wire.

    contract_test.py BUILD/bin [unittest arguments]
    contract_test.py --write      adds what the contract has now to tests/golden/contract/v1.json; at a release. Nothing is ever taken out of it.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/deploy"))

import tools  # noqa: E402

GOLDEN = ROOT / "tests/golden/contract/v1.json"
PROTOS = ROOT / "proto"
# Runs where grpcio-tools is installed: {"messages": {name: {number: {...}}}, "enums": {name: {number: name}}, "services": {name: {method: {...}}}}.
LIST = r"""
import json, pathlib, sys, tempfile
import grpc_tools
from google.protobuf import descriptor_pb2
from grpc_tools import protoc

protos = pathlib.Path(sys.argv[1])
files = sorted(str(path.relative_to(protos)) for path in (protos / "longhaul/v1").glob("*.proto"))
with tempfile.TemporaryDirectory() as folder:
    out = pathlib.Path(folder, "set")
    if protoc.main(["protoc", f"-I{protos}", f"-I{pathlib.Path(grpc_tools.__file__).parent / '_proto'}", f"--descriptor_set_out={out}", *files]) != 0:
        sys.exit("the contract does not compile")
    found = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
F = descriptor_pb2.FieldDescriptorProto
messages, enums, services = {}, {}, {}

def add_enum(enum, name):
    enums[name] = {str(value.number): value.name for value in enum.value}

def add_message(message, name):
    fields = messages[name] = {}
    for field in message.field:
        kind = F.Type.Name(field.type).removeprefix("TYPE_").lower()
        one_of = message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") and not field.proto3_optional else ""
        fields[str(field.number)] = {"name": field.name, "type": f"{kind} {field.type_name}".strip(), "repeated": field.label == F.LABEL_REPEATED,
                                     "one_of": one_of, "optional": field.proto3_optional}
    for inner in message.nested_type:
        add_message(inner, f"{name}.{inner.name}")
    for enum in message.enum_type:
        add_enum(enum, f"{name}.{enum.name}")

for file in found.file:
    for message in file.message_type:
        add_message(message, f"{file.package}.{message.name}")
    for enum in file.enum_type:
        add_enum(enum, f"{file.package}.{enum.name}")
    for service in file.service:
        services[f"{file.package}.{service.name}"] = {
            method.name: [method.input_type, method.client_streaming, method.output_type, method.server_streaming] for method in service.method}
print(json.dumps({"messages": messages, "enums": enums, "services": services}))
"""


def contract_of(protos):
    python = tools.environment(ROOT / "tests/deploy/python_requirements.txt")
    result = subprocess.run([python, "-c", LIST, protos], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(result.stderr)
    return json.loads(result.stdout)


def breaks(old, new):
    """What of `old` means something else in `new`, in words. What is added breaks nothing."""
    found = []
    for kind in ("messages", "enums", "services"):
        for name, members in old[kind].items():
            if name not in new[kind]:
                found.append(f"{name} is gone")
                continue
            for key, member in members.items():
                now = new[kind][name].get(key)
                if now is None:
                    found.append(f"{name}: {key} ({json.dumps(member)}) is gone")
                elif now != member:
                    found.append(f"{name}: {key} was {json.dumps(member)}, is {json.dumps(now)}")
    return found


def joined(old, new):
    result = json.loads(json.dumps(old))
    for kind, names in new.items():
        for name, members in names.items():
            result[kind].setdefault(name, {}).update(members)
    return result


def text_of(contract):
    """JSON with a line for each message, enum and service."""
    kinds = (f' "{kind}": {{\n' + ",\n".join(f'  "{name}": {json.dumps(members, sort_keys=True)}' for name, members in sorted(names.items())) + "\n }"
             for kind, names in sorted(contract.items()))
    return "{\n" + ",\n".join(kinds) + "\n}\n"


class ContractTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.old = json.loads(GOLDEN.read_text())
        cls.new = contract_of(PROTOS)

    def test_the_contract_keeps_what_it_had(self):
        self.assertEqual(breaks(self.old, self.new), [], "an older program would read something else; add fields and values, and reserve what goes")
        self.assertGreater(len(self.old["messages"]), 80)

    def changed(self, file, old, new):
        """What breaks when that text of the contract is another."""
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["cp", "-r", f"{PROTOS}/.", folder], check=True)
            path = pathlib.Path(folder, "longhaul/v1", file)
            text = path.read_text()
            self.assertEqual(text.count(old), 1, old)
            path.write_text(text.replace(old, new))
            return " ".join(breaks(self.old, contract_of(folder)))

    def test_what_breaks_is_found(self):
        message = "message DescribeResponse {\n  string version = 1;"
        for new, words in (("message DescribeResponse {\n  string version = 99;", "1 (.*version.*) is gone"),
                           ("message DescribeResponse {\n  bytes version = 1;", '1 was .*"string".* is .*"bytes"'),
                           ("message DescribeResponse {\n  repeated string version = 1;", "1 was .*false.* is .*true"),
                           ("message DescribeResponse {\n  string release = 1;", "1 was .*version.* is .*release")):
            self.assertRegex(self.changed("server.proto", message, new), "DescribeResponse: " + words)
        self.assertRegex(self.changed("server.proto", "rpc Describe(", "rpc Tell("), "ServerService: Describe .* is gone")
        self.assertEqual(self.changed("server.proto", message, message + "\n  string more = 99;"), "")

    def test_an_enum_value_is_not_used_again(self):
        number, name = next(iter(self.old["enums"]["longhaul.v1.JobState"].items()))
        new = json.loads(json.dumps(self.new))
        new["enums"]["longhaul.v1.JobState"][number] = "ANOTHER"
        self.assertRegex(" ".join(breaks(self.old, new)), f"JobState: {number} was .*{name}.* is .*ANOTHER")


if __name__ == "__main__":
    if "--write" in sys.argv:
        now = contract_of(PROTOS)
        before = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else now
        if breaks(before, now):
            sys.exit("\n".join(breaks(before, now)))
        GOLDEN.parent.mkdir(parents=True, exist_ok=True)
        GOLDEN.write_text(text_of(joined(before, now)))
        sys.exit(0)
    if len(sys.argv) > 1:
        del sys.argv[1]
    unittest.main()
