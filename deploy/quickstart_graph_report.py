"""Prints what the quickstart's jobs on graphs achieved, from the folder in which deploy/quickstart.sh --example graph left them."""

import argparse
import json
import pathlib
import sys

try:
    import loss_plot
    import quickstart_report

    sys.path.append(str(pathlib.Path(__file__).resolve().parent / "graphs"))
    import graph_folder
    import graph_sage
except ModuleNotFoundError as error:
    sys.exit(f"quickstart_graph_report: no module {error.name}; run it by $(deploy/setup.sh --print-venv)/bin/python")

SITES = ("site-a", "site-b")
# Of one model, and of one for each site.
SHARED = {"alone-site-a": "site-a alone", "alone-site-b": "site-b alone", "quickstart": "together"}
OWN = {"home": "together, 100 steps more at home"}


def accuracies_of(state, reports):
    """name -> accuracy on the test nodes of each site, with all their neighbors there; `whole`: of all, in the whole graph."""
    graphs = {site: graph_folder.GraphFolder(state / site / "graph") for site in SITES}

    def accuracy(job, graph):
        return graph_sage.accuracies(graph, graph_sage.tensors_of(reports[job]["checkpoint"]))["test"]

    found = {"text": [graph_folder.own_rows_accuracy(graph, graph.test) for graph in graphs.values()]}
    for job in SHARED:
        found[job] = [accuracy(job, graph) for graph in graphs.values()]
    for job in OWN:
        found[job] = [accuracy(f"{job}-{site}", graph) for site, graph in graphs.items()]
    found["whole"] = [accuracy("whole", graph_folder.GraphFolder(state / "whole/graph"))]
    return found


def rows_of(accuracies):
    for name, shown in {"text": "text alone, without a graph", **SHARED, **OWN}.items():
        values = [*accuracies[name], sum(accuracies[name]) / len(SITES)]
        yield f"    {shown:<34}" + "".join(f"{100 * value:>8.1f} %" for value in values)
    yield f"    {'together, both with all edges':<54}{100 * accuracies['whole'][0]:>8.1f} %"


def curves_of(reports):
    """What is plotted: accuracy on validation nodes at each site, in percent, over steps. A pool evaluates its own parameters on its own nodes."""
    curves = []
    for letter, job, run in (("W", "whole", "outer"), ("A", "alone-site-a", "pool-site-a"), ("B", "alone-site-b", "pool-site-b"),
                             ("a", "quickstart", "pool-site-a"), ("b", "quickstart", "pool-site-b")):
        track = quickstart_report.track_of(reports[job]["checkpoint"])
        points = loss_plot.read_curve(track / run / "scalars.jsonl", "eval/accuracy")
        curves.append((letter, [(step, 100 * value) for step, value in points]))
    return curves


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("state", type=pathlib.Path, help="folder with the jobs' outcomes, and each site's graph")
    parser.add_argument("--json", help="write the report here as JSON")
    options = parser.parse_args()
    reports = {job: quickstart_report.make_report(*(quickstart_report.load(options.state / f"{job}{end}.json") for end in ("", ".checkpoints")))
               for job in (*SHARED, *(f"{job}-{site}" for job in OWN for site in SITES), "whole")}
    report = reports["quickstart"]
    accuracies = accuracies_of(options.state, reports)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({**report, "test_accuracy": accuracies, "jobs": reports}, file, indent=2)
            file.write("\n")
    print(f"""
{report['job']}: {report['state']}, {report['parameters']:,} parameters, two sites
  test packages whose section is found    {SITES[0]}    {SITES[1]}      mean""")
    for row in rows_of(accuracies):
        print(row)
    print(f"""  bytes exchanged  {report['wire_bytes'] / 1e6:,.1f} MB, up and down, both pools
{quickstart_report.work_lines(report)}""")
    lines = loss_plot.plot(curves_of(reports), quickstart_report.WIDTH)
    if lines:
        print("\n" + "\n".join(lines))
        print("  accuracy on validation packages (%) over steps: a together at site-a, b at\n"
              "    site-b (+ both), A site-a alone, B site-b alone, W together, both with all\n"
              "    edges (* two of these)")


if __name__ == "__main__":
    main()
