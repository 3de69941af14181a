"""Two rules that name one function in ways of their own.

Apart from test_latency_left.py: the daemon that its tests share dumps what is slow in the same program.
"""

from contextlib import ExitStack

from lib.compiled import compiled
from lib.wait import until
from test_latency_left import of, on, rule, rules_of, victims, waits_deep_down


def test_two_names_of_one_function_are_one_call(daemon):
    """Each rule names it in a way of its own; those calls that were left are no part of those that return."""
    leaves = compiled("leaves.cpp", "-O2", "-rdynamic")
    watcher = daemon(rules=rule("demangled", leaves, of(leaves, "handle(long)")) + rule("mangled", leaves, of(leaves, "_Z6handlel")))
    with ExitStack() as stack:
        (left,) = victims(stack, leaves, "throw")
        until(lambda: waits_deep_down(left), "it to have left", watcher.tail)
        # what begins now takes longer than the threshold: so much later than what was left
        (slow,) = victims(stack, leaves, "slowly")
        until(lambda: rules_of(watcher, slow), "its incident", watcher.tail)
        on(left)
        assert left.stdout.readline() == b"went on\n"
        (slow,) = victims(stack, leaves, "slowly")  # and this one is told after whatever was told of it
        until(lambda: rules_of(watcher, slow), "its incident", watcher.tail)
        assert rules_of(watcher, left) == set(), [i.record["summary"] for i in watcher.incidents()]
