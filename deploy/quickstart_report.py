"""Prints what the quickstart job achieved, from `longhaul get JOB -o json` and `longhaul checkpoints JOB -o json`."""

import argparse
import json


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)["data"]


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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job")
    parser.add_argument("checkpoints")
    parser.add_argument("--json", help="write the report here as JSON")
    options = parser.parse_args()
    report = make_report(load(options.job), load(options.checkpoints))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=2)
            file.write("\n")
    print(f"""
{report['job']}: {report['state']}, {report['parameters']:,} parameters, {report['tokens']:,} tokens, two pools
  eval loss        {report['eval_loss_first']:.3f} after the first cycle, {report['eval_loss_last']:.3f} at the end
                   (nats a byte, held-out text)
  bytes exchanged  {report['wire_bytes'] / 1e6:,.1f} MB, up and down, both pools; data parallelism
                   would have sent {report['data_parallel_bytes'] / 1e6:,.0f} MB, {report['byte_ratio']:,.0f} times as much
                   (bf16 gradients up and down at every step)
  utilization      {100 * report['utilization']:.1f} % computing: {report['exposed_wait_seconds']:.1f} s of waiting beside
                   {report['compute_seconds']:.1f} s of compute (mean of the pools)
  checkpoint       {report['checkpoint']}""")


if __name__ == "__main__":
    main()
