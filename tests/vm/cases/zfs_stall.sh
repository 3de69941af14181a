#!/bin/bash
# a pool's transaction group stalls in spa_sync: an incident of rule txg_sync while it lasts
# needs: zfs
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh

POOL=tank
TXGS=/proc/spl/kstat/zfs/$POOL/txgs
T=/sys/kernel/tracing
STALL=6 # seconds; the default zfs_txg_timeout is 5

install_zfs
note "$(uname -sr)"
# Little may be dirty at a time, so that writers soon have to wait.
check "the module loads" modprobe zfs zfs_dirty_data_max=$((16 << 20))
note "ZFS $(cat /sys/module/zfs/version)"
modprobe dm-mod

# A linear device over the empty disk: suspended it holds every request, and says so to
# nobody, which is what a stuck controller or network disk looks like from above.
# No udev rules are in the way (--noudevsync), no file system is frozen (--nolockfs).
sectors=$(blockdev --getsz /dev/vdb)
check "a device to suspend" dmsetup create --noudevsync slow --table "0 $sectors linear /dev/vdb 0"
dmsetup mknodes
hold() { dmsetup suspend --noudevsync --nolockfs --noflush slow; }
release() { dmsetup resume --noudevsync slow; }

check "a pool on it" zpool create -f -o ashift=12 -O compression=off -O atime=off $POOL /dev/mapper/slow
has "its transaction groups are in the kstat file" '^txg +birth +state ' "$(cat $TXGS)"

longest() { # column NAME, the largest of all
    awk -v name="$1" '
        $1 == "txg" { for (i = 1; i <= NF; ++i) at[$i] = i; next }
        $at[name] > most { most = $at[name] }
        END { printf "%.0f\n", most }' $TXGS
}

probe() { echo "$1" >> $T/kprobe_events || { cat $T/error_log; return 1; }; }
check "kprobe on spa_sync" probe 'p:stall/enter zfs:spa_sync spa=%di:x64 txg=%si:u64'
check "and on its return" probe 'r:stall/leave zfs:spa_sync'
echo mono > $T/trace_clock
echo 1 > $T/events/stall/enable

dd if=/dev/zero of=/$POOL/before bs=1M count=8 2> /dev/null
zpool sync $POOL
quick=$(longest stime)
note "longest sync before: $((quick / 1000000)) ms"

