"""What one recorded request of io_uring costs (NOP, 32 a call, pinned)."""

from bench.lib.loop import loop
from bench.lib.recorders import attachments, costs, watching_another
from bench.lib.sample import alternate

REQUESTS, REQUESTS_QUICK = 2_000_000, 200_000


def run(bench):
    program = bench.compiled("requests")
    count = REQUESTS_QUICK if bench.quick else REQUESTS

    def measured(attached):
        with loop(program) as one, attached():
            return one.warm(count, 1)

    attached = attachments(bench, program) | {"incidentd, unwatched": lambda: watching_another(bench)}
    found = alternate({name: lambda one=one: measured(one) for name, one in attached.items()}, bench.rounds)
    return [costs("one NOP of io_uring, 32 of them a call", "ns a request", found)]
