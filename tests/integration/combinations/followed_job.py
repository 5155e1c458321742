"""What is promised of a job while one looks at it: nothing goes backwards, nothing contradicts itself."""

import json
import time

from job_search import ENDED, Broken

LIVE_STATES = {"PENDING": 0, "SEEDING": 1, "RUNNING": 2, "FINISHING": 3}


class Followed:
    """A job, as it is seen."""

    def __init__(self, spec, report):
        self.spec, self.report = spec, report
        self.cancelled = self.disturbed = False
        self.coordinator = None
        # When the metrics showed it as it is.
        self.agreed = time.monotonic()

    def see(self, report, coordinator):
        """`coordinator`: which one says it. A coordinator that was killed counts what pools report again."""
        compare_reports(self.report, report)
        tokens = [int(each["contributed_tokens"]) for each in (self.report, report)]
        if tokens[1] < tokens[0] and coordinator == self.coordinator:
            raise Broken(f"{report['name']} lost contributed tokens: {tokens}")
        self.report, self.coordinator = report, coordinator
        name, state = self.spec["name"], report["state"]
        if state in ("FAILED", "QUARANTINED") or state == "CANCELLED" and not self.cancelled:
            raise Broken(f"{name} is {state}: {report['error']}")
        if state in ENDED and report["waiting_for"]:
            raise Broken(f"{name} is {state} and waits for {report['waiting_for']}")
        if report["set_aside"]:
            raise Broken(f"{name} set a pool aside: {json.dumps(report['set_aside'])}")


def compare_reports(before, now):
    """What must not go backwards."""
    if before is None or before["id"] != now["id"]:
        return
    was, state = before["state"], now["state"]
    if was in ENDED and state != was or LIVE_STATES.get(state, 9) < LIVE_STATES.get(was, 0):
        raise Broken(f"{now['name']} was {was} and is {state}")
    rounds = [[fragment["rounds_committed"] for fragment in report["fragments"]] for report in (before, now)]
    # There are none until the store is open.
    if all(rounds) and any(int(new) < int(old) for old, new in zip(*rounds)):
        raise Broken(f"{now['name']} lost rounds: {rounds}")
