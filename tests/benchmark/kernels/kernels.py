#!/usr/bin/env python3
"""How near to its core's limit is each kernel, with each instruction set that this CPU has?

    python3 -B tests/benchmark/kernels/kernels.py BUILD [--instructions SET] [--only TEXT] [--write NOTE] [--table FILE] [--smoke]

Prints a row of JSON for each: the rate, the limit that was measured in turn with it (multiply-adds of the core, or its memory:
`note` says which), and the share. One thread; the best of several times. table.json has the shares that were measured last.
FLOOR of them is the floor of a row; a row that the table lacks has none but that of its target. --write NOTE replaces the rows of
these instruction sets in the table; NOTE says how the machine was. libtorch and MKL are held to the same set.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from instructions import LIBRARIES  # pylint: disable=wrong-import-position

TABLE = pathlib.Path(__file__).with_name("table.json")
# The share of a committed ratio below which a row is a fault: processors differ, and best times of a busy machine vary.
FLOOR = 0.6


def processor():
    lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    values = {name.strip(): value.strip() for name, value in fields.items()}
    name = f"{values.get('model name', 'unknown')}, family {values.get('cpu family', '?')}, model {values.get('model', '?')}"
    flags = values.get("flags", "").split()
    return name + "".join(f", {flag}" for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if flag in flags)


def rows_of(program, instructions, arguments):
    command = [program, "--instructions", instructions, "--only", arguments.only, *(["--smoke"] if arguments.smoke else [])]
    environment = {**os.environ, **LIBRARIES[instructions], "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            yield json.loads(line)
    if process.returncode != 0:
        sys.exit(f"{program} ended with {process.returncode}")


def write(arguments, sets, table, measured):
    """Replaces the rows of these sets, or with --only those that were measured."""
    cpu = f"{processor()}; {arguments.write}"
    if cpu not in table["cpus"]:
        table["cpus"].append(cpu)
    begins = tuple(f"{instructions} " for instructions in sets)
    rows = {name: row for name, row in table["rows"].items() if arguments.only or not name.startswith(begins)}
    rows.update({name: {**row, "cpu": table["cpus"].index(cpu)} for name, row in measured.items()})
    used = sorted({row["cpu"] for row in rows.values()})
    cpus = [table["cpus"][index] for index in used]
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps({**row, 'cpu': used.index(row['cpu'])})}" for name, row in rows.items())
    arguments.table.write_text(f'{{"cpus": {json.dumps(cpus, indent=1)},\n "rows": {{\n{lines}\n }}}}\n', encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--instructions", choices=list(LIBRARIES), help="only this set (default: each that the CPU has)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only rows whose names contain it")
    parser.add_argument("--write", metavar="NOTE", help="replace these rows of table.json")
    parser.add_argument("--table", type=pathlib.Path, default=TABLE, metavar="FILE", help="instead of table.json")
    parser.add_argument("--smoke", action="store_true", help="small sizes, and no floors")
    arguments = parser.parse_args()
    program = arguments.build / "benchmark/kernels_benchmark"
    sets = subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout.split()
    if arguments.instructions:
        if arguments.instructions not in sets:
            sys.exit(f"this CPU does not have {arguments.instructions}; it has {', '.join(sets)}")
        sets = [arguments.instructions]
    table = json.loads(arguments.table.read_text(encoding="utf-8"))
    measured = {}
    for instructions in sets:
        for row in rows_of(program, instructions, arguments):
            committed = table["rows"].get(row["name"])
            if arguments.smoke:
                row["target"] = None
            elif committed and row["target"] is not None:
                row["floor"] = round(FLOOR * committed["share"], 3)
            measured[row["name"]] = {"share": round(row["ratio"], 3), "rate": f"{row['ours']:.4g} {row['unit']}",
                                     "limit": row["note"].split(";")[0].removeprefix("limit: ")}
            print(json.dumps(row), flush=True)
    if arguments.write:
        write(arguments, sets, table, measured)


if __name__ == "__main__":
    main()
