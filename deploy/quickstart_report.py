"""Prints what the quickstart job achieved, from `longhaul get JOB -o json` and `longhaul checkpoints JOB -o json`."""

import argparse
import json
import pathlib
import textwrap

import loss_plot

WIDTH = 80


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)["data"]


def track_of(checkpoint):
    """The folder of the job's curves; the checkpoint is jobs/ID/checkpoints/STEP."""
    return pathlib.Path(checkpoint).parents[1] / "track"


def curves_of(report, alone):
    """What is plotted: pools by small letters, below what is measured on held-out text."""
    track = track_of(report["checkpoint"])
    pools = sorted(track.glob("pool-*"))
    curves = [(chr(ord("a") + i % 26), loss_plot.read_curve(pool / "scalars.jsonl", "train/loss")) for i, pool in enumerate(pools)]
    legend = [f"{letter} {pool.name.removeprefix('pool-')}" for (letter, _), pool in zip(curves, pools)]
    text = [f"loss (nats per byte) over steps; while training: {', '.join(legend)} (+ both)"]
    outer = "held-out text: O what the pools have together"
    if alone is not None:
        curves.append(("X", loss_plot.read_curve(track_of(alone["checkpoint"]) / "outer/scalars.jsonl", "eval/loss")))
        outer += ", X one pool alone (* both)"
    curves.append(("O", loss_plot.read_curve(track / "outer/scalars.jsonl", "eval/loss")))
    return curves, text + [outer]


def print_curves(report, alone):
    curves, legend = curves_of(report, alone)
    lines = loss_plot.plot(curves, WIDTH)
    if lines:
        print("\n" + "\n".join(lines))
        for line in legend:
            print("\n".join(textwrap.wrap(line, WIDTH - 2, initial_indent="  ", subsequent_indent="    ")))


def print_alone(report, alone):
    brought = alone["eval_loss_last"] - report["eval_loss_last"]
    print(f"""  one pool alone   {alone['eval_loss_last']:.3f} at the end, after as many steps on its own text;
                   the second site brought {brought:.3f}""")


def print_sample(sample):
    if sample["status"] != "ok":
        print(f"\n  no sample: {sample['error']['message']}")
        return
    print("\nwhat it writes now, behind \"The \" (longhaul sample CHECKPOINT --prompt TEXT):")
    # What is no character, or moves the terminal's cursor, becomes a point.
    text = "".join(c if c.isprintable() or c == "\n" else "\u00b7" for c in sample["data"]["text"])
    for line in text.splitlines():
        print("\n".join(textwrap.wrap(line, WIDTH - 2, initial_indent="  ", subsequent_indent="  ")))


def make_report(job, checkpoints):
    wire = job["wire_bytes"]
    sent = wire["up"]["total"] + wire["down"]["total"]
    final = [c for c in checkpoints if c.get("final")]
    return {
        "job": job["name"],
        "state": job["state"],
        "parameters": job["parameters"],
        "tokens": job["tokens"],
        "eval_loss_first": job["eval_loss"]["first"],
        "eval_loss_last": job["eval_loss"]["last"],
        "eval_loss_best": job["eval_loss"]["best"],
        "wire_bytes": sent,
        "data_parallel_bytes": job["data_parallel_bytes"],
        "byte_ratio": job["data_parallel_bytes"] / sent if sent else None,
        "exposed_wait_seconds": job["exposed_wait_seconds"],
        "compute_seconds": job["compute_seconds"],
        "utilization": job["utilization"],
        "checkpoint": (final or checkpoints or [{"path": None}])[-1]["path"],
    }


def shorter(path):
    """Relative to the current folder, if it is below it."""
    try:
        return pathlib.Path(path).relative_to(pathlib.Path.cwd())
    except ValueError:
        return path


def work_lines(report):
    return f"""  utilization      {100 * report['utilization']:.1f} % computing: {report['exposed_wait_seconds']:.1f} s of waiting,
                   {report['compute_seconds']:.1f} s of compute (mean of the pools)
  checkpoint       {shorter(report['checkpoint'])}"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job")
    parser.add_argument("checkpoints")
    parser.add_argument("--json", help="write the report here as JSON")
    parser.add_argument("--alone", nargs=2, metavar=("JOB", "CHECKPOINTS"), help="the same two files of one pool alone")
    parser.add_argument("--sample", help="output of `longhaul sample -o json`")
    options = parser.parse_args()
    report = make_report(load(options.job), load(options.checkpoints))
    alone = make_report(*map(load, options.alone)) if options.alone else None
    sample = json.loads(pathlib.Path(options.sample).read_text()) if options.sample else None
    if alone is not None:
        report["alone"] = {name: alone[name] for name in ("eval_loss_first", "eval_loss_last", "eval_loss_best", "tokens", "checkpoint")}
    if sample is not None and sample["status"] == "ok":
        report["sample"] = sample["data"]["text"]
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=2)
            file.write("\n")
    print(f"""
{report['job']}: {report['state']}, {report['parameters']:,} parameters, {report['tokens']:,} tokens, two pools
  eval loss        {report['eval_loss_first']:.3f} after the first cycle, {report['eval_loss_last']:.3f} at the end
                   (nats per byte, held-out text)
  bytes exchanged  {report['wire_bytes'] / 1e6:,.1f} MB, up and down, both pools; data parallelism
                   would have sent {report['data_parallel_bytes'] / 1e6:,.0f} MB, {report['byte_ratio']:,.0f} times as much
                   (bf16 gradients up and down at every step)
{work_lines(report)}""")
    if alone is not None:
        print_alone(report, alone)
    print_curves(report, alone)
    if sample is not None:
        print_sample(sample)


if __name__ == "__main__":
    main()
