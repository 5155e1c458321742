#!/usr/bin/env python3
"""Fits what an access costs (kOutOfOrder and kInOrder of common/plan/clock_model.h) to the published points of
deploy/examples/cores, and says how far the models are off: in sample, and with each program left out.
  clock_constants.py            needs scipy
"""

import csv
import math
import pathlib
import statistics

from scipy.optimize import least_squares
from scipy.stats import spearmanr

CORES = pathlib.Path(__file__).resolve().parents[3] / "deploy/examples/cores"
BASE = 4.0
LEVELS = ("core_ghz", "l1_ghz", "l2_ghz", "l3_ghz")


def rows_of(name):
    with open(CORES / name) as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def points_of(names):
    points = {}
    for name in names:
        for row in rows_of(name):
            clocks = tuple(float(row[level]) for level in LEVELS)
            if clocks != (BASE,) * 4:
                points.setdefault(row["workload"], {})[clocks] = float(row["seconds"])
    return points


class Core:
    """A model with constants: L1I, L1D, L2, L3 in cycles, L3 misses in ns, and how the cost of L2 falls with density."""

    def __init__(self, counters, points, root, power, width, start, falls):
        self.counters = {row["workload"]: {k: float(v) for k, v in row.items() if k != "workload"} for row in counters}
        self.points, self.root, self.power, self.width = points, root, power, width
        self.start, self.falls = start, falls

    def seconds(self, terms, clocks):
        core, l1, l2, l3 = (term / clock for term, clock in zip(terms, clocks))
        inner = (core**self.root + l1**self.root) ** (1 / self.root)
        return (inner**self.power + l2**self.power) ** (1 / self.power) + l3 + terms[4]

    def terms(self, constants, name):
        c = self.counters[name]
        dense = (c["l2_acc"] / c["instr"] / 0.01) ** -(constants[5] if self.falls else 0)
        waits = [(constants[0] * c["l1i"] + constants[1] * c["l1d"]) / 1e3, constants[2] * c["l2_acc"] * dense / 1e3,
                 constants[3] * c["l3_acc"] / 1e3, constants[4] * c["l3_miss"] / 1e3]
        goal, least = c["ms"] / 1e3, c["instr"] / 1e3 / self.width
        base = (BASE,) * 4
        if self.seconds([least] + waits, base) >= goal:  # the waits are shorter than the constants say
            low, high = 0.0, 1.0
            for _ in range(60):
                middle = (low + high) / 2
                above = self.seconds([least] + [middle * w for w in waits], base) > goal
                low, high = (low, middle) if above else (middle, high)
            return [least] + [low * w for w in waits]
        low, high = least, goal * BASE
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if self.seconds([middle] + waits, base) > goal else (middle, high)
        return [low] + waits

    def errors(self, constants, names):
        return [math.log(self.seconds(terms, clocks) / seconds) for name in names
                for terms in [self.terms(constants, name)] for clocks, seconds in self.points[name].items()]

    def fit(self, names):
        # Logarithms, so that constants are positive; drawn to the start, where few points say anything of one. That of
        # memory stays: the mean speedup with all clocks at 100 GHz depends on it.
        start = [math.log(c) for c in self.start]

        def constants(y):
            values = [math.exp(v) for v in y]
            values[4] = self.start[4]
            return values

        found = least_squares(
            lambda y: self.errors(constants(y), names) + [0.2 * (v - s) for v, s in zip(y, start)], start)
        return constants(found.x)


def show(title, core):
    names = list(core.counters)
    constants = core.fit(names)
    off = sorted(abs(math.exp(e) - 1) for e in core.errors(constants, names))
    print(title, [round(c, 3) for c in constants])
    print(f"  in sample: median {statistics.median(off):.1%}, p90 {off[int(0.9 * len(off))]:.1%}, most {off[-1]:.1%}")
    left_out, predicted, real = [], [], []
    for name in names:
        others = core.fit([n for n in names if n != name])
        terms = core.terms(others, name)
        for clocks, seconds in core.points[name].items():
            left_out.append(abs(core.seconds(terms, clocks) / seconds - 1))
            predicted.append(1 / core.seconds(terms, clocks) * core.counters[name]["ms"])
            real.append(core.counters[name]["ms"] / seconds)
    left_out.sort()
    print(f"  each left out: median {statistics.median(left_out):.1%}, p90 {left_out[int(0.9 * len(left_out))]:.1%}, "
          f"most {left_out[-1]:.1%}, rank correlation of speedups {spearmanr(predicted, real)[0]:.3f}")
    for clocks in ((100, 4, 4, 4), (100, 100, 4, 4), (100, 100, 100, 4), (100,) * 4):
        times = [(core.seconds(core.terms(constants, n), clocks), core.points[n].get(clocks), core.counters[n]["ms"] / 1e3)
                 for n in names]
        if all(measured for _, measured, _ in times):
            print(f"  {clocks}: mean speedup {statistics.geometric_mean(b / p for p, _, b in times):.2f}, "
                  f"published {statistics.geometric_mean(b / m for _, m, b in times):.2f}")


show("out of order", Core(rows_of("counters.csv"), points_of(["times.csv", "points.csv"]), 2, 1.2, 4,
                          [1.25, 0.11, 3.46, 3.28, 22.0, 0.3], True))
show("in order", Core(rows_of("counters_in_order.csv"), points_of(["points_in_order.csv"]), 1, 1, 2,
                      [1.0, 1.5, 6.0, 20.0, 30.0], False))
