# Sourced by gdb with a core: writes every thread's backtrace.  $out: directory.
import json
import re

import gdb

OUT = gdb.convenience_variable("out").string()
KINDS = {gdb.NORMAL_FRAME: "normal", gdb.INLINE_FRAME: "inline", gdb.SIGTRAMP_FRAME: "signal", gdb.TAILCALL_FRAME: "tail"}

threads = []
for thread in gdb.selected_inferior().threads():
    thread.switch()
    frames, frame = [], gdb.newest_frame()
    while frame is not None and len(frames) < 2000:
        place = frame.find_sal()
        symbol = frame.function()
        try:
            arguments = [{"name": s.name, "value": str(s.value(frame))} for s in frame.block() if s.is_argument]
        except RuntimeError:
            arguments = []
        # "strlen + 12 in section .text of …", "No symbol matches $pc."
        where = gdb.execute(f"info symbol {frame.pc()}", to_string=True)
        plus = re.search(r" \+ (\d+) in section ", where)
        offset = int(plus[1]) if plus else 0 if " in section " in where else -1
        frames.append({
            "offset": offset,
            "ip": frame.pc(),
            "name": frame.name() or "",
            "kind": KINDS.get(frame.type(), "?"),
            "file": place.symtab.filename if place.symtab else "",
            "line": place.line if place.symtab else 0,
            "arguments": arguments,
        })
        last = frame
        try:
            frame = frame.older()
        except gdb.error:
            frame = None
    threads.append({"tid": thread.ptid[1], "frames": frames, "end": gdb.frame_stop_reason_string(last.unwind_stop_reason())})
with open(f"{OUT}/frames.json", "w") as file:
    json.dump(threads, file)
