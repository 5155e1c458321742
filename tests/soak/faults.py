"""The faults of a soak. Each is a generator: it does harm, yields how many seconds it lasts, and mends. Between two yields it does not wait."""

import os
import signal
import time

# What a program that was asked to end may take: a drain takes 30 s at most.
END_SECONDS = 60


class Overdue(Exception):
    """A process did not do in time what it was asked to do."""


def ended(process, what):
    deadline = time.monotonic() + END_SECONDS
    while process.poll() is None:
        if time.monotonic() > deadline:
            raise Overdue(f"{what} did not end in {END_SECONDS} s")
        yield 0.1


def asked_to_end(process, what):
    process.send_signal(signal.SIGTERM)
    yield from ended(process, what)
    if process.returncode != 0:
        raise Overdue(f"{what} ended with {process.returncode} when it was asked to")


def coordinator_killed(fleet, draw):
    fleet.coordinator_up = False
    fleet.coordinator.kill()
    yield from ended(fleet.coordinator, "the coordinator")
    yield draw.uniform(0, 6)
    fleet.start_coordinator()


def coordinator_restarted(fleet, draw):
    fleet.coordinator_up = False
    yield from asked_to_end(fleet.coordinator, "the coordinator")
    yield draw.uniform(0, 6)
    fleet.start_coordinator()


def coordinator_stopped(fleet, draw):
    # Shorter and longer than a lease.
    fleet.coordinator_up = False
    fleet.coordinator.send_signal(signal.SIGSTOP)
    yield draw.uniform(0.2, 14)
    fleet.coordinator.send_signal(signal.SIGCONT)
    fleet.coordinator_up = True


def disk_full(fleet, draw):
    fleet.fill_disk()
    yield draw.uniform(1, 8)
    fleet.empty_disk()


def agent_killed(node, draw):
    node.up = False
    node.process.kill()
    yield from ended(node.process, f"agent {node.name}")
    yield draw.uniform(0, 15)
    node.start()


def agent_drained(node, draw):
    node.up = False
    yield from asked_to_end(node.process, f"agent {node.name}")
    yield draw.uniform(0, 10)
    node.start()


def agent_stopped(node, draw):
    node.process.send_signal(signal.SIGSTOP)
    yield draw.uniform(0.5, 14)
    node.process.send_signal(signal.SIGCONT)


def a_rank(node, draw):
    ranks = node.ranks()
    return draw.choice(ranks) if ranks else None


def signal_rank(rank, how):
    try:
        os.kill(rank, how)
    except ProcessLookupError:
        # It ended by itself, or its agent ended it.
        pass


def rank_killed(node, draw):
    rank = a_rank(node, draw)
    if rank is not None:
        signal_rank(rank, signal.SIGKILL)
    yield 0


def rank_stopped(node, draw):
    # Shorter and longer than --progress-timeout, after which the agent kills it.
    rank = a_rank(node, draw)
    if rank is not None:
        signal_rank(rank, signal.SIGSTOP)
        yield draw.uniform(0.5, 16)
        signal_rank(rank, signal.SIGCONT)


def link_cut(node, draw):
    node.link.cut()
    yield draw.uniform(0, 8)
    node.link.mend()


def link_held(node, draw):
    node.link.hold()
    yield draw.uniform(0.5, 25)
    node.link.mend()


# With how often each happens, relative to the others.
OF_THE_COORDINATOR = {coordinator_killed: 4, coordinator_restarted: 2, coordinator_stopped: 2, disk_full: 2}
OF_A_NODE = {agent_killed: 3, agent_drained: 3, agent_stopped: 2, rank_killed: 4, rank_stopped: 3, link_cut: 3, link_held: 3}
