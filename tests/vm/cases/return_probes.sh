#!/bin/bash
# the stack of a crash below a function whose return is probed is whole, on the stock kernel
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh

DIE=/usr/local/bin/die

note "$(uname -r)"
need "the victim die" test -x "$BUILD/tests/victims/die"
install -t /usr/local/bin "$BUILD/tests/victims/die"
install_incidentd
mkdir -p /root/rules
cat > /root/rules/probed.toml << EOF
[[rule]]
name = "crash"
on = "signal"
match = { exe = ["$DIE"] }

[[rule]]
name = "slow"
on = "latency"
probe = "uprobe:$DIE:main"
threshold = "1h"
match = { exe = ["$DIE"] }
EOF
start_incidentd /root/rules || { fail "starts" "$(daemon_log)"; exit 0; }

$DIE null-read
check "an incident" within 60 incidentctl --json info latest
threads=$(cat /var/lib/incidentd/incidents/2*/threads.json)
has "the return address of main stood elsewhere" '"trampoline": *"0x7fffffffe000"' "$threads"
check "it is explained" within 60 sh -c 'incidentctl --json info latest | grep -q "\"analysed\": *true"'
threads=$(cat /var/lib/incidentd/incidents/2*/threads.json)
frames=$(json '[f["symbol"] for f in d[0]["stack"]["frames"]]' <<< "$threads")
note "$frames"
has "main's callers are on the stack" '"main", .*"_start"\]' "$frames"
has "the stack is whole" "outermost" "$(json 'd[0]["stack"]["reason"]' <<< "$threads")"
stack=$(json '[f["symbol"] for f in d[0]["kernel_stack"]]' <<< "$threads")
note "$stack"
has "the kernel stack begins where the signal was taken" '^\["get_signal\+' "$stack"
