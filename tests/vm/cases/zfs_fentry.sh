#!/bin/bash
# a ZFS module with BTF: syncs are seen by fentry, and the module can still be unloaded
# needs: zfs
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh

install_zfs
note "$(uname -sr)"
cp /usr/local/lib/zfs-btf/*.ko "/lib/modules/$(uname -r)/extra/"
check "the module loads" modprobe zfs
note "ZFS $(cat /sys/module/zfs/version)"
check "it has BTF" test -s /sys/kernel/btf/zfs
if [ -s "$BUILD/bpf/txg_fentry.bpf.o" ]; then
    loaded=$(python3 "$SOURCE/tests/vm/guest/bpf_load.py" "$BUILD/bpf/txg_fentry.bpf.o" 2>&1)
    same "the verifier takes both programs" 2 "$(grep -c '^ok ' <<< "$loaded")"
    note "$loaded"
else
    skip "the verifier takes both programs" "not built"
fi

# ---- what incidentd makes of it
install_incidentd
mkdir -p /root/rules
cat > /root/rules/txg.toml << 'RULE'
[[rule]]
name      = "txg-stall"
on        = "txg_sync"
threshold = "1s"
RULE
if start_incidentd /root/rules; then
    ok "starts as a unit"
else
    fail "starts as a unit" "$(incidentctl status 2>&1)" "$(daemon_log)"
    exit 0
fi
need_rule txg-stall 'unavailable: no pool'
check "a pool" zpool create -f tank /dev/vdb
probed() { [[ $(rule_state txg-stall) == active*fentry* ]]; }
if within 300 probed; then ok "by fentry"; else fail "by fentry" "$(rule_state txg-stall)"; fi
zpool destroy tank
if within 300 modprobe -r zfs; then ok "without a pool the module can go"; else fail "without a pool the module can go"; fi
still_up
check "stops" systemctl stop incidentd
