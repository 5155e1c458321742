"""Renders a chart by Helm, as `helm template` does. Run in the environment of deploy/release/requirements.txt.

    render_chart.py CHART < REQUEST

CHART: a folder or an archive. REQUEST: JSON with `values` (YAML text) and what Helm knows of a release: `name`, `namespace`, `revision`,
`api_versions` (more than those of Kubernetes). Prints JSON: template -> text. Exit status 1: refused, with Helm's words.
"""

import json
import sys

import helm_python
from helm_python import _native
from helm_python.chart import values_from_yaml


def main():
    request = json.load(sys.stdin)
    try:
        values = values_from_yaml(request.pop("values"))
        chart = helm_python.Chart.load(sys.argv[1])
        chart.validate_schema(values)
        # Chart.render does not take api_versions.
        print(_native.call_string("helm_render", chart._raw(), json.dumps(values), json.dumps(request)))
    except helm_python.HelmError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
