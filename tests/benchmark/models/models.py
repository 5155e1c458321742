"""What using and moving models costs, beside transformers and the disk on the same threads. Prints rows (harness/row.h).

    models.py BUILD/bin

A Llama of 146 million parameters is made with random values. `sample`: tokens a second of greedy text, ours with its cache, transformers'
generate with its own, taking turns; loading is not counted. `import`: bytes a second from the folder to a model that is ready (longhaul-lm);
`export`: from a checkpoint of a job that a coordinator wrote to a bf16 folder, both beside `dd` of as many bytes, written and synced.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/models"))

from hugging_face import BIN, make_model, run_lm  # noqa: E402  (first, it goes over to the environment of transformers)

import cluster  # noqa: E402
import torch  # noqa: E402

NEW, TURNS, THREADS = 64, 3, 2
JOB = """
name: still
model: {{hf: {{path: {model}}}, transformer: {{context: 8}}}}
data: {{text: {{path: {text}, tokenizer: bytes}}}}
train: {{steps: 1, batch: 1}}
sync: {{h: 1, tau: 0}}
evaluation: {{batches: 1}}
"""


def row(name, ours, reference, target, unit, note):
    print(json.dumps({"name": name, "ours": ours, "reference": reference, "ratio": ours / reference, "target": target, "unit": unit,
                      "note": note}), flush=True)


def seconds(work):
    start = time.monotonic()
    work()
    return time.monotonic() - start


def sample(model, folder):
    torch.set_num_threads(THREADS)
    prompt = list(range(1, 17))

    def generate():
        model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long), do_sample=False,
                       min_new_tokens=NEW, max_new_tokens=NEW)

    generate()
    ours, theirs = [], []
    for _ in range(TURNS):
        made = run_lm("sample", folder, "--prompt-tokens", ",".join(map(str, prompt)), "--greedy", "--max-tokens", NEW, "-o", "json")
        ours.append(json.loads(made.stdout)["data"]["tokens_per_second"])
        theirs.append(NEW / seconds(generate))
    row("greedy text, 146 M parameters, 2 threads", sorted(ours)[TURNS // 2], sorted(theirs)[TURNS // 2], 1.0, "tokens/s",
        "transformers' generate")


def disk(folder, size):
    """Bytes a second of a sequential write, synced."""
    taken = seconds(lambda: subprocess.run(["dd", "if=/dev/zero", f"of={folder}/disk", "bs=4M", f"count={size >> 22}", "conv=fsync"],
                                           capture_output=True, check=True))
    (folder / "disk").unlink()
    return size / taken


def move(folder, work):
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    (work / "tokens").write_bytes(b"\1\0\0\0")
    load = min(seconds(lambda: run_lm("logits", folder, "--tokens", work / "tokens", "--out", work / "logits")) for _ in range(2))
    rate = disk(work, size)
    row("import of fp32, with the start of the program", size / load, rate, 0.5, "B/s", "dd with fsync of as many bytes")
    text = work / "text"
    text.write_bytes(b"some text\n" * 1000)
    (work / "job.yaml").write_text(JOB.format(model=folder, text=text))
    pools = cluster.Cluster()
    try:
        pools.start_coordinator()
        pools.start_worker("a", 1)
        result = pools.cli("submit", "-f", work / "job.yaml", "--wait", timeout=300)
        if result.returncode != 0:
            raise RuntimeError(result.stderr)
        taken = seconds(lambda: subprocess.run([BIN / "longhaul", "--server", pools.address, "export", "still", "--out", work / "out"],
                                               check=True, capture_output=True))
    finally:
        pools.close()
    row("export to bf16, digests verified", size / 2 / taken, disk(work, size // 2), 0.5, "B/s", "dd with fsync of as many bytes")


def main():
    if BIN is None:
        sys.exit("usage: models.py BUILD/bin")
    cluster.BIN = BIN
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        model = make_model(vocab_size=16384, hidden_size=896, intermediate_size=2432, num_hidden_layers=12, num_attention_heads=14,
                           num_key_value_heads=14, head_dim=64, initializer_range=0.02, bos_token_id=None, eos_token_id=None)
        model.save_pretrained(work / "model")
        sample(model, work / "model")
        del model
        move(work / "model", work)


main()
