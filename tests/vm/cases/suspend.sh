#!/bin/bash
# the machine sleeps while incidentd records: crashes before, at and after it have the times of then
# kernels: 6.1 backports
# late: it sleeps for half a minute
# shellcheck source=tests/vm/lib/case.sh
. "${0%/*}/lib.sh"
# A 9p device does not survive a sleep, because its driver does not set up its queues again. So the case goes on from a copy,
# its output goes to a file and from there to the host, and while it sleeps the devices have no driver.
if [ "$0" = /host/case.sh ]; then
    cp /host/case.sh /host/lib.sh /root/
    trap - EXIT
    exec bash /root/case.sh
fi
NINE=/sys/bus/virtio/drivers/9pnet_virtio
shown=0
show() {
    tail -c +$((shown + 1)) /root/output >> /host/output
    shown=$(stat -c %s /root/output)
}
leave_shares() {
    local device
    devices=()
    umount /mnt/build /mnt/source /mnt/install /mnt/zfs /host ||
        { fail "the shares are left" "$(find /proc/[0-9]*/{cwd,exe,fd} -lname '/host*' -o -lname '/mnt*' 2> /dev/null)"; exit; }
    for device in "$NINE"/virtio*; do
        devices+=("${device##*/}")
        echo "${device##*/}" > $NINE/unbind
    done
}
rejoin_shares() {
    local device share
    for device in "${devices[@]}"; do echo "$device" > $NINE/bind; done
    mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=none host /host || cat /root/output > /dev/ttyS0
    for share in build source install zfs; do
        mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro $share /mnt/$share
    done
}
exec > /root/output 2>&1
trap 'finish; show' EXIT

note "$(uname -srv)"
need "a machine that can sleep" grep -qw mem /sys/power/state
need "a test of sleeping" grep -qw core /sys/power/pm_test
install_incidentd
start_incidentd "$SOURCE/systemd/rules.d" 's/^core_wait = .*/core_wait = "2m"/' || { fail "starts" "$(daemon_log)"; exit 0; }
# QEMU 7.2 does not power off any more when it has slept; a reset ends it as well (-no-reboot).
printf '#!/bin/sh\nexec reboot -ff\n' > /usr/local/sbin/poweroff
chmod +x /usr/local/sbin/poweroff

now() { date +%s.%N; }
sum() { python3 -c "print($1)"; }
settled() { [ "$(incident 'd["core"].get("pending", False)')" = false ]; }
# What CLOCK_MONOTONIC lags behind CLOCK_BOOTTIME, in ms.
apart() { python3 -c 'import time; print(int((time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)) * 1000))'; }
# asleep HOW: "deep" is S3, which an alarm of the hardware clock ends after twenty seconds; "core" does all of that but the
# firmware's part, for five.  Sets slept, in ms.
asleep() {
    local alarm=/sys/class/rtc/rtc0/wakealarm before
    before=$(apart)
    echo 0 > /sys/power/sync_on_suspend
    if [ "$1" = deep ] && grep -qw deep /sys/power/mem_sleep; then
        echo deep > /sys/power/mem_sleep
        echo none > /sys/power/pm_test
        echo 0 > $alarm
        echo +20 > $alarm
    else
        echo core > /sys/power/pm_test
    fi
    check "it sleeps ($(cat /sys/power/mem_sleep), $(cat /sys/power/pm_test))" tee /sys/power/state <<< mem
    slept=$(($(apart) - before))
    check "CLOCK_MONOTONIC stood still for $slept ms" test $slept -ge 3000
}
# told WHAT COMM PID FROM UNTIL: it has an incident, of a time between those (seconds of the clock)
told() {
    local at
    show
    if ! incident_of "crash-$2-$3" 300 || ! within 330 settled; then
        fail "$1: an incident" "$(ls -A /var/lib/incidentd/incidents)" "$(daemon_log)"
        return 1
    fi
    at=$(date -d "$(incident 'd["time"]')" +%s.%N)
    check "$1: its time" python3 -c "import sys; sys.exit(None if $4 - 0.1 <= $at <= $5 + 0.1 else '$at is not between $4 and $5')"
}
# joined WHAT PID: the same with its core, whose time is that of systemd-coredump's own entry, in whole seconds of the clock
joined() {
    local at entry
    at=$(date -d "$(incident 'd["time"]')" +%s.%N)
    entry=$(journalctl -q COREDUMP_PID="$2" SYSLOG_IDENTIFIER=systemd-coredump -o json -n 1 | json 'd["COREDUMP_TIMESTAMP"]')
    check "$1: its time is its core's" python3 -c "import sys; sys.exit(None if -0.1 <= $at - ${entry:-0} / 1e6 < 1.1 else '$at, $entry')"
    same "$1: joined" exact "$(incident 'd["core"]["join"]')"
    [ "$(incident 'd["core"]["join"]')" = exact ] || note "$(incident 'd["core"]["reason"]')"
}
# The kernel starts no program, and so no handler of a core, from the time when it freezes processes until all of them run
# again (usermodehelper_disable(), kernel/power/process.c).
joined_or_not_dumped() {
    if [ "$(incident 'd["core"]["join"]')" = none ]; then
        has "$1: it has no core, and why" 'could not start the handler|pipe failed' "$(incident 'd["core"]["reason"]')"
    else
        joined "$@"
    fi
}
crash() {
    bash -c 'kill -SEGV $$' &
    pid=$!
    wait $pid 2> /dev/null
}

