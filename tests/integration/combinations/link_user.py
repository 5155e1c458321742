"""The user behind a bad link: what it runs, what it is told, and what it repeats."""

import json
import re
import signal
import subprocess
import threading
import time

from bad_link import BadLink
from cluster import BIN
from followed_job import compare_reports
from job_search import Broken


class User:
    def __init__(self, cluster, secrets, said, outcomes):
        """`said`, `outcomes`: counters of texts."""
        self.link = BadLink(cluster.address)
        self._flags, self._secrets, self._said, self._outcomes = cluster.flags, secrets, said, outcomes

    def begin(self, *arguments):
        return subprocess.Popen([BIN / "longhaul", "--server", self.link.address, *self._flags, *arguments], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *arguments, seconds=100):
        process = self.begin(*arguments, "-o", "json")
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise Broken(f"`{' '.join(map(str, arguments))}` did not end in {seconds} s: {out}{err}") from None
        self.look_for_secrets("a command", out + err)
        said = json.loads(out) if out.startswith("{") else None
        if process.returncode != 0:
            error = (said or {}).get("error", {})
            self._said[f"exit {process.returncode}, {arguments[0]}: {re.sub('[0-9]+', 'N', error.get('message', err))[:150]}"] += 1
            if not error.get("message"):
                raise Broken(f"`{' '.join(map(str, arguments))}` ended with {process.returncode} without a reason: {out}{err}")
        return process.returncode, said

    def until_done(self, schedule, *arguments, may=()):
        """Repeats a command that met a bad link. Its data; None: it was refused with one of the reasons."""
        calm = 0
        while True:
            calm += not schedule.is_alive()
            code, said = self.run(*arguments)
            if code == 0:
                return said["data"]
            if said["error"].get("reason") in may and may:
                return None
            if code not in (2, 3) and not said["error"].get("retry_after_seconds") and said["error"].get("code") not in ("UNAVAILABLE", "DATA_LOSS"):
                raise Broken(f"`{' '.join(map(str, arguments))}`: {said}")
            if calm > 4:
                raise Broken(f"`{' '.join(map(str, arguments))}` does not succeed after the faults: {said}")
            time.sleep(1)

    def follow(self, words, name):
        """A command that follows the job, and what it will have written."""
        process = self.begin(words[0], name, *words[1:], "-o", "json" if words == ["wait"] else "jsonl")
        texts = []
        thread = threading.Thread(target=lambda: texts.append(process.communicate()), daemon=True)
        thread.start()
        process.reader = thread
        return process, texts

    def end_following(self, words, process, texts):
        """The job has completed."""
        if words[0] == "logs":  # Without an end.
            time.sleep(1)
            process.terminate()
        process.reader.join(45)
        if process.poll() is None:
            process.kill()
            process.reader.join()
            raise Broken(f"{words} does not end with the job: {texts[0][0][-2000:]} {texts[0][1]}")
        out, err = texts[0]
        self.look_for_secrets(str(words), out + err)
        for line in err.splitlines():
            self._said[f"{words[0]}: {re.sub('[0-9]+', 'N', line)[:150]}"] += 1
        if words[0] == "logs":
            out = out[:out.rfind("\n") + 1]
        if process.returncode not in (0, -signal.SIGTERM, 128 + signal.SIGTERM):
            error = answers(words, out)[-1].get("error", {}) if out else {}
            if process.returncode not in (2, 3) or not error.get("message"):
                raise Broken(f"{words} ended with {process.returncode}: {out[-2000:]} {err}")
            self._outcomes[f"{words[0]} gave up: {re.sub('[0-9]+', 'N', error['message'])[:150]}"] += 1
            return
        said = [answer["data"] for answer in answers(words, out)]
        if words == ["watch"] or words == ["wait"]:
            if said[-1]["state"] != "COMPLETED":
                raise Broken(f"{words} ended with {said[-1]['state']}")
            before = None
            for job in said:
                compare_reports(before, job)
                before = job
        if words[0] == "events":
            numbers = [event["sequence"] for event in said]
            if numbers != sorted(set(map(int, numbers))) or "COMPLETED" not in said[-1]["message"]:
                raise Broken(f"events are not all there, in order: {said}")

    def look_for_secrets(self, where, text):
        for secret in self._secrets:
            if secret in text:
                raise Broken(f"{where} shows a secret")


def answers(words, text):
    return [json.loads(text)] if words == ["wait"] else [json.loads(line) for line in text.splitlines()]
