"""What gdb says of a core, and what a bundle says of the same death."""

import json
import re
import subprocess
from functools import cache

from lib.wait import PATIENCE

# Every thread's frames as gdb unwinds them, out to the outermost, inlined ones included.
SCRIPT = """
import json, gdb
gdb.execute("set pagination off")
gdb.execute("set backtrace past-main on")
gdb.execute("set backtrace past-entry on")
print("SELECTED " + str(gdb.selected_thread().ptid[1]))
threads = {}
for thread in gdb.selected_inferior().threads():
    thread.switch()
    frames = []
    frame = gdb.newest_frame()
    while frame is not None and len(frames) < 300:
        sal = frame.find_sal()
        frames.append({"pc": frame.pc(), "name": frame.name(), "inline": frame.type() == gdb.INLINE_FRAME,
                       "tail": frame.type() == gdb.TAILCALL_FRAME,
                       "signal": frame.type() == gdb.SIGTRAMP_FRAME})
        try:
            frame = frame.older()
        except gdb.error:
            break
    threads[thread.ptid[1]] = frames
print("FRAMES " + json.dumps(threads))
"""


def gdb_frames(program, core, script):
    """tid → frames, of a core."""
    return frames_of(gdb_said(program, core, script))


def gdb_crashed_frames(program, core, script):
    """Those of the thread that died.  Its id in the core is that of its own pid namespace."""
    said = gdb_said(program, core, script)
    selected = next(line for line in said.stdout.splitlines() if line.startswith("SELECTED "))
    return frames_of(said)[int(selected.split()[1])]


def gdb_said(program, core, script):
    script.write_text(SCRIPT)
    return subprocess.run(
        ["gdb", "-nx", "-q", "-batch", "-iex", "set debuginfod enabled off", program, str(core), "-x", str(script)],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=4 * PATIENCE,
        check=False,
    )


def frames_of(said):
    """tid → frames, of what a gdb that ran SCRIPT has said."""
    line = next((line for line in said.stdout.splitlines() if line.startswith("FRAMES ")), None)
    assert line, said.stdout + said.stderr
    return {int(tid): frames for tid, frames in json.loads(line[7:]).items()}


def without_parameters(name):
    """"ns::f<int>(int) const" → "ns::f<int>": gdb prints them or not, depending on where it has the name from."""
    if not name:
        return None
    name = re.sub(r"\[abi:\w+\]|\.(part|isra|constprop|cold)(\.\d+)*", "", name)
    depth = 0
    for at, char in enumerate(name):
        depth += (char == "<") - (char == ">")
        if char == "(" and depth == 0 and not name.startswith("(anonymous", at):
            return name[:at]
    return name


def of_gdb(frame):
    name = "<signal handler called>" if frame["signal"] else without_parameters(frame["name"])
    return (frame["pc"], name, frame["inline"])


def of_bundle(frame):
    name = "<signal handler called>" if frame.get("signal_frame") else without_parameters(frame["symbol"])
    return (int(frame["ip"], 16), name, frame["inline"])


@cache
def addresses(program):
    """Symbol → address: one function may have many names, and which is shown is a matter of taste."""
    listed = subprocess.run(["nm", "-C", program], capture_output=True, text=True, check=False).stdout
    lines = (line.split(None, 2) for line in listed.splitlines())
    return {without_parameters(line[2]): line[0] for line in lines if len(line) == 3}


def same(ours, theirs, program):
    if ours is None or theirs is None or ours == theirs:
        return ours == theirs
    names = addresses(program)
    return (ours[0], ours[2]) == (theirs[0], theirs[2]) and ours[1] in names and names[ours[1]] == names.get(theirs[1])


def differences(bundle_thread, gdb_thread, program):
    """Frames that are not the same: (place, bundle's, gdb's).  A stack that says it was cut is compared up to there."""
    ours = [of_bundle(frame) for frame in bundle_thread["stack"]["frames"]]
    theirs = [of_gdb(frame) for frame in gdb_thread]
    if bundle_thread["stack"]["truncated"]:
        theirs = theirs[: len(ours)]
    length = max(len(ours), len(theirs))
    pad = [None] * length
    pairs = zip((ours + pad)[:length], (theirs + pad)[:length])
    return [(place, one, other) for place, (one, other) in enumerate(pairs) if not same(one, other, program)]
