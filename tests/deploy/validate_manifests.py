"""Checks manifests strictly: against the schemas of the oldest Kubernetes that the chart takes and of the newest that kubernetes-validate knows,
custom resources against their definitions (crds). Unknown fields are errors. Run in the environment of requirements.txt.

    validate_manifests.py FILE            prints the objects as JSON; exit status 1: what is wrong is on standard error
"""

import json
import pathlib
import sys

import jsonschema
import kubernetes_validate
import yaml

VERSIONS = ("1.28", "1.37")


def strict(schema):
    """A structural schema of Kubernetes as a JSON schema that refuses unknown fields."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: strict(value) for key, value in schema.items() if key != "properties" and not key.startswith("x-kubernetes")}
    if "properties" in schema:
        result["properties"] = {name: strict(value) for name, value in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            result.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        result.pop("type", None)
    if result.pop("nullable", False) and "type" in result:
        result["type"] = [result["type"], "null"]
    return result


def custom_resources():
    """(apiVersion, kind) -> validator"""
    found = {}
    for path in pathlib.Path(__file__).with_name("crds").glob("*.json"):
        definition = json.loads(path.read_text(encoding="utf-8"))
        for version, schema in definition["versions"].items():
            schema = strict(schema)
            schema["properties"].update(apiVersion={"type": "string"}, kind={"type": "string"}, metadata={"type": "object"})
            found[f"{definition['group']}/{version}", definition["kind"]] = jsonschema.Draft7Validator(schema)
    return found


def faults(manifest, custom):
    validator = custom.get((manifest["apiVersion"], manifest["kind"]))
    if validator is not None:
        for error in validator.iter_errors(manifest):
            yield f"{'.'.join(map(str, error.absolute_path))}: {error.message}"
        return
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(manifest, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            yield f"{version}: {'.'.join(map(str, error.path))}: {error.message}"
        except Exception as error:  # No such kind, in words that depend on the version of the library.
            yield f"{version}: {manifest['apiVersion']} {manifest['kind']}: {error}"


def main():
    custom = custom_resources()
    with open(sys.argv[1], encoding="utf-8") as file:
        manifests = list(filter(None, yaml.load_all(file, yaml.CSafeLoader)))
    print(json.dumps(manifests))
    found = [f"{item['kind']} {item['metadata']['name']}: {fault}" for item in manifests for fault in faults(item, custom)]
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
