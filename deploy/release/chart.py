"""Packages the Helm chart, by Helm itself: the archive that `helm install` takes, and the same as an OCI archive, which skopeo and oras copy
to a registry. The time of every file is SOURCE_DATE_EPOCH.

chart.py OUT        OUT/longhaul-chart-VERSION.tgz and OUT/longhaul-chart-VERSION.oci.tar
"""

import gzip
import hashlib
import io
import json
import os
import pathlib
import sys
import tarfile
import tempfile
from datetime import datetime, timezone

import helm_python

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/longhaul"
VERSION = (ROOT / "VERSION").read_text().strip()
WHEN = int(os.environ["SOURCE_DATE_EPOCH"])
EXAMPLE = {"insecure": True}  # Without certificates the chart is refused.
WARNING = 2


def tar(files, mode="w"):
    """`files`: (path, content)"""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode, format=tarfile.USTAR_FORMAT) as archive:
        for path, content in files:
            info = tarfile.TarInfo(path)
            info.size, info.mtime, info.mode = len(content), WHEN, 0o644
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def packaged():
    """What `helm package` makes, with one time for all files."""
    report = helm_python.lint(CHART, EXAMPLE, strict=True)
    wrong = [message for message in report["messages"] if message["severity"] >= WARNING]
    if wrong or report["errors"]:
        sys.exit(f"helm lint: {wrong} {report['errors']}")
    with tempfile.TemporaryDirectory() as work:
        path = helm_python.package(CHART, destination=work)
        with tarfile.open(path) as archive:
            files = sorted((member.name, archive.extractfile(member).read()) for member in archive if member.isfile())
    # Chart.yaml comes first, as Helm has it: who reads the archive as a stream needs no more.
    files.sort(key=lambda file: file[0] != "longhaul/Chart.yaml")
    return gzip.compress(tar(files), mtime=0)


def oci(archive, metadata):
    """An archive of OCI's layout that holds the chart as `helm push` would store it."""
    blobs = {}

    def blob(media_type, content):
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    def as_json(value):
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob("application/vnd.cncf.helm.config.v1+json", as_json(metadata)),
        "layers": [blob("application/vnd.cncf.helm.chart.content.v1.tar+gzip", archive)],
        "annotations": {
            "org.opencontainers.image.created": datetime.fromtimestamp(WHEN, timezone.utc).isoformat(),
            "org.opencontainers.image.description": metadata["description"],
            "org.opencontainers.image.title": metadata["name"],
            "org.opencontainers.image.url": metadata["home"],
            "org.opencontainers.image.version": metadata["version"],
        },
    }
    named = blob("application/vnd.oci.image.manifest.v1+json", as_json(manifest))
    named["annotations"] = {"org.opencontainers.image.ref.name": f"longhaul:{VERSION}"}
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [named]}
    return tar([("oci-layout", as_json({"imageLayoutVersion": "1.0.0"})), ("index.json", as_json(index)), *sorted(blobs.items())])


def main():
    out = pathlib.Path(sys.argv[1])
    archive = packaged()
    with helm_python.Chart.load_archive(archive) as chart:
        (out / f"longhaul-chart-{VERSION}.tgz").write_bytes(archive)
        (out / f"longhaul-chart-{VERSION}.oci.tar").write_bytes(oci(archive, chart.metadata))


if __name__ == "__main__":
    main()
