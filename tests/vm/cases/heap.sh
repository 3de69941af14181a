#!/bin/bash
# a service's heap is followed by the shipped unit: a use after free, and an account that adds up
# kernels: 6.1 backports
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh

HEAP=$BUILD/tests/victims/heap

note "$(uname -srv)"
need "the victim heap" test -x "$HEAP"
install -t /usr/local/bin "$HEAP"
install_incidentd
mkdir -p /root/rules
cat > /root/rules/heap.toml << 'RULE'
[[rule]]
name    = "heap"
on      = "signal"
match   = { exe = ["/usr/local/bin/heap"] }
context = { allocations = "history" }
RULE
if start_incidentd /root/rules; then
    ok "starts as a unit"
else
    fail "starts as a unit" "$(incidentctl status 2>&1)" "$(daemon_log)"
    exit 0
fi
need_rule heap active

probed() { # PID
    incidentctl --json status | json "[p['since_ns'] > 0 for p in d['heaps']['processes'] if p['pid'] == $1]" | grep -q true
}
# heap MODE...: run until it dies; it is told to begin when it is probed
heap() {
    local pid
    mkfifo /tmp/go
    command heap "$@" < /tmp/go > /tmp/said 2>&1 &
    pid=$!
    exec 7> /tmp/go
    rm /tmp/go
    within 300 probed $pid || fail "$1: probed" "$(incidentctl --json status)" "$(daemon_log)"
    printf '\n\n' >&7
    wait $pid
    exec 7>&-
    incident_of heap 300
}
heap_json() { json "$1" "$bundle/heap.json"; }

# ---- a use after free
if heap uaf read 1048576; then ok "an incident"; else
    fail "an incident" "$(cat /tmp/said /tmp/waited)" "$(daemon_log)"
    exit 0
fi
same "level" "history" "$(heap_json 'd["level"]')"
same "malloc and free are probed" '[true, true]' \
    "$(heap_json '[any(f["name"] == n and f["probed"] for f in d["functions"]) for n in ("malloc", "free")]')"
same "nothing lost" '[0, 0, 0, 0, 0]' \
    "$(heap_json '[d["account"][k] for k in ("lost", "no_frame", "no_stack", "strangers", "unfinished")]')"
within 300 test -s "$bundle/heap/frames.json"
info=$(incidentctl info "${bundle##*/}" 2>&1)
has "where the fault points: freed, and by whom" 'freed' "$info"

# ---- an account of four threads
if heap account 4 5000; then ok "another"; else
    fail "another" "$(cat /tmp/said /tmp/waited)" "$(daemon_log)"
    exit 0
fi
same "allocations - frees - reused = live + lost" true \
    "$(heap_json '(lambda a: a["allocations"] - a["frees"] - a["reused"] == a["live"] + a["lost"])(d["account"])')"
same "bytes likewise" true \
    "$(heap_json '(lambda a: a["allocated_bytes"] - a["freed_bytes"] - a["reused_bytes"] == a["live_bytes"] + a["lost_bytes"])(d["account"])')"
same "what lives stands in live.bin" "$(heap_json 'd["account"]["live"]')" "$(($(stat -c %s "$bundle/heap/live.bin") / 40))"
check "the bundles are whole" incidentctl verify "${bundle##*/}"
