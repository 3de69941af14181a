"""Waiting for events.  A test never sleeps for a fixed time and never asserts one."""

import os
import time

# tests/run sets one of them for those builds: they are slower, and hold freed memory back.
SANITIZED = "ASAN_OPTIONS" in os.environ or "TSAN_OPTIONS" in os.environ
PATIENCE = 240 if SANITIZED else 60  # seconds; generous, because machines are slow and sanitizers slower


def until(condition, what, log=lambda: "", every=0.02):
    """Polls condition() until it is truthy, and returns what it returned.

    If that never comes, the failure shows log() too.
    """
    end = time.monotonic() + PATIENCE
    while not (result := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"waited {PATIENCE} s for {what}\n{log()}")
        time.sleep(every)
    return result
