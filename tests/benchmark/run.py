"""Runs benchmarks one after another and collects the rows that they print (harness/row.h): one JSON object a line,
{name, ours, reference, ratio, target, unit, note}. Everything else that they print goes to stderr.

  run.py --build DIR [NAME...] [--json FILE] [--list] [-- FLAGS of the one benchmark that is named]

--json FILE gets {"schema_version": 1, "commit", "date", "processor", "instructions", "cores", "load", "rows": [...]}, each row with the
`benchmark` that printed it. A commit with `+` had changes. load: how many processes were ready to run in the minute before the first benchmark,
and in that before its end. Exit status: 0 if every
benchmark ran and reached FLOOR of its target, or the row's own floor, 1 if one failed or did not, 4 for an unknown name. Whether targets are met is for the
reader: machines differ, but a ratio to what was measured beside it does not differ by half.
"""
import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys

# The share of a target below which a ratio is a fault; of rows whose target was never near, by name (README.md says why).
FLOOR = 0.5
FLOORS = {"exchange_e3m0": 0.2}
# A row may have its own `floor`, of the ratio itself (kernels).
# name -> command; {build} is the build folder.
BENCHMARKS = {
    "codec": ["{build}/benchmark/codec_benchmark"],
    "kernels": [sys.executable, "-B", "tests/benchmark/kernels/kernels.py", "{build}"],
    "cuda": ["{build}/benchmark/cuda_codec_benchmark"],  # No rows where there is no CUDA device.
    "mfu": ["{build}/benchmark/mfu_benchmark"],  # No rows where there is no CUDA device.
    "device_offload": ["{build}/benchmark/device_offload_benchmark"],  # No rows where there is no CUDA device.
    "piquant": [sys.executable, "-B", "tests/benchmark/codec/piquant.py", "{build}"],
    "outer": ["{build}/benchmark/outer_benchmark"],
    "operations": ["{build}/benchmark/operations_benchmark"],
    "coordinator": ["{build}/benchmark/coordinator_benchmark"],
    "stream": ["{build}/benchmark/fragment_stream_benchmark"],
    "collective": [sys.executable, "-B", "tests/benchmark/collective/collectives.py", "{build}"],
    "optimizer": [sys.executable, "-B", "tests/benchmark/optimizer/optimizer.py", "{build}"],
    "engine": [sys.executable, "-B", "tests/benchmark/engine/eager.py", "{build}"],
    "documents": [sys.executable, "-B", "tests/benchmark/engine/documents.py", "{build}"],
    "models": [sys.executable, "-B", "tests/benchmark/models/models.py", "{build}/bin"],
    "offload": ["{build}/benchmark/offload_benchmark"],
    "data": ["{build}/benchmark/data_benchmark"],
    "levels": ["{build}/benchmark/levels_benchmark"],
    "graph": ["{build}/benchmark/graph_benchmark"],
    "graph_epoch": ["{build}/benchmark/graph_epoch_benchmark"],
    "device_gather": ["{build}/benchmark/device_gather_benchmark"],  # No rows where there is no CUDA device.
    "device_graph_epoch": ["{build}/benchmark/graph_epoch_benchmark", "--device", "cuda", "--steps", "40"],  # Nor there.
    "tokenize": [sys.executable, "-B", "tests/benchmark/data/tokenize.py", "--data-benchmark", "{build}/benchmark/data_benchmark"],
    "presets": [sys.executable, "-B", "tests/benchmark/engine/presets.py", "{build}/bin"],
    "ranks": [sys.executable, "-B", "tests/benchmark/engine/ranks.py", "{build}/bin"],
    "partition": [sys.executable, "-B", "tests/benchmark/partition/narrow_link.py", "{build}/bin"],  # Root.
    "onebit": [sys.executable, "-B", "tests/benchmark/partition/onebit_link.py", "{build}/bin"],  # Root.
    "exchange": [sys.executable, "-B", "tests/benchmark/exchange/exchange.py", "{build}/bin"],
    "download": [sys.executable, "-B", "tests/benchmark/coordinator/download.py", "{build}/bin"],
    "upload": [sys.executable, "-B", "tests/benchmark/coordinator/upload.py", "{build}/bin"],
    "cli": [sys.executable, "-B", "tests/benchmark/cli/commands.py", "{build}/bin"],
    "logs": [sys.executable, "-B", "tests/benchmark/logs/logs.py", "{build}/bin"],
    "quorum": [sys.executable, "-B", "tests/benchmark/quorum/quorum.py", "{build}/bin"],
    "restart": [sys.executable, "-B", "tests/benchmark/restart/restart.py", "{build}/bin"],
    "faults": [sys.executable, "-B", "tests/benchmark/faults/faults.py", "{build}/bin"],
    "floods": [sys.executable, "-B", "tests/benchmark/faults/floods.py", "{build}/bin"],
    "tls": ["{build}/benchmark/tls_benchmark"],
    "wan": [sys.executable, "-B", "tests/benchmark/link/wan.py", "{build}/benchmark"],
}


