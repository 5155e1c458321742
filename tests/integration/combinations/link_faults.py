"""What happens to links, nodes and the coordinator while jobs run, and when. Faults are generators, as in faults.py of the soak."""

import threading
import time
import traceback

import faults


def for_a_while(act):
    def fault(link, draw):
        act(link, draw)
        yield draw.choice((0.1, 1, 3, 8)) * draw.uniform(0.5, 1)
        link.mend()
    fault.__name__ = act.__name__
    return fault


@for_a_while
def held(link, draw):
    link.hold()


@for_a_while
def held_up(link, draw):
    link.hold_one_way(True)


@for_a_while
def held_down(link, draw):
    link.hold_one_way(False)


@for_a_while
def cut(link, draw):
    link.cut()


@for_a_while
def refused(link, draw):
    link.refuse()


@for_a_while
def refused_and_reset(link, draw):
    link.refuse()
    link.reset()


@for_a_while
def reset_after_bytes(link, draw):
    link.reset_after(draw.choice((100, 3000, 20_000, 150_000)))


@for_a_while
def delayed(link, draw):
    link.delay(draw.choice((0.02, 0.2, 0.6)))


@for_a_while
def narrow(link, draw):
    link.narrow(draw.choice((2000, 20_000, 100_000)))


@for_a_while
def answers_forgotten(link, draw):
    link.forget_answers()


def reset(link, draw):
    link.reset()
    yield 0


OF_A_LINK = (held, held_up, held_down, cut, refused, refused_and_reset, reset_after_bytes, delayed, narrow, answers_forgotten, reset)
OF_A_NODE = (faults.rank_killed, faults.rank_stopped, faults.agent_killed, faults.agent_stopped, faults.agent_drained)
OF_THE_COORDINATOR = (faults.coordinator_killed, faults.coordinator_restarted, faults.coordinator_stopped)


class Schedule(threading.Thread):
    """Does each thing at its time. What is done to one thing is not done to it twice at once."""

    def __init__(self, plan):
        super().__init__(daemon=True)
        self.plan = sorted(plan, key=lambda entry: entry[0])
        self.error = None

    def run(self):
        begun, waiting, running, busy = time.monotonic(), list(self.plan), [], set()
        try:
            while waiting or running:
                now = time.monotonic() - begun
                for entry in [entry for entry in waiting if entry[0] <= now]:
                    at, what, target, make = entry
                    if target not in busy:
                        waiting.remove(entry)
                        busy.add(target)
                        running.append([now, make(), target])
                for entry in list(running):
                    if entry[0] <= now:
                        try:
                            entry[0] = now + next(entry[1])
                        except StopIteration:
                            running.remove(entry)
                            busy.discard(entry[2])
                time.sleep(0.05)
        except Exception:
            self.error = traceback.format_exc()
