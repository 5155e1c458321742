"""Writes what a release says of itself: its bill of materials (CycloneDX), and where it comes from (SLSA provenance, as
an in-toto statement).

statements.py STAGE OUT KEY=VALUE...      STAGE: what was installed for the artefacts; OUT: the folder of the artefacts
    commit, clean (true or false), builder, skipped (words, or empty): of this run
"""

import datetime
import hashlib
import importlib.metadata
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import uuid

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.contact import OrganizationalEntity
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = (ROOT / "VERSION").read_text().strip()
# Header-only libraries, which are in the programs.
COMPILED_IN = ["libcli11-dev", "nlohmann-json3-dev"]
LIBTORCH = {
    "libtorch_cpu.so": "torch",
    "libc10.so": "torch",
    "libgomp.so.1": "torch",
    "libcudart.so.13": "nvidia-cuda-runtime",
    "libcupti.so.13": "nvidia-cuda-cupti",
}
OF_LIBTORCH = "longhaul-worker (deb), tarball, longhaul-cpu (wheel)"
OF_DEBIAN = "tarball, longhaul-programs (wheel)"
OF_PYTHON = "deploy/images/requirements-tokenizers.txt"  # In the image of the worker.
UNPACKAGED = (".json", "SHA256SUMS", ".sig")


def digest(path):
    with open(path, "rb") as file:
        return (
            hashlib.file_digest(file, "sha256").hexdigest()
            if hasattr(hashlib, "file_digest")
            else hashlib.sha256(file.read()).hexdigest()
        )


def pins_of(*files):
    """Package of PyPI -> version"""
    lines = [line for file in files for line in re.findall(r"^[^#\s]+", (ROOT / file).read_text(), re.MULTILINE)]
    return {name.split("[")[0]: version for name, version in (line.split("==") for line in lines)}


def output(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def component(name, version, purl, where, path=None, license_name=None):
    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        purl=purl,
        bom_ref=f"{purl}#{path.name}" if path else str(purl),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest(path))] if path else [],
        licenses=[DisjunctiveLicense(name=license_name)] if license_name else [],
        properties=[
            Property(name="longhaul:in", value=where),
            *([Property(name="longhaul:file", value=f"lib/longhaul/{path.name}")] if path else []),
        ],
    )


def components(stage, site):
    libraries = stage / "lib/longhaul"
    for line in (stage / "share/doc/longhaul/libraries/LIBRARIES").read_text().splitlines():
        soname, package, version, source, source_version = line.split()
        purl = PackageURL(
            "deb",
            "debian",
            package.split(":")[0],
            version,
            {"arch": "amd64", "distro": "bookworm", "upstream": f"{source}@{source_version}"},
        )
        yield component(
            package.split(":")[0],
            version,
            purl,
            OF_DEBIAN,
            libraries / soname,
            f"see share/doc/longhaul/libraries/{package.split(':')[0]}.copyright",
        )
    for name in COMPILED_IN:
        version = output("dpkg-query", "-W", "-f", "${Version}", name)
        yield component(
            name, version, PackageURL("deb", "debian", name, version, {"distro": "bookworm"}), "all programs"
        )
    versions = {found.metadata["Name"]: found.version for found in importlib.metadata.distributions(path=[str(site)])}
    for file, name in LIBTORCH.items():
        yield component(
            name, versions[name], PackageURL("pypi", None, name, versions[name]), OF_LIBTORCH, libraries / file
        )

    for name, version in pins_of(OF_PYTHON).items():
        yield component(name, version, PackageURL("pypi", None, name, version), "longhaul-worker (image)")


def bill_of_materials(stage, site, when, commit):
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"longhaul:{VERSION}:{commit}"))
    bom.metadata.timestamp = when
    bom.metadata.component = Component(
        name="longhaul",
        version=VERSION,
        type=ComponentType.APPLICATION,
        bom_ref="longhaul",
        supplier=OrganizationalEntity(name="The Longhaul authors"),
        licenses=[DisjunctiveLicense(id="MIT")],
    )
    for part in components(stage, site):
        bom.components.add(part)
    bom.register_dependency(bom.metadata.component, bom.components)
    text = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string()
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if error:
        sys.exit(f"the bill of materials is not valid: {error}")
    return json.loads(text)


def provenance(out, given, when):
    pins = pins_of("deploy/requirements.txt", "deploy/release/requirements.txt", OF_PYTHON)
    tools = {
        "cmake": output("cmake", "--version").split()[2],
        "g++": output("g++", "-dumpfullversion"),
        "python": platform.python_version(),
        "dpkg": output("dpkg-query", "-W", "-f", "${Version}", "dpkg"),
        "mold": output("mold", "--version").split()[1],
    }
    with open("/etc/os-release", encoding="ascii") as file:
        system = re.search(r'^PRETTY_NAME="(.*)"$', file.read(), re.MULTILINE)[1]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": path.name, "digest": {"sha256": digest(path)}}
            for path in sorted(out.iterdir())
            if not path.name.endswith(UNPACKAGED)
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:longhaul:deploy/release.sh:1",
                "externalParameters": {
                    "version": VERSION,
                    "commit": given["commit"],
                    "treeIsClean": given["clean"] == "true",
                    "skipped": given["skipped"],
                },
                "internalParameters": {"system": system, "sourceDateEpoch": int(when.timestamp())},
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": given["commit"]}},
                    *({"uri": f"pkg:pypi/{name}@{version}"} for name, version in pins.items()),
                ],
            },
            "runDetails": {
                "builder": {"id": given["builder"], "version": tools},
                "metadata": {"invocationId": f"{given['commit']}-{VERSION}"},
            },
        },
    }


def main():
    stage, out = map(pathlib.Path, sys.argv[1:3])
    given = dict(word.split("=", 1) for word in sys.argv[3:])
    when = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    venv = pathlib.Path(output(str(ROOT / "deploy/setup.sh"), "--print-venv"))
    site = next(venv.glob("lib/python3*/site-packages"))
    for name, value in (
        ("cdx", bill_of_materials(stage, site, when, given["commit"])),
        ("provenance", provenance(out, given, when)),
    ):
        (out / f"longhaul-{VERSION}.{name}.json").write_text(json.dumps(value, indent=1) + "\n")


if __name__ == "__main__":
    main()
