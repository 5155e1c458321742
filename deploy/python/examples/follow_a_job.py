"""Submits a small job, follows it, and prints its losses as a table. Read it from top to bottom, like a notebook.

    python follow_a_job.py [SERVER] [TEXT]
"""

# %% The coordinator.
import sys

import longhaul

client = longhaul.Client(sys.argv[1] if len(sys.argv) > 1 else None)
text = sys.argv[2] if len(sys.argv) > 2 else "/usr/share/common-licenses"
print("coordinator", client.describe().version, "with pools", [pool.name for pool in client.pools()])

# %% A job, as its YAML would say it.
spec = {
    "name": "from-python",
    "model": {"transformer": {"layers": 2, "dim": 32, "heads": 2, "ff_dim": 64, "context": 32}},
    "data": {"text": {"path": text}},
    "train": {"steps": 200, "batch": 4, "seed": 7},
    "inner": {"adamw": {"lr": 0.005}, "schedule": {"warmup_steps": 20}},
    "sync": {"h": 10, "fragments": {"balanced": 2}, "up": {"codec": "e3m0"}},
    "evaluation": {"every_cycles": 5, "batches": 4},
}
job = client.submit(spec)
print("submitted", job.id, "with", job.parameters, "parameters")

# %% Follow it. A spec that is wrong, or a job that does not exist, raises LonghaulError with fields and a hint.
for update in client.watch("from-python"):
    for row in longhaul.rows(update):
        print(row["pool"], "step", row["step"], "loss", round(row["train_loss"], 3))

# %% What came of it: rows, so `pandas.DataFrame(client.metrics("from-python"))` is a table.
for row in client.metrics("from-python"):
    if row["kind"] == "eval":
        print("step", row["step"], "eval loss", round(row["loss"], 3))
print("checkpoints", [checkpoint.path for checkpoint in client.checkpoints("from-python")])
