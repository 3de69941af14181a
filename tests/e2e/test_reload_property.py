"""No signal ever reaches a process that the rules of the moment are not about.

Random sets of rules are loaded in quick succession while dozens of processes are blocked in calls that began under
earlier ones and return under later ones.  The oracle knows the rules in force when it lets a call return.

    INCIDENTD_PROPERTY_ROUNDS=5000 INCIDENTD_PROPERTY_SEED=7 … pytest tests/e2e/test_reload_property.py
"""

import os
import random
import signal
import time
from dataclasses import dataclass, field

from lib import callers
from lib.daemon import Daemon
from lib.programs import victim
from lib.wait import until

ROUNDS = int(os.environ.get("INCIDENTD_PROPERTY_ROUNDS", "0"))  # 0: as many as fit into SECONDS
SECONDS = 20
SEED = int(os.environ.get("INCIDENTD_PROPERTY_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)

CONFIG = '[safety]\nallow_dump = true\nnever = ["never*"]\ndumps_per_hour = 1000\n[capture]\nanalyse = false\n'
THREADS = 3
# comm: what keeps it alive whatever the rules say of it ("" nothing)
PROTECTED = {"never": "", "handles": "handles", "ignores": "ignores", "limited": "limited"}


@dataclass
class Caller:
    name: str
    process: object
    protected: bool
    blocked: int = THREADS
    forfeited: bool = False  # it may have been dumped, by rules that were about it when a call of it returned
    releases: list = field(default_factory=list)

    @staticmethod
    def start(name, kind=""):
        process = callers.start(str(THREADS), name, *([kind] if kind else []))
        assert process.stdout.read(1) == b"r"
        return Caller(name, process, name.startswith(tuple(PROTECTED)))

    def let_return(self, in_force, round_):
        """One of its calls; in_force: the sets of rules that may be, at that moment."""
        self.put_up_by(rule for rules in in_force for rule in rules)
        self.releases.append(round_)
        try:
            self.process.stdin.write(b"x")
        except BrokenPipeError:
            pass  # dead: looked at by the caller

    def put_up_by(self, rules):
        if not self.protected and any(rule.dumps(self.name) for rule in rules):
            self.forfeited = True

    def has_died(self):
        return self.process.poll() is not None

    def end(self):
        self.process.kill()
        callers.end(self.process)


@dataclass
class Rule:
    name: str
    on: str
    comms: list
    reachable: bool
    dump: bool
    lines: str

    def dumps(self, comm):
        return self.dump and self.reachable and comm in self.comms

    @property
    def text(self):
        match = ", ".join(f'"{comm}"' for comm in self.comms)
        dump = 'dump = "SIGABRT"\n' if self.dump else 'limit = { cooldown = "1h" }\n'
        return f'[[rule]]\nname = "{self.name}"\non = "{self.on}"\n{self.lines}match = {{ comm = [{match}] }}\n{dump}'


def random_rule(chance, number, living):
    """About nobody who lives, where it would dump; a process that nothing protects is put up for it now and then."""
    dump = chance.random() < 0.6
    reachable = chance.random() < 0.7
    free = [c.name for c in living if not c.protected]
    if dump and reachable:
        comms = [f"nobody{number}"] + chance.sample([c.name for c in living if c.protected], 2)
        if chance.random() < 0.02:
            comms.append(chance.choice(free))
    else:
        comms = chance.sample([c.name for c in living], chance.randrange(1, 12))
    threshold = "1us" if reachable else "1h"
    kind = chance.random()
    if kind < 0.75:
        on, lines = "syscall", f'syscall = ["read"]\nslower_than = "{threshold}"\n'
    elif kind < 0.9:
        on, lines = "blocked", f'threshold = "{threshold.replace("us", "ms")}"\nidle = true\n'
    else:
        on, lines, dump = "tracepoint", 'tracepoint = "sched:sched_process_exec"\n', False
    return Rule(f"r{number}", on, comms, reachable, dump, lines)


class World:
    def __init__(self, watcher, chance):
        self.watcher, self.chance = watcher, chance
        self.made = self.reloads = self.rounds = self.dumped = self.read = 0
        self.rules = []
        self.history = []
        self.callers = [Caller.start(f"{name}{i}", kind) for name, kind in PROTECTED.items() for i in range(3)]
        self.callers += [self.free() for _ in range(28)]

    def free(self):
        self.made += 1
        return Caller.start(f"free{self.made}")

    def next_rules(self):
        """Some stay, in another order; some change; others are new."""
        kept = [rule for rule in self.rules if self.chance.random() < 0.5]
        new = [random_rule(self.chance, self.chance.randrange(40), self.callers) for _ in range(self.chance.randrange(1, 9))]
        by_name = {rule.name: rule for rule in kept + new}
        rules = list(by_name.values())
        self.chance.shuffle(rules)
        return rules

    def load(self, rules):
        self.history.append(rules)
        for caller in self.callers:
            # a thread that has been let go may not have run yet; and waits end when they end, whatever the test does
            late = caller.releases and caller.releases[-1] >= self.rounds - 1
            caller.put_up_by(rule for rule in rules if late or rule.on == "blocked")
        (self.watcher.rules / "test.toml").write_text("".join(rule.text for rule in rules))
        self.watcher.process.send_signal(signal.SIGHUP)

    def loaded(self):
        self.reloads += 1
        with open(self.watcher.log, encoding="utf-8", errors="replace") as log:
            log.seek(self.read)
            text = ""

            def answered():
                nonlocal text
                text += log.read()
                assert "error" not in text, text
                return "reloaded: " in text

            until(answered, "the reload", self.watcher.tail, every=0.002)
            self.read = log.tell()

    def let_some_return(self, in_force, most):
        for caller in self.chance.sample(self.callers, self.chance.randrange(0, most)):
            for _ in range(self.chance.randrange(1, THREADS + 1)):
                caller.let_return(in_force, self.rounds)

    def look(self):
        """Nobody has died but of rules that were about it; those who may have been are replaced."""
        for i, caller in enumerate(self.callers):
            if caller.has_died() and not caller.forfeited:
                rules = "\n".join(f"--- {back} reloads ago\n" + "".join(r.text for r in rules) for back, rules in enumerate(self.history[-1:-4:-1]))
                raise AssertionError(
                    f"seed {SEED}, round {self.rounds}: {caller.name} ({caller.process.pid}) ended with {caller.process.returncode}; "
                    f"calls returned in rounds {caller.releases[-8:]}\n{rules}\n{self.watcher.tail()}"
                )
            if caller.forfeited:
                self.dumped += caller.has_died()
                caller.end()
                self.callers[i] = self.free()

    def round(self):
        self.rounds += 1
        new = self.next_rules()
        self.let_some_return([self.rules], 6)
        self.load(new)
        self.let_some_return([self.rules, new], 6)
        self.loaded()
        self.rules = new
        self.let_some_return([new], 20)
        self.look()


def test_nobody_is_signalled_whom_no_rule_of_the_moment_is_about(tmp_path, coredump_host):
    print(f"seed {SEED}")
    watcher = Daemon(tmp_path, rules="", config=CONFIG)
    world = None
    try:
        world = World(watcher.start(), random.Random(SEED))
        began = time.monotonic()
        while world.rounds < ROUNDS if ROUNDS else time.monotonic() - began < SECONDS:
            world.round()
        # the rules can dump: the same world, and a rule about somebody
        somebody = world.free()
        world.callers.append(somebody)
        world.load([Rule("own", "syscall", [somebody.name], True, True, 'syscall = ["read"]\nslower_than = "1us"\n')])
        world.loaded()

        def dies():
            # The calls it is blocked in may have begun while nobody recorded it; those after them are recorded.
            somebody.let_return([], 0)
            return somebody.has_died()

        until(dies, "the rule about it to dump it", watcher.tail)
        assert somebody.process.returncode == -signal.SIGABRT
        print(f"{world.rounds} rounds with seed {SEED}: {world.dumped + 1} dumped, all of them by a rule about them")
    finally:
        for caller in world.callers if world else []:
            caller.end()
        watcher.stop()
