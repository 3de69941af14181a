"""The heap's part of a bundle, read by the layout of capture/collect/heap.h, without incidentctl."""

import json
import struct
from collections import namedtuple
from functools import cached_property

SLICE = 512
STACK = struct.Struct(f"<Q4Q4QQ8QII{SLICE}s")
LIVE = struct.Struct("<4Q2I")
HISTORY = struct.Struct("<4QI4B")

Sums = namedtuple("Sums", "allocations allocated_bytes frees freed_bytes")
Stack = namedtuple("Stack", "id total window first_ns ip sp length function slice")
Live = namedtuple("Live", "address size stack t_ns tid function")
Record = namedtuple("Record", "t_ns address size stack tid kind function flags pad")

ALLOCATED, FREED = 1, 2
UNKNOWN, UNLISTED, REUSED, IN_PLACE = 1, 2, 4, 8
FUNCTIONS = ("", "malloc", "calloc", "realloc", "reallocarray", "aligned_alloc", "posix_memalign", "new", "mallocx",
             "rallocx", "xallocx", "free", "delete")


def records(path, layout):
    data = path.read_bytes() if path.exists() else b""
    assert len(data) % layout.size == 0, f"{path}: {len(data)} bytes"
    return layout.iter_unpack(data)


class Heap:
    def __init__(self, incident):
        self.directory = incident.path / "heap"
        self.json = json.loads(incident.text("heap.json"))
        assert self.json["layout"] == 1

    @property
    def account(self):
        return self.json["account"]

    @cached_property
    def stacks(self):
        found = {}
        for r in records(self.directory / "stacks.bin", STACK):
            found[r[0]] = Stack(r[0], Sums(*r[1:5]), Sums(*r[5:9]), r[9], r[10], r[11], r[18], FUNCTIONS[r[19]], r[20])
        return found

    @cached_property
    def live(self):
        return [Live(*r[:5], FUNCTIONS[r[5]]) for r in records(self.directory / "live.bin", LIVE)]

    @cached_property
    def history(self):
        return [Record(*r[:6], FUNCTIONS[r[6]], *r[7:]) for r in records(self.directory / "history.bin", HISTORY)]

    def biography(self, address):
        return [record for record in self.history if record.address == address]

    def assert_adds_up(self):
        """The account, and the account against the files."""
        account = self.account
        assert account["allocations"] - account["frees"] - account["reused"] == account["live"] + account["lost"], account
        assert (account["allocated_bytes"] - account["freed_bytes"] - account["reused_bytes"]
                == account["live_bytes"] + account["lost_bytes"]), account
        assert account["live"] == len(self.live)
        assert account["live_bytes"] == sum(one.size for one in self.live)
        assert len({one.address for one in self.live}) == len(self.live)
        sizes = self.json["sizes"]
        assert sum(one["allocations"] for one in sizes) == account["allocations"]
        assert sum(one["bytes"] for one in sizes) == account["allocated_bytes"]
        assert self.json["files"] == {"stacks": len(self.stacks), "live": len(self.live), "history": len(self.history)}
        if not account["no_stack"]:
            assert sum(one.total.allocations for one in self.stacks.values()) == account["allocations"]
            assert sum(one.total.allocated_bytes for one in self.stacks.values()) == account["allocated_bytes"]
            assert sum(one.total.frees for one in self.stacks.values()) == account["frees"] + account["reused"]
            assert {one.stack for one in self.live} <= set(self.stacks)
        if self.json["level"] == "history":
            self.assert_history()

    def assert_history(self):
        times = [record.t_ns for record in self.history]
        assert times == sorted(times)
        history = self.json["history"]
        assert history["records"] == len(self.history) <= history["written"]
        if history["written"] != len(self.history):
            return
        account = self.account
        allocated = [r for r in self.history if r.kind == ALLOCATED]
        freed = [r for r in self.history if r.kind == FREED]
        assert len(allocated) == account["allocations"]
        assert sum(r.size for r in allocated) == account["allocated_bytes"]
        known = [r for r in freed if not r.flags & UNKNOWN]
        assert len(known) == account["frees"]
        assert sum(r.size for r in known) == account["freed_bytes"]
        assert len(freed) - len(known) == account["unknown_frees"]
        assert sum(bool(r.flags & REUSED) for r in allocated) == account["reused"]
        assert sum(bool(r.flags & UNLISTED) for r in allocated) == account["lost"]

    def assert_nothing_missed(self):
        for what in ("unfinished", "unentered", "no_frame", "no_stack", "strangers", "lost", "reused"):
            assert self.account[what] == 0, f"{what}: {self.account}"
