"""Writes what a CustomResourceDefinition says of a kind's fields, without its words, beside this file; ../validate_manifests.py reads it.

    keep.py RELEASE CRD.yaml        RELEASE: of which project and version, for example "jobset 0.13"

The kinds are of kubernetes-sigs/jobset, cert-manager/cert-manager and prometheus-operator/prometheus-operator (Apache-2.0),
in whose repositories the definitions lie below config/components/crd/bases, deploy/crds and example/prometheus-operator-crd.
"""

import json
import pathlib
import sys

import yaml

KEPT = {"type", "items", "additionalProperties", "required", "enum", "minimum", "maximum", "minLength", "maxLength", "pattern",
        "minItems", "maxItems", "anyOf", "allOf", "oneOf", "not", "uniqueItems", "nullable", "x-kubernetes-int-or-string",
        "x-kubernetes-preserve-unknown-fields"}
AS_THEY_ARE = {"required", "enum"}


def fields(schema):
    if isinstance(schema, list):
        return [fields(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value if key in AS_THEY_ARE else fields(value) for key, value in schema.items() if key in KEPT}
    if "properties" in schema:
        kept["properties"] = {name: fields(value) for name, value in schema["properties"].items()}
    return kept


def main():
    release, path = sys.argv[1:]
    definition = yaml.safe_load(pathlib.Path(path).read_text(encoding="utf-8"))["spec"]
    group, kind = definition["group"], definition["names"]["kind"]
    versions = {version["name"]: fields(version["schema"]["openAPIV3Schema"]) for version in definition["versions"] if version["served"]}
    text = json.dumps({"of": release, "group": group, "kind": kind, "versions": versions}, separators=(",", ":"))
    pathlib.Path(__file__).with_name(f"{kind}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