stage "before"
from=$(now)
crash
told "before it" bash $pid "$from" "$(now)"
joined "before it" $pid
mkfifo /root/go
bash -c 'read -r line < /etc/hostname; echo there; read -r line < /root/go; read -r line < /etc/os-release; kill -SEGV $$' > /root/said &
lives_on=$!
within 60 test -s /root/said || fail "it waits"
opened=$(now)

stage "it sleeps"
leave_shares
# It crashes when the clocks have gone apart, which is as soon as it runs again.
python3 -c '
import os, time
apart = lambda: time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
at_first = apart()
os.write(1, b"there\n")
while apart() < at_first + 1:
    pass
os.kill(os.getpid(), 11)' > /root/woken &
woken=$!
within 60 test -s /root/woken || fail "it looks at the clocks"
# It takes some seconds until 64 MiB of core are written.
from_dumped=$(now)
python3 -c 'import os; b = os.urandom(1 << 26); print(flush=True); os.kill(os.getpid(), 11)' > /root/ready &
dumped=$!
within 60 test -s /root/ready || fail "it has its memory"
until grep -q '^CoreDumping:.*1' /proc/$dumped/status 2> /dev/null || [ ! -d /proc/$dumped ]; do :; done
from=$(now)
bash -c 'kill -SEGV $$' &
just_then=$!
asleep deep
until=$(now)
wait $woken $dumped $just_then 2> /dev/null
rejoin_shares

stage "after it"
told "while a core was written" python3 $dumped "$from_dumped" "$from"
joined "while a core was written" $dumped
# The kernel ends a dump when it freezes who dumps (dump_interrupted(), fs/coredump.c).
if [ "$(incident 'd["core"].get("file_bytes") or 0')" -lt $((1 << 26)) ]; then
    opened_in=$(incidentctl gdb "${bundle##*/}" -- -batch -ex bt 2>&1 < /dev/null)
    has "gdb says that the core is cut" 'the core is truncated' "$opened_in"
    has "and what opens instead" '--mini opens' "$opened_in"
    has "which has the stack" '#0 .*kill' "$(incidentctl gdb --mini "${bundle##*/}" -- -batch -ex bt 2>&1 < /dev/null)"
fi
told "as it fell asleep" bash $just_then "$from" "$until"
joined_or_not_dumped "as it fell asleep" $just_then
told "as it woke" python3 $woken "$(sum "$from + $slept / 1000")" "$until"
joined_or_not_dumped "as it woke" $woken
has "as it woke: it has seen the sleep" 'the machine had slept for' "$(incidentctl timeline "${bundle##*/}" --kind clock)"
from=$(now)
crash
told "after it" bash $pid "$from" "$(now)"
joined "after it" $pid
same "after it: it has not seen the sleep" '' "$(incidentctl timeline "${bundle##*/}" --kind clock | grep slept)"

stage "the daemon is late"
systemctl kill -s STOP incidentd
from_before=$(now)
crash
before=$pid until_before=$(now)
leave_shares
asleep core
from=$(now)
crash
echo > /root/go
wait $lives_on 2> /dev/null
until=$(now)
rejoin_shares
systemctl kill -s CONT incidentd
told "late: before it" bash $before "$from_before" "$until_before"
joined "late: before it" $before
told "late: after it" bash $pid "$from" "$until"
joined "late: after it" $pid
told "late: what lived on" bash $lives_on "$from" "$until"
joined "late: what lived on" $lives_on
same "both sleeps stand in its timeline, between what was before and what came after" "hostname slept slept os-release" \
    "$(incidentctl timeline "${bundle##*/}" | grep -oE 'open[a-z]*\(.*(hostname|os-release)|had slept' | sed 's/.*[/ ]//' | xargs)"
check "what it opened has the times of then" python3 - "$opened" "$from" "$until" "$bundle/timeline.jsonl" << 'PYTHON'
import datetime, json, sys
opened, woke, until = map(float, sys.argv[1:4])
of = {e.get("path"): datetime.datetime.fromisoformat(e["wall"][:26] + "+00:00").timestamp()
      for e in map(json.loads, open(sys.argv[4])) if e["kind"] == "open"}
print(of, opened, woke, until)
sys.exit(not (opened - 60 < of["/etc/hostname"] <= opened and woke <= of["/etc/os-release"] <= until))
PYTHON

stage "the daemon"
still_up
check "status answers" incidentctl status
same "nothing was lost" '[]' "$(incidentctl --json status | json 'd.get("losses", [])')"
same "all bundles are whole" '' "$(flawed_bundles)"
check "stops" systemctl stop incidentd
journalctl -u incidentd -o cat > "$OUT/incidentd.log"