hold
# Writers that are throttled or wait for the group: the one asks for it, two fill the
# next one until it may take no more.
for n in 1 2; do dd if=/dev/zero of=/$POOL/writer$n bs=1M count=30 2> /dev/null & done
(echo line > /$POOL/file && sync /$POOL/file) &
zpool sync $POOL &
syncing() { txg=$(awk '$3 == "S" { print $1 }' $TXGS) && [ -n "$txg" ]; }
if within 300 syncing; then ok "a group is being synced"; else fail "a group is being synced" "$(tail -5 $TXGS)"; fi
sleep $STALL
has "and still is, $STALL s later" "^$txg +[0-9]+ +S " "$(cat $TXGS)"
# In one program: a fork takes long here, and the pool waits meanwhile.  It also keeps what
# the collectors would read: tests/data/proc-trees/zfs-stall is made of that.
blocked=$(python3 -c '
import glob, os, sys

def keep(path):
    text = open(path).read()
    os.makedirs(sys.argv[1] + os.path.dirname(path), exist_ok=True)
    open(sys.argv[1] + path, "w").write(text)
    return text

for path in glob.glob("/proc/spl/kstat/zfs/*") + glob.glob("/proc/spl/kstat/zfs/'$POOL'/*") + glob.glob("/sys/module/zfs/parameters/*"):
    try:
        if os.path.isfile(path) and not path.endswith(("/dbufs", "/dbgmsg")):
            keep(path)
    except OSError as error:
        print(error, file=sys.stderr)
for task in glob.glob("/proc/[0-9]*/task/[0-9]*"):
    try:
        stat, stack, comm = (keep(task + "/" + name) for name in ("stat", "stack", "comm"))
        if stat.rsplit(")", 1)[1].split()[0] == "D" and ("[zfs]" in stack or "[spl]" in stack):
            print("", comm, end="")
    except OSError:
        pass' /root/tree | sort)
has "txg_sync waits in ZFS" ' txg_sync$' "$blocked"
has "and so do writers" ' (dd|sync|zpool)$' "$blocked"
note "threads blocked in ZFS:" "$blocked"
release
wait
zpool sync $POOL
cp -r /root/tree "$OUT/"

took=$(longest stime)
note "longest sync after: $((took / 1000000)) ms"
if [ "$took" -ge $((STALL * 1000000000)) ]; then ok "the kstat file has its time"; else fail "the kstat file has its time" "$(tail $TXGS)"; fi
took=$(awk '
    { for (i = 1; i <= NF; ++i) if ($i ~ /^[0-9]+\.[0-9]+:$/) t = $i + 0 }
    / enter: / { start = t }
    / leave: / && start && t - start > most { most = t - start }
    END { print int(most * 1000) }' $T/trace)
note "longest by kprobe: $took ms"
if [ "$took" -ge $((STALL * 1000)) ]; then ok "and so has the kprobe"; else fail "and so has the kprobe" "$(grep spa_sync $T/trace | tail)"; fi
echo 0 > $T/events/stall/enable
echo > $T/kprobe_events

zpool destroy $POOL

# ---- what incidentd makes of it: started before the module is there
install_incidentd
check "the module can go" modprobe -r zfs
mkdir -p /root/rules
cat > /root/rules/txg.toml << 'RULE'
[[rule]]
name      = "txg-stall"
on        = "txg_sync"
threshold = "3s"

[[rule]]
name      = "txg-slow"
on        = "txg_sync"
threshold = "3s"
when      = "return"
RULE
if start_incidentd /root/rules; then
    ok "starts as a unit"
else
    fail "starts as a unit" "$(incidentctl status 2>&1)" "$(daemon_log)"
    exit 0
fi
need_rule txg-stall 'unavailable: no zfs'
modprobe zfs zfs_dirty_data_max=$((16 << 20))
probed() { [[ $(rule_state txg-stall) == active*kprobe* ]]; }
if within 300 probed; then ok "it does when the module comes"; else fail "it does when the module comes" "$(rule_state txg-stall)"; fi

zpool create -f -o ashift=12 -O compression=off -O atime=off $POOL /dev/mapper/slow
dd if=/dev/zero of=/$POOL/before bs=1M count=8 2> /dev/null
zpool sync $POOL
hold
for n in 1 2; do dd if=/dev/zero of=/$POOL/writer$n bs=1M count=30 2> /dev/null & done
if incident_of txg-stall 300; then
    ok "an incident while the device is held"
    same "kind" txg_sync "$(incident 'd["kind"]')"
    note "$(incident 'd["txg"]')"
    same "of this pool, in flight" "$POOL true" "$(incident 'd["txg"]["pool"] + " " + json.dumps(d["txg"]["in_flight"])')"
    same "over the threshold" true "$(incident 'd["txg"]["elapsed_ns"] >= 3000000000')"
    has "its group is the one that syncs" "^$(incident 'd["txg"]["txg"]') +[0-9]+ +S " "$(cat $TXGS)"
    has "the groups so far" "^$(incident 'd["txg"]["txg"]') +[0-9]+ +S " "$(cat "$bundle/host/zfs.$POOL/txgs")"
    has "what the module is set to" '^zfs_dirty_data_max=16777216$' "$(cat "$bundle/host/zfs/parameters")"
    blocked=$(python3 -c '
import json, sys
for line in open(sys.argv[1]):
    thread = json.loads(line)
    print(thread["comm"], *thread["stack"])' "$bundle/host/zfs/blocked")
    has "who is blocked: the pool's own thread" '^txg_sync .* spa_sync\+' "$blocked"
    has "and the writers" '^dd .* dmu_tx_assign\+' "$blocked"
    check "verify" incidentctl verify "$(basename "$bundle")"
else
    fail "an incident while the device is held" "$(cat /tmp/waited)" "$(daemon_log)"
fi
release
wait
if incident_of txg-slow 300; then
    ok "and one at the return"
    same "over" "$POOL false" "$(incident 'd["txg"]["pool"] + " " + json.dumps(d["txg"]["in_flight"])')"
    same "over the threshold" true "$(incident 'd["txg"]["elapsed_ns"] >= 3000000000')"
else
    fail "and one at the return" "$(cat /tmp/waited)" "$(daemon_log)"
fi
zpool destroy $POOL
check "the probes do not hold the module" modprobe -r zfs
check "stops" systemctl stop incidentd
dmsetup remove --noudevsync slow
