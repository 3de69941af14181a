#!/bin/bash
# every capability of the unit is needed: taken away one at a time, something is lost; with all, nothing
# late: eight minutes
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh

note "$(uname -srv)"
need "the victim trouble" test -x "$BUILD/tests/victims/trouble"
install_incidentd
mkdir -p /root/rules
cat > /root/rules/rules.toml << 'RULE'
[[rule]]
name = "crash"
on   = "signal"
match = { exe = "/home/user/own/bash" }

[[rule]]
name      = "stuck"
on        = "blocked"
threshold = "1s"
when      = "deadline"
match     = { comm = "trouble" }
dump      = "SIGABRT"

[[rule]]
name      = "slow-function"
on        = "latency"
probe     = "uprobe:/home/user/own/trouble:main"
threshold = "1s"
RULE
# A user's own programs, where nobody else may look, one of them not dumpable.
install -d -o 1000 -m 0700 /home/user /home/user/own
install -o 1000 -m 0700 "$BUILD/tests/victims/trouble" /bin/bash /home/user/own/
as_user() { setpriv --reuid=1000 --regid=1000 --clear-groups env -i HOME=/home/user "$@"; }

# lost: what the unit as it is now does not do, a word each
lost() {
    local pid
    rm -rf /var/lib/incidentd/incidents
    start_incidentd /root/rules 's/^#allow_dump = .*/allow_dump = true/' > /dev/null 2>&1 || { echo start; return; }
    [ "$(rule_state slow-function)" = active ] || echo uprobe
    [ "$(rule_state stuck)" = active ] || echo sched
    echo "confined: something to find" > /dev/kmsg
    { as_user /home/user/own/bash -c 'kill -SEGV $$'; } > /dev/null 2>&1
    incident_of crash 240 || { echo crash; return; }
    within 120 explained
    incident '" ".join("collector:" + c["name"] for c in d["quality"]["collectors"] if not c["ok"])'
    [ "$(incident 'd["core"]["join"]')" = exact ] || echo core
    [ -n "$(incident 'd["process"]["build_id"] or ""')" ] || echo build-id
    [ "$(json '[t for t in d if t["crashed"]][0]["stack"]["how"]' "$bundle/threads.json" | cut -c1-3)" = CFI ] || echo stack
    grep -q confined: "$bundle/host/kernel_log" 2> /dev/null || echo kernel-log
    as_user /home/user/own/trouble pipe 600000 > /dev/null 2>&1 &
    pid=$!
    if incident_of stuck 240; then
        [ "$(incident 'd["dump"]["sent"]')" = true ] || echo dump
        grep -q pipe_read "$bundle/threads.json" || echo kernel-symbols
    else
        echo blocked
    fi
    kill $pid 2> /dev/null
    wait $pid 2> /dev/null
    within 20 costed || echo costs
}
explained() { [ "$(incident 'd.get("analysed", False) and not d["core"].get("pending", False)')" = true ]; }
costed() { [ "$(incidentctl --json status | json '"cost" in d["recorder"]')" = true ]; }
without() { # without CAPABILITY...: what is lost
    local list=" $all " one
    for one in "$@"; do list=${list/ $one / }; done
    unit_drop_in without 'CapabilityBoundingSet=' "CapabilityBoundingSet=$list"
    lost | xargs
    systemctl stop incidentd
    systemctl reset-failed incidentd 2> /dev/null
}

all=$(sed -n 's/^CapabilityBoundingSet=//p' "$SOURCE/systemd/incidentd.service")
same "the shipped unit loses nothing" '' "$(without none)"
for capability in $all; do
    case $capability in
        # CAP_SYS_ADMIN includes them.
        CAP_BPF | CAP_PERFMON) gone=$(without CAP_SYS_ADMIN "$capability") ;;
        # [access] group: nothing is changed while it is off.
        CAP_CHOWN | CAP_FSETID) note "$capability: for [access] group"; continue ;;
        *) gone=$(without "$capability") ;;
    esac
    if [ -n "$gone" ]; then ok "$capability: $gone"; else fail "$capability: something is lost without it"; fi
done
