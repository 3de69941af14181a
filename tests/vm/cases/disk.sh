#!/bin/bash
# the disk of the incidents fails: writes, then all, and then it answers again
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh
note "$(uname -srv)"
install_incidentd
modprobe dm-flakey
sectors=$(blockdev --getsz /dev/vdb)
healthy="0 $sectors linear /dev/vdb 0"
check "a disk that can fail" dmsetup create --noudevsync bad --table "$healthy"
dmsetup mknodes
becomes() {
    dmsetup suspend --noudevsync --nolockfs bad && dmsetup reload bad --table "$1" && dmsetup resume --noudevsync bad
}
# Without a journal it goes on after an error, as others do.
mkfs.ext4 -q -O ^has_journal /dev/mapper/bad
mkdir -p /var/lib/incidentd
check "holds the incidents" mount -o errors=continue /dev/mapper/bad /var/lib/incidentd
start_incidentd "$SOURCE/systemd/rules.d" || { fail "starts" "$(daemon_log)"; exit 0; }

count() { incidentctl --json status | json "d['incidents']['$1']"; }
lost() { [ "$(count failed)" = "$1" ]; }
crash() { bash -c 'kill -SEGV $$' > /dev/null 2>&1; } 2> /dev/null
# kept WHAT: the next crash makes a whole bundle
kept() {
    crash
    if incident_of crash 300; then
        check "$1: kept" incidentctl verify "${bundle##*/}"
    else
        fail "$1: kept" "$(daemon_log)"
    fi
}
kept "before"
lost=0
for fails in "0 $sectors flakey /dev/vdb 0 0 3600 1 error_writes" "0 $sectors error"; do
    what="${fails#0 "$sectors" }"
    stage "$what"
    check "$what" becomes "$fails"
    crash
    lost=$((lost + 1))
    if within 300 lost $lost; then ok "$what: the loss is counted"; else fail "$what: the loss is counted" "$(count failed)" "$(daemon_log)"; fi
    has "$what: and why" 'Input/output error' "$(incidentctl --json status | json 'd["losses"]')"
    check "healthy again" becomes "$healthy"
    kept "after $what"
done
still_up
check "stops" systemctl stop incidentd
sync
check "what is on the disk" umount /var/lib/incidentd
mount /dev/mapper/bad /var/lib/incidentd
same "all bundles are whole" '' "$(flawed_bundles)"
start_incidentd "$SOURCE/systemd/rules.d"
kept "started again"
same "nothing half-written is left" '' "$(half_written)"
check "stops" systemctl stop incidentd
umount /var/lib/incidentd
