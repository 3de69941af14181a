#!/bin/bash
# the host's memory runs short: threads stall in direct reclaim, rule reclaim fires by host
# memory: 256
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh

HUNGRY=$BUILD/tests/victims/hungry
T=/sys/kernel/tracing

note "$(uname -srv)"
need "the victim hungry" test -x "$HUNGRY"
install -t /usr/local/bin "$HUNGRY"

# The eater leaves little, and readers of an empty disk want it for the page cache: kswapd
# does not keep up, so they reclaim themselves.  Nothing is killed: the cache can go.
shortage() {
    local left=20480 free # KiB
    free=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)
    hungry 0 $(((free - left) / 1024)) hold > /tmp/hungry &
    eater=$!
    echo 1000 > /proc/$eater/oom_score_adj
    within 300 grep -q full /tmp/hungry
    for _ in 1 2 3 4; do cat /dev/vdb > /dev/null & readers+=($!); done
    wait "${readers[@]}"
    readers=()
    free -m
    kill $eater
    wait $eater 2> /dev/null
}
readers=()
echo 1 > $T/events/vmscan/mm_vmscan_direct_reclaim_begin/enable
note "$(shortage)"
echo 0 > $T/events/vmscan/mm_vmscan_direct_reclaim_begin/enable
count=$(grep -c mm_vmscan_direct_reclaim_begin $T/trace)
note "$count times direct reclaim by:" "$(grep mm_vmscan_direct_reclaim_begin $T/trace | awk '{ print $1 }' | sort | uniq -c)"
if [ "$count" -ge 10 ]; then ok "threads reclaim directly"; else fail "threads reclaim directly" "$count times"; fi
same "nothing is killed" 0 "$(dmesg | grep -ci 'killed process')"

# ---- what incidentd makes of it
install_incidentd
mkdir -p /root/rules
cat > /root/rules/reclaim.toml << 'RULE'
[[rule]]
name   = "reclaim-storm"
on     = "reclaim"
count  = 20
window = "30s"
by     = "host"
RULE
# Short of memory an emulated machine may stand still for a minute, this script too: no hang of the daemon's.
unit_drop_in patient WatchdogSec=10min
# Small enough for this machine.
if start_incidentd /root/rules 's/^#threads = .*/threads = 256/; s/^#calls = .*/calls = "1MiB"/
    s/^#processes = .*/processes = 512/; s/^#ring_buffer = .*/ring_buffer = "256KiB"/'; then
    ok "starts as a unit"
else
    fail "starts as a unit" "$(incidentctl status 2>&1)" "$(daemon_log)"
    exit 0
fi
need_rule reclaim-storm active
note "$(shortage)"
if ! incident_of reclaim-storm 300; then
    fail "an incident" "$(cat /tmp/waited)" "$(daemon_log)"
    exit 0
fi
ok "an incident"
same "kind" reclaim "$(incident 'd["kind"]')"
note "$(incident 'd["reclaim"]')"
same "at least as many stalls as the rule asks for" true "$(incident 'd["reclaim"]["count"] >= 20')"
same "and they took time" true "$(incident 'd["reclaim"]["stalled_ns"] > 0')"
check "the host's memory" grep -q MemAvailable "$bundle/host/meminfo"
check "verify" incidentctl verify "$(basename "$bundle")"
still_up
check "stops" systemctl stop incidentd
