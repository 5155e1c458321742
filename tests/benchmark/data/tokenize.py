"""python -m longhaul.tokenize, and what a rank makes of JSONL by a tokenizer.json when its job begins, against the tokenizers package alone: the same
documents, already in memory, by encode_batch_fast. Runs in turn, each as a process of its own; prints rows (harness/row.h).

    tokenize.py [--data-benchmark PROGRAM] [--megabytes N] [--repetitions N] [--smoke]
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/integration/data"))
import real_tools

real_tools.use_environment()

ALONE = """
import json, sys, time
from tokenizers import Tokenizer
tokenizer = Tokenizer.from_file(sys.argv[1])
texts = [json.loads(line)["text"] for line in open(sys.argv[2], encoding="utf-8")]
encode = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)
start = time.monotonic()
for first in range(0, len(texts), 4096):
    encode(texts[first:first + 4096], add_special_tokens=False)
print(time.monotonic() - start)
"""
OURS = """
import sys, time
from tokenizers import Tokenizer
from longhaul import tokenize
tokenizer = Tokenizer.from_file(sys.argv[1])
start = time.monotonic()
tokenize.tokenize(tokenizer, [sys.argv[2]], sys.argv[3], eos=0)
print(time.monotonic() - start)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-benchmark", help="also a rank's way, by this program")
    parser.add_argument("--megabytes", type=int, default=40)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--smoke", action="store_true", help="small and short")
    options = parser.parse_args()
    if options.smoke:
        options.megabytes, options.repetitions = 1, 1
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        text = "".join(path.read_text(errors="replace") for path in sorted(pathlib.Path("/usr/share/common-licenses").iterdir()) if path.is_file())
        paragraphs = [part for part in text.split("\n\n") if len(part) > 200]
        tokenizer, _ = real_tools.train_tokenizer(folder, paragraphs, 8000)
        size = 0
        with open(folder / "text.jsonl", "w", encoding="utf-8") as file:
            for i in range(10**9):
                line = json.dumps({"text": f"{i}. " + "\n\n".join(paragraphs[(i * 7 + k) % len(paragraphs)] for k in range(4))}) + "\n"
                size += file.write(line)
                if size > options.megabytes * 1e6:
                    break

        def seconds(code):
            command = [sys.executable, "-B", "-c", code, tokenizer, folder / "text.jsonl", folder / "out"]
            environment = {**os.environ, "PYTHONPATH": str(ROOT / "deploy/python"), "TOKENIZERS_PARALLELISM": "true"}
            return float(subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout)

        def seconds_of_job():
            command = [options.data_benchmark, "--jsonl", folder / "text.jsonl", "--tokenizer", tokenizer, "--threads", str(len(os.sched_getaffinity(0)))]
            environment = {**os.environ, "PYTHONPATH": str(ROOT / "deploy/python"), "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
            return json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout)

        triples, tokens = [], 0
        for _ in range(options.repetitions):
            job = seconds_of_job() if options.data_benchmark else {"seconds": 1, "tokens": 0}
            tokens = job["tokens"]
            triples.append((seconds(OURS), seconds(ALONE), job["seconds"]))
        medians = [statistics.median(times) for times in zip(*triples)]
        ours, alone, _ = (size / 1e6 / median for median in medians)
        if options.data_benchmark:
            print(json.dumps({"name": "data / a job's JSONL by a tokenizer.json, once", "ours": tokens / medians[2] / 1e6, "reference": tokens / medians[1] / 1e6,
                              "ratio": medians[1] / medians[2], "target": 0.5, "unit": "Mtoken/s",
                              "note": "reading, parsing, the start of the tokenizer's process, writing, syncing; reference: encode_batch_fast of the same texts in memory"}))
        print(json.dumps({"name": "data / longhaul.tokenize, JSONL to .bin and .idx", "ours": ours, "reference": alone, "ratio": ours / alone,
                          "target": 0.8, "unit": "MB/s", "note": "reference: encode_batch_fast of the same texts in memory"}))


if __name__ == "__main__":
    main()
