#!/bin/bash
# a unit's memory limit kills a program of many threads: an incident of rule oom
# kernels: 6.1 backports
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh

HUNGRY=$BUILD/tests/victims/hungry
UNIT=hungry.service
LIMIT=$((50 << 20))

note "$(uname -srv)"
need "the victim hungry" test -x "$HUNGRY"
install -t /usr/local/bin "$HUNGRY"

# Five threads that wait in read, one that eats, and the first: all of them are killed.
hungry() {
    systemd-run --quiet --unit=$UNIT --property=MemoryMax=$LIMIT --property=MemorySwapMax=0 \
        --property=RemainAfterExit=no --wait hungry 5 200 2> /dev/null
}
hungry
has "the kernel kills it" "Memory cgroup out of memory: Killed process [0-9]+ \(hungry\)" "$(dmesg)"
has "systemd knows why" 'oom-kill' "$(journalctl -u $UNIT -o cat)"
systemctl reset-failed $UNIT 2> /dev/null

# ---- what incidentd makes of it
install_incidentd
mkdir -p /root/rules
cat > /root/rules/oom.toml << 'RULE'
[[rule]]
name = "oom"
on   = "oom"
RULE
if start_incidentd /root/rules; then
    ok "starts as a unit"
else
    fail "starts as a unit" "$(incidentctl status 2>&1)" "$(daemon_log)"
    exit 0
fi
need_rule oom active

dmesg --clear
hungry
pid=$(dmesg | sed -n 's/.*Killed process \([0-9]*\) (hungry).*/\1/p' | head -1)
if ! incident_of oom 300; then
    fail "an incident" "$(cat /tmp/waited)" "$(daemon_log)"
    exit 0
fi
ok "an incident"
same "kind" oom "$(incident 'd["kind"]')"
same "of the victim" "$pid hungry" "$(incident '"%d %s" % (d["process"]["pid"], d["process"]["comm"])')"
same "unit" $UNIT "$(incident 'd["process"]["unit"]')"
same "exe" /usr/local/bin/hungry "$(incident 'd["process"]["exe"]')"
has "constraint: the cgroup's limit" '[Mm][Ee][Mm][Cc][Gg]|cgroup' "$(incident 'd["oom"]["constraint"]')"
same "which cgroup's" /system.slice/$UNIT "$(incident 'd["oom"]["cgroup"]')"
same "and what it is" $LIMIT "$(incident 'd["oom"]["memory_max"]')"
same "all seven threads" '[7, 7]' "$(incident '[d["quality"]["threads"], d["quality"]["threads_captured"]]')"
same "with registers" 7 "$(json 'sum(1 for t in d if t.get("registers"))' "$bundle/threads.json")"
same "five were in read" 5 \
    "$(json 'sum(1 for t in d if (t.get("syscall") or {}).get("name") == "read")' "$bundle/threads.json")"
has "the eater's last calls" '"name":"mmap"' "$(tail -n 50 "$bundle/timeline.jsonl" | tr -d ' ')"
same "no core: SIGKILL leaves none" none "$(incident 'd["core"]["join"]')"
check "verify" incidentctl verify "$(basename "$bundle")"
check "stops" systemctl stop incidentd
