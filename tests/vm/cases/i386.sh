#!/bin/bash
# a 32-bit program crashes: frames, registers, calls of its own table, and a core that gdb opens as i386
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh

need "the victim i386" test -x "$BUILD/tests/victims/i386"
install -t /usr/local/bin "$BUILD/tests/victims/i386"
install_incidentd
mkdir -p /root/rules
cat > /root/rules/crash.toml << 'RULE'
[[rule]]
name = "crash"
on   = "signal"
match = { comm = ["i386"] }
RULE
if start_incidentd /root/rules; then
    ok "starts as a unit"
else
    fail "starts as a unit" "$(incidentctl status 2>&1)" "$(daemon_log)"
    exit 0
fi

frames() { json '" ".join(f["symbol"] or "?" for f in d[0]["stack"]["frames"])' "$bundle/threads.json"; }
explained() { [ "$(incident 'd.get("analysed")')" = true ]; }
crash() {
    stage "i386 $*"
    # no core: what is told comes from what was captured
    (ulimit -c 0; exec i386 "$@")
    if ! incident_of crash 300; then
        fail "an incident" "$(cat /tmp/waited)" "$(daemon_log)"
        return 1
    fi
    within 120 explained
}

if crash; then
    same "of an i386 program, which misses nothing" "i386 true []" \
        "$(incident '"%s %s %s" % (d["process"]["isa"], str(d["quality"]["complete"]).lower(), d["quality"]["incomplete_because"])')"
    same "its frames by name" "writes_through_null middle outer begin _start" "$(frames)"
    same "its registers are i386's" "True True False" \
        "$(json '"%s %s %s" % ("eip" in d[0]["registers"], 0 < int(d[0]["registers"]["esp"], 16) < 1 << 32, "r8" in d[0]["registers"])' "$bundle/threads.json")"
    has "why" 'bad address: writes_through_null\(\) writes 4 bytes at 0x1d0' "$(incident 'd["verdict"]["sentence"]')"
    same "its calls by i386's table" "open read close" \
        "$(python3 -c 'import json, sys; print(" ".join(e["name"] for e in map(json.loads, open(sys.argv[1])) if e["kind"] in ("syscall", "open") and e["name"] in ("open", "read", "close")))' "$bundle/timeline.jsonl")"
    has "with the path" '/etc/hostname' "$(incidentctl timeline "$(basename "$bundle")")"
    # shellcheck disable=SC2016  # gdb expands it
    said=$(gdb -nx -q -batch -iex 'set debuginfod enabled off' -ex 'show architecture' -ex bt -ex 'p $_siginfo._sifields._sigfault.si_addr' \
        /usr/local/bin/i386 "$bundle/mini.core" 2>&1)
    has "gdb: i386" 'i386\)?\.?"?\)?\.?$|currently "i386"' "$said"
    has "gdb: the stack" 'in outer \(what=1\)' "$said"
    has "gdb: the address" '0x1d0' "$said"
    has "incident explain: the operand" '\(%edx\).*edx = 0x1d0' \
        "$(incidentctl gdb "$(basename "$bundle")" -- -batch -ex 'incident explain' 2>&1)"
    check "verify" incidentctl verify "$(basename "$bundle")"
fi

# the handler's stack and the one it has interrupted, parted by a frame whose trampoline is the kernel's vdso
if crash handler; then
    has "out of the handler" '^writes_through_null middle outer handle .*interrupted begin _start$' "$(frames)"
fi
still_up
check "stops" systemctl stop incidentd
