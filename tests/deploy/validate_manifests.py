"""Checks manifests strictly against the schemas of the oldest and the newest Kubernetes that kubernetes-validate knows, and values against a chart's schema.
Run by chart_test.py in an environment that has it (requirements.txt).

    validate_manifests.py manifests FILE...            prints what is wrong; exit status 1
    validate_manifests.py values SCHEMA FILE
"""

import json
import sys

import jsonschema
import kubernetes_validate
import yaml

VERSIONS = ("1.25", "1.37")
CUSTOM = {"ServiceMonitor"}  # Of the Prometheus operator: no part of Kubernetes.


def check_manifests(paths):
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for manifest in filter(None, yaml.safe_load_all(file)):
                if manifest["kind"] in CUSTOM:
                    continue
                for version in VERSIONS:
                    try:
                        kubernetes_validate.validate(manifest, version, strict=True)
                    except kubernetes_validate.ValidationError as error:
                        yield f"{path}: {manifest['kind']} {manifest['metadata']['name']}, {version}: {'.'.join(map(str, error.path))}: {error.message}"


def check_values(schema, path):
    with open(schema, encoding="utf-8") as file:
        validator = jsonschema.Draft7Validator(json.load(file))
    with open(path, encoding="utf-8") as file:
        for error in validator.iter_errors(yaml.safe_load(file)):
            yield f"{'.'.join(map(str, error.path))}: {error.message}"


if __name__ == "__main__":
    found = list(check_manifests(sys.argv[2:]) if sys.argv[1] == "manifests" else check_values(*sys.argv[2:]))
    print("\n".join(found))
    sys.exit(1 if found else 0)
