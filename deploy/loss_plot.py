"""Loss curves as lines of text, for a terminal."""

import json
import math

MARGIN = 8  # Of the losses beside the axis.


def read_curve(path, tag):
    """[(step, value)] of a run's scalars.jsonl, in the order of the steps; of a step that comes again, the newest. Empty: no such file."""
    points = {}
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                if not line.endswith("\n"):
                    break  # It is being written.
                row = json.loads(line)
                if tag in row and math.isfinite(row[tag]) and row[tag] > 0:
                    points[row["step"]] = row[tag]
    except FileNotFoundError:
        pass
    return sorted(points.items())


def steps_text(step):
    return f"{step:,}"


def plot(curves, width=80, height=14):
    """`curves`: [(letter, points)]; later ones are drawn over earlier ones, but two small letters in one place become "+", two capital ones "*".
    Losses rise by equal ratios. Returns lines of at most `width` columns; none without two points at different steps."""
    points = [point for _, curve in curves for point in curve]
    last = max((step for step, _ in points), default=0)
    if len({step for step, _ in points}) < 2:
        return []
    low, high = min(loss for _, loss in points), max(loss for _, loss in points)
    high = max(high, low * 1.01)
    columns = width - MARGIN - 1

    def row_of(loss):
        return round((height - 1) * math.log(high / loss) / math.log(high / low))

    rows = [[" "] * columns for _ in range(height)]
    for letter, curve in curves:
        places = {}  # Of each column the mean of what falls into it.
        for step, loss in curve:
            places.setdefault(round((columns - 1) * step / last), []).append(loss)
        for column, losses in places.items():
            row = rows[row_of(sum(losses) / len(losses))]
            there = row[column]
            both = there.isalpha() and there != letter and there.islower() == letter.islower()
            row[column] = ("+" if letter.islower() else "*") if both else letter
    lines = []
    for i, row in enumerate(rows):
        loss = high * (low / high) ** (i / (height - 1))
        label = f"{loss:.2f}" if i % 3 == 0 or i == height - 1 else ""
        lines.append((f"{label:>{MARGIN}}|" + "".join(row)).rstrip())
    lines.append(" " * MARGIN + "+" + "-" * columns)
    middle, end = steps_text(last // 2), steps_text(last)
    axis = [" "] * width
    for at, text in ((MARGIN + 1, "0"), (MARGIN + 1 + columns // 2 - len(middle) // 2, middle), (width - len(end), end)):
        axis[at:at + len(text)] = text
    lines.append("".join(axis).rstrip())
    return lines
