"""Runs ctest and judges its result: what failed, what is unsteady, what was skipped, what took long.

    run_tests.py --build DIR [--jobs N] [--timeout SECONDS] [-C CONFIGURATION] [CTEST ARGUMENTS]

Exit status:
  0  every test passed
  1  a test failed, and failed again alone (or more than RERUN_MAX failed, or there was none to run)
  3  UNSTEADY: tests failed beside others and passed alone
  4  a test or a case of one was skipped although this machine has what it needs; or, with CI=true in the environment, for a
     reason that skips.py does not know
What ctest says of each test is kept in DIR/Testing/tests.xml (JUnit), and of those that ran again in DIR/Testing/again.xml.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import time
import xml.etree.ElementTree

import skips

FAILED, UNSTEADY, SKIPPED = 1, 3, 4
# More failures than these are no question of what else the machine did.
RERUN_MAX = 5
SLOWEST = 15
CLOSING = re.compile(r"^\d+% tests passed, \d+ tests failed out of \d+")


def run_ctest(options, junit, arguments, show):
    """ctest's exit status, and the line with which it closes. `show`: gets each line that it prints."""
    junit.unlink(missing_ok=True)
    configuration = ["-C", options.configuration] if options.configuration else []
    command = ["ctest", "--test-dir", options.build, "--timeout", str(options.timeout), *configuration, "--output-on-failure",
               "--no-tests=error", "--output-junit", junit,
               # Else the file has the first 1,024 bytes of what a test said that passed, and no word of its skipped cases.
               "--test-output-size-passed", str(1 << 24), *arguments]
    closing = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        for line in process.stdout:
            show(line)
            closing = line.strip() if CLOSING.match(line) else closing
    return process.returncode, closing


class Result:
    def __init__(self, case):
        self.name = case.get("name")
        self.seconds = float(case.get("time") or 0)
        skipped = case.find("skipped")
        # ctest itself took it for skipped, by its exit status or by what it said. All else that did not run is not there.
        self.skipped = skipped is not None and skipped.get("message", "").startswith("SKIP_")
        self.failed = case.get("status") == "fail" or case.get("status") == "notrun" and not self.skipped
        self.output = case.findtext("system-out") or ""


def results_of(junit):
    return [Result(case) for case in xml.etree.ElementTree.parse(junit).getroot().iter("testcase")] if junit.exists() else []


def skipped_of(results):
    """(name, reason) of each case that was skipped, and of each test that was skipped as a whole."""
    found = []
    for result in results:
        cases = skips.cases_of(result.output)
        if result.skipped and not cases:
            cases = [("all of it", skips.last_line(result.output))]
        found += [(f"{result.name}: {name}", reason) for name, reason in cases]
    return found


def judge_skips(skipped, facts, strict):
    """Prints the skipped cases by reason. Returns whether that is right for this machine."""
    reasons = {}
    for name, reason in skipped:
        reasons.setdefault(reason, []).append(name)
    right = True
    for reason, names in sorted(reasons.items()):
        verdict = skips.verdict(reason, facts)
        wrong = verdict == skips.HAS or verdict == skips.UNKNOWN and strict
        right = right and not wrong
        print(f"{'WRONGLY ' if wrong else ''}SKIPPED, {reason} ({verdict}):")
        print("".join(f"  {name}\n" for name in names), end="")
    print(f"{len(skipped)} skipped")
    return right


def rerun(options, names):
    """Those that fail again, each alone. What ctest says is shown without its closing line, which is that of the first run."""
    print(f"these tests failed, and run again, alone: {' '.join(names)}", flush=True)
    chosen = "^(" + "|".join(re.escape(name) for name in names) + ")$"
    junit = options.build / "Testing/again.xml"
    status, _ = run_ctest(options, junit, ["-R", chosen], lambda line: None if CLOSING.match(line) else print(line, end="", flush=True))
    results = {result.name: result for result in results_of(junit)}
    return [name for name in names if status != 0 and (name not in results or results[name].failed)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=int, default=900)
    parser.add_argument("-C", dest="configuration")
    options, arguments = parser.parse_known_args()
    options.build = options.build.resolve()
    begun = time.monotonic()
    junit = options.build / "Testing/tests.xml"
    junit.parent.mkdir(parents=True, exist_ok=True)
    status, closing = run_ctest(options, junit, ["-j", str(options.jobs), *arguments], lambda line: print(line, end="", flush=True))
    results = results_of(junit)
    failed = [result.name for result in results if result.failed]
    unsteady = []
    if failed and len(failed) <= RERUN_MAX:
        again = rerun(options, failed)
        unsteady = [name for name in failed if name not in again]
        failed = again
    elif status != 0 and not failed:
        failed = ["ctest"]

    print(f"\nthe slowest {SLOWEST} of {len(results)} tests, in seconds:")
    for result in sorted(results, key=lambda result: -result.seconds)[:SLOWEST]:
        print(f"{result.seconds:8.1f}  {result.name}")
    print()
    skipped_rightly = judge_skips(skipped_of(results), skips.facts(options.build), os.environ.get("CI") == "true")
    if unsteady:
        print(f"UNSTEADY: these tests failed beside others and passed alone: {' '.join(unsteady)}")
        print("Look for the race, in the product or in the test, with the output above.")
    if failed:
        print(f"FAILED: {' '.join(failed)}")
    print(f"tests {time.monotonic() - begun:.0f}s, on {os.cpu_count()} cores")
    print(closing)
    return FAILED if failed else UNSTEADY if unsteady else 0 if skipped_rightly else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