def run(name, command):
    """The rows of one benchmark, or None if it failed."""
    rows = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            try:
                row = json.loads(line)
            except ValueError:
                row = None
            if isinstance(row, dict) and "ratio" in row:
                rows.append({"benchmark": name, **row})
                show(row)
            else:
                sys.stderr.write(line)
    return rows if process.returncode == 0 else None


def least_of(row):
    return row.get("floor", FLOORS.get(row["name"], FLOOR) * row["target"])


def is_too_low(row):
    return row.get("target") is not None and not row["ratio"] >= least_of(row)


def show(row):
    target = row.get("target")
    verdict = "" if target is None else f"  target {target:g} {'met' if row['ratio'] >= target else 'BY FAR MISSED' if is_too_low(row) else 'MISSED'}"
    limit = f"  {row['note'].split(';')[0]}" if row.get("note", "").startswith("limit: ") else ""
    print(f"{row['name']:<44} {row['ours']:>10.4g} / {row['reference']:<10.4g} {row['unit']:<8} = {row['ratio']:.3f}{limit}{verdict}",
          flush=True)


def git(*words):
    done = subprocess.run(["git", *words], cwd=pathlib.Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def instructions(flags):
    """The widest set that our kernels use, of those of /proc/cpuinfo."""
    sets = (("amx_bf16", "AMX"), ("avx512_bf16", "AVX512-BF16"), ("avx512f", "AVX-512"), ("avx2", "AVX2"), ("sve", "SVE"), ("asimd", "NEON"))
    return next((name for flag, name in sets if flag in flags), "SSE")


def machine():
    """What a figure is of, before it is measured."""
    info = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    found = dict(line.split(":", 1) for line in reversed(info.replace("\t", "").splitlines()) if ":" in line)
    commit = git("rev-parse", "--short=8", "HEAD")
    return {"commit": None if commit is None else commit + ("+" if git("status", "--porcelain", "--untracked-files=no") else ""),
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "processor": found.get("model name", found.get("CPU part", "unknown")).strip(),
            "instructions": instructions((found.get("flags") or found.get("Features") or "").split()), "cores": os.cpu_count(), "load": [os.getloadavg()[0]]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--build", default="build")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--list", action="store_true", help="print the names")
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    arguments, flags = parser.parse_args(words[:cut]), words[cut + 1:]
    if flags and len(arguments.names) != 1:
        parser.error("flags after -- are of one benchmark: name it")
    if arguments.list:
        print("\n".join(BENCHMARKS))
        return 0
    unknown = [name for name in arguments.names if name not in BENCHMARKS]
    if unknown:
        print(f"unknown benchmark: {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 4
    rows, failed, begun = [], [], machine()
    for name in arguments.names or BENCHMARKS:
        result = run(name, [*(part.format(build=arguments.build) for part in BENCHMARKS[name]), *flags])
        if result is None:
            failed.append(name)
        else:
            rows += result
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"schema_version": 1, **begun, "load": [*begun["load"], os.getloadavg()[0]], "rows": rows}, file, indent=1)
            file.write("\n")
    for name in failed:
        print(f"benchmark {name} failed", file=sys.stderr)
    low = [row for row in rows if is_too_low(row)]
    for row in low:
        print(f"benchmark {row['benchmark']}: {row['name']}: {row['ratio']:.3f} is below {least_of(row):g}; its target is {row['target']:g}", file=sys.stderr)
    return 1 if failed or low else 0


if __name__ == "__main__":
    sys.exit(main())
