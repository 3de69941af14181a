"""Waiting for events.  A test never sleeps for a fixed time and never asserts one."""

import time

PATIENCE = 60  # seconds; generous, because machines are slow and sanitizers slower


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
