"""Processes that benchmarks measure in turn."""
import subprocess


class Answering:
    """A process that is asked by lines on its standard input and answers by lines."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, bufsize=1)

    def ask(self, what="go"):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"{self.name} ended with status {self.process.wait()}")
        return line.split()

    def close(self):
        self.process.stdin.close()  # Ends it.
        self.process.wait(timeout=30)
