#!/bin/bash
# the machine sleeps while incidentd records: times before and after, a limit, and recording goes on
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh
note "$(uname -srv)"
ALARM=/sys/class/rtc/rtc0/wakealarm
need "a clock that wakes the machine" test -w $ALARM
need "suspend to idle" grep -qw freeze /sys/power/state
install_incidentd
start_incidentd "$SOURCE/systemd/rules.d" || { fail "starts" "$(daemon_log)"; exit 0; }

# clocks: seconds since boot with and without the time asleep
clocks() { python3 -c 'import time; print(int(time.clock_gettime(time.CLOCK_BOOTTIME)), int(time.monotonic()))'; }
asleep() { # asleep SECONDS
    echo 0 > $ALARM
    echo "+$1" > $ALARM
    echo freeze > /sys/power/state
}
crash() {
    bash -c 'kill -SEGV $$' &
    pid=$!
    wait $pid 2> /dev/null
}

sleep 100000 & # older than the sleep
older=$!
within 300 incidentctl --json status
born=$(date +%s)
crash
if incident_of crash 300; then same "before: its incident" $pid "$(incident 'd["process"]["pid"]')"; else fail "before: an incident" "$(daemon_log)"; fi

read -r boot_before monotonic_before < <(clocks)
check "sleeps" asleep 30
read -r boot monotonic < <(clocks)
slept=$(((boot - boot_before) - (monotonic - monotonic_before)))
note "asleep for $slept s of $((boot - boot_before))"
if [ $slept -lt 20 ]; then skip "the clocks tell of a sleep" "the guest's kernel does not stop CLOCK_MONOTONIC"; exit 0; fi
still_up

crash
if incident_of crash 300; then
    same "after: its incident" $pid "$(incident 'd["process"]["pid"]')"
    told=$(date -d "$(incident 'd["time"]')" +%s)
    check "after: at the time that the clock shows ($(($(date +%s) - told)) s ago)" test $((told - born)) -ge $slept
    has "after: the sleep stands in its timeline" 'the machine had slept for [23][0-9]\.?[0-9]* s' "$(incidentctl timeline "$(incident 'd["id"]')" --kind clock)"
else
    fail "after: an incident" "$(daemon_log)"
fi
kill -SEGV $older
if incident_of crash 300; then
    same "one that is older than the sleep: its incident" $older "$(incident 'd["process"]["pid"]')"
    began=$(date -d "$(incident 'd["process"]["start_time"]')" +%s)
    check "its start is told as the clock showed it then ($((began - born)) s)" test $((began - born)) -le 3 -a $((born - began)) -le 10
else
    fail "one that is older than the sleep: an incident" "$(daemon_log)"
fi
same "all bundles are whole" '' "$(flawed_bundles)"
check "stops" systemctl stop incidentd
