"""Debian's packages as a graph for `longhaul graph import edges`: which section does a package belong to?

    PYTHON deploy/graphs/debian_packages.py --out FOLDER [--sites 2]

A node is a package that apt knows on this machine, its class the section. Sections of fewer than 100 packages are left out, and those that say
nothing about the subject, like oldlibs; their packages are nodes without a label. Features are the words of the one-line description. The
name is left out: who knows that libNAME-perl is Perl needs no graph. Edges are relations like Depends. FOLDER/whole has all of it. FOLDER/site-a
and so on have the packages of some sources each, and the edges among them alone, with the classes and the split of the whole."""

import argparse
import hashlib
import re
import subprocess
import sys

try:
    import numpy

    import text_graph
except ModuleNotFoundError as error:
    sys.exit(f"debian_packages: no module {error.name}; run it by $(deploy/setup.sh --print-venv)/bin/python")

RELATIONS = ("Depends", "Pre-Depends", "Recommends", "Suggests", "Enhances")
LISTS = (*RELATIONS, "Provides")
FIELDS = {"Package", "Source", "Section", "Description", *LISTS}
NO_SUBJECT = ("debug", "doc", "introspection", "localization", "metapackages", "misc", "oldlibs", "tasks")
SMALLEST_CLASS = 100
NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")


def packages_of(lines):
    """Of each package, in the order of their names, the fields that matter; of versions of one package the first."""
    packages, package, field = {}, {}, None
    for line in [*lines, "\n"]:
        if line.isspace():
            if "Package" in package:
                packages.setdefault(package["Package"], package)
            package, field = {}, None
        elif line[0] in " \t":
            # A list may be continued; behind the first line of a description is the long one.
            if field in LISTS:
                package[field] += line.rstrip("\n")
        else:
            name, _, value = line.partition(":")
            # The description may carry its language: Description-en.
            field = "Description" if name.startswith("Description-") and name != "Description-md5" else name
            if field in FIELDS:
                package.setdefault(field, value.strip())
    return [package for _, package in sorted(packages.items())]


def names_in(package, field):
    for one in package.get(field, "").replace("|", ",").split(","):
        if name := NAME.match(one.strip()):
            yield name[0]


def edges_of(packages):
    """Pairs of package and what it names. A virtual package means the package that provides it; it is left out if there are none or several."""
    number = {package["Package"]: i for i, package in enumerate(packages)}
    providers = {}
    for i, package in enumerate(packages):
        for name in names_in(package, "Provides"):
            providers.setdefault(name, set()).add(i)
    number = {name: min(some) for name, some in providers.items() if len(some) == 1} | number
    edges = {(i, number[name]) for i, package in enumerate(packages) for relation in RELATIONS
             for name in names_in(package, relation) if name in number}
    return numpy.array(sorted(edges), numpy.int64).reshape(-1, 2)


def site_of(package, sites):
    """All packages of a source belong to one site."""
    source = package.get("Source", package["Package"]).split(" ")[0]
    return hashlib.sha256(source.encode()).digest()[0] % sites


def site_name(site):
    return f"site-{chr(ord('a') + site)}"


def make(lines, out, sites=2, columns=256, seed=1, smallest_class=SMALLEST_CLASS):
    """Writes the folders; yields a line for each."""
    packages = packages_of(lines)
    labels, classes = text_graph.labels_of([package.get("Section", "").split("/")[-1] for package in packages], smallest_class, NO_SUBJECT)
    if not classes:
        raise ValueError(f"of {len(packages)} packages there is no section with {smallest_class}")
    graph = ([package["Package"] for package in packages], edges_of(packages),
             text_graph.features_of([package.get("Description", "") for package in packages], columns), labels, classes,
             text_graph.split_of(labels, seed))
    yield text_graph.write_graph(f"{out}/whole", *graph)
    if sites > 1:
        places = numpy.array([site_of(package, sites) for package in packages])
        for site in range(sites):
            yield text_graph.write_graph(f"{out}/{site_name(site)}", *graph, nodes=places == site)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", required=True, help="folder to write")
    parser.add_argument("--sites", type=int, default=2, choices=range(1, 27), metavar="N", help="sites (default: 2; 1: the whole graph alone)")
    parser.add_argument("--columns", type=int, default=256, help="columns of the features (default: 256)")
    parser.add_argument("--seed", type=int, default=1, help="of the split into train, valid and test (default: 1)")
    parser.add_argument("--available", help="output of `apt-cache dumpavail` (default: that of this machine)")
    options = parser.parse_args()
    if options.available:
        with open(options.available, "rb") as file:
            text = file.read()
    else:
        text = subprocess.run(["apt-cache", "dumpavail"], stdout=subprocess.PIPE, check=True).stdout
    try:
        for line in make(text.decode(errors="replace").splitlines(keepends=True), options.out, options.sites, options.columns, options.seed):
            print(line)
    except ValueError as error:
        sys.exit(f"debian_packages: {error}; is this Debian, and was `apt-get update` run?")


if __name__ == "__main__":
    main()
