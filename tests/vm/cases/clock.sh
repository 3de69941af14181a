#!/bin/bash
# the clock is set, forwards and backwards, while incidentd records and while a core is being written
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh
note "$(uname -srv)"
install_incidentd
start_incidentd "$SOURCE/systemd/rules.d" || { fail "starts" "$(daemon_log)"; exit 0; }
settled() { [ "$(incident 'd["core"].get("pending", False)')" = false ]; }
# joined WHAT PID: the next incident is that process's, and joined with its core
joined() {
    if incident_of crash 300 && within 330 settled; then
        same "$1: its incident" "$2" "$(incident 'd["process"]["pid"]')"
        same "$1: joined" exact "$(incident 'd["core"]["join"]')"
        has "$1: with its core" "\.$2\.[0-9]+\.zst$" "$(incident 'd["core"]["file"]')"
        [ "$(incident 'd["core"]["join"]')" = exact ] || note "$(incident 'd["core"]["reason"]')"
    else
        fail "$1: an incident" "$(daemon_log)"
    fi
}
crash() {
    bash -c 'kill -SEGV $$' &
    pid=$!
    wait $pid 2> /dev/null
}
sleep 100000 & # older than the daemon's second life
old=$!

sleep 100000 & # older than the clock's changes
older=$!
born=$(date +%s)

for by in '-1 hour' '+3 hours' '-2 days'; do
    date -s "$by" > /dev/null
    crash
    joined "after $by" $pid
done

stage "what was before the clock was set"
kill -SEGV $older
joined "older than that" $older
began=$(date -d "$(incident 'd["process"]["start_time"]')" +%s)
check "its start is told as the clock showed it then ($((began - born)) s)" test $((began - born)) -le 2 -a $((born - began)) -le 2
changes=$(incidentctl timeline "$(incident 'd["id"]')" --kind clock)
has "the timeline has the changes: backwards" 'the clock was set by -1.00 h' "$changes"
has "forwards" 'the clock was set by \+3.00 h' "$changes"
has "by days" 'the clock was set by -2.00 d' "$changes"

stage "while a core is written"
for by in '-1 hour' '+3 hours'; do
    python3 -c 'import os; b = os.urandom(1 << 26); print(flush=True); os.kill(os.getpid(), 11)' > /tmp/ready &
    pid=$!
    until [ -s /tmp/ready ]; do :; done
    until grep -q '^CoreDumping:.*1' /proc/$pid/status 2> /dev/null || [ ! -d /proc/$pid ]; do :; done
    date -s "$by" > /dev/null
    wait $pid 2> /dev/null
    joined "$by while its core is written" $pid
    rm /tmp/ready
done

stage "what was not recorded"
systemctl kill -s KILL incidentd
up() { systemctl is-active --quiet incidentd && incidentctl --json status; }
check "it is started again" within 300 up
date -s '-1 hour' > /dev/null
crash
joined "born later" $pid
same "born later: no gap" null "$(incident 'd["quality"]["gap"]')"
kill -SEGV $old
joined "born before" $old
has "born before: the gap" '"stopped": false' "$(incident 'd["quality"]["gap"]')"
same "all bundles are whole" '' "$(flawed_bundles)"
check "stops" systemctl stop incidentd
