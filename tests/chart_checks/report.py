"""Counts and prints checks, one a line."""

import contextlib
import time


class Failed(Exception):
    """A check does not hold; the message says what is wrong."""


class Report:
    def __init__(self):
        self.passed, self.failed, self.began = 0, 0, time.monotonic()

    @contextlib.contextmanager
    def check(self, name):
        """Passes when its body ends without an exception."""
        try:
            yield
        except Exception as error:  # what goes wrong in a check is its result
            self.failed += 1
            kind = "" if isinstance(error, Failed) else f"{type(error).__name__}: "
            print(f"FAILED  {name}: {kind}{error}", flush=True)
        else:
            self.passed += 1
            print(f"ok      {name}", flush=True)

    def end(self):
        """The last lines; says whether all checks passed."""
        print(f"{time.monotonic() - self.began:.0f} s")
        print(f"{self.passed} passed, {self.failed} failed")
        return self.failed == 0 and self.passed > 0


def must(holds, message):
    if not holds:
        raise Failed(message)
