#!/bin/bash
# rules of the kinds that fire for living processes, on this kernel
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh

TROUBLE=$BUILD/tests/victims/trouble
note "$(uname -srv)"
need "the victim trouble" test -x "$TROUBLE"
install -t /usr/local/bin "$TROUBLE"

install_incidentd
mkdir -p /root/rules
cat > /root/rules/rules.toml << 'RULE'
[[rule]]
name    = "failing-call"
on      = "syscall"
syscall = "openat"
errno   = "ENOENT"
match   = { comm = "trouble" }
count   = 5
window  = "1m"

[[rule]]
name      = "blocked"
on        = "blocked"
threshold = "300ms"
match     = { comm = "trouble" }

[[rule]]
name      = "stuck"
on        = "blocked"
threshold = "5s"
when      = "deadline"
match     = { comm = "trouble" }

[[rule]]
name   = "status"
on     = "exit"
status = 42
match  = { comm = "trouble" }

[[rule]]
name      = "big"
on        = "memory"
rss_above = "64MiB"
match     = { comm = "trouble" }

[[rule]]
name       = "renamed"
on         = "tracepoint"
tracepoint = "task:task_rename"
filter     = "newcomm == 'quite-other'"

[[rule]]
name      = "slow-function"
on        = "latency"
probe     = "uprobe:/usr/local/bin/trouble:main"
threshold = "200ms"
match     = { exe = "/usr/local/bin/trouble" }

# First, for of the rules that one request fires the first makes the bundle.
[[rule]]
name   = "failing-disk"
on     = "block_io"
error  = true
match  = { comm = "dd" }

[[rule]]
name        = "slow-disk"
on          = "block_io"
slower_than = "200ms"
match       = { comm = "dd" }
RULE
if start_incidentd /root/rules; then
    ok "starts as a unit"
else
    fail "starts as a unit" "$(incidentctl status 2>&1)" "$(daemon_log)"
    exit 0
fi
for rule in failing-call blocked stuck status big renamed slow-disk failing-disk; do
    same "rule $rule" active "$(rule_state $rule)"
done
note "$(incidentctl status | sed -n '/^Rules/,/^$/p')"

trouble open /no/such/file 5 > /tmp/out
pid=$(awk '$1 == "main" { print $2 }' /tmp/out)
if incident_of failing-call 300; then
    same "a failing call" "$pid ENOENT 5" \
        "$(incident '"%d %s %d" % (d["process"]["pid"], d["syscall"]["error"], d["matches"]["total"])')"
else
    fail "a failing call" "$(cat /tmp/waited)" "$(daemon_log)"
fi

trouble pipe 1000 > /tmp/out
writer=$(awk '$1 == "writer" { print $2 }' /tmp/out)
if incident_of blocked 300; then
    same "a wait, and who ended it" "read $writer" \
        "$(incident '"%s %d" % (d["blocked"]["syscall"], d["blocked"]["waker"]["tid"])')"
    has "where it waited" 'pipe_read' "$(incident 'd["blocked"]["kernel_stack"]')"
else
    fail "a wait, and who ended it" "$(cat /tmp/waited)" "$(daemon_log)"
fi

trouble pipe 600000 > /tmp/out &
stuck=$!
if incident_of stuck 300; then
    same "a wait that goes on" "true read" \
        "$(incident 'json.dumps(d["blocked"]["in_flight"]) + " " + d["blocked"]["syscall"]')"
    check "its process lives" kill -0 $stuck
    has "the thread's kernel stack" 'pipe_read' "$(cat "$bundle/threads.json")"
else
    fail "a wait that goes on" "$(cat /tmp/waited)" "$(daemon_log)"
fi
kill $stuck

trouble exit 42 > /tmp/out
if incident_of status 300; then same "an exit" 42 "$(incident 'd["exit"]["status"]')"; else fail "an exit" "$(daemon_log)"; fi

sleep 600 | trouble grow 96 0 > /tmp/out &
if incident_of big 300; then ok "much memory"; else fail "much memory" "$(daemon_log)"; fi
pkill -x trouble
pkill -x sleep

trouble rename quite-other > /tmp/out
if incident_of renamed 300; then
    has "a tracepoint" 'quite-other' "$(incident 'd["tracepoint"]["fields"]')"
else
    fail "a tracepoint" "$(cat /tmp/waited)" "$(daemon_log)"
fi

# ---- a disk of the kernel's own that takes 400 ms a request, and has a bad sector (0x1234)
scsi_disk() { ls /sys/bus/pseudo/drivers/scsi_debug/adapter0/host*/target*/*/block; }
if modprobe scsi_debug dev_size_mb=16 delay=100 opts=2 && modprobe sd_mod && within 300 scsi_disk; then
    disk=$(scsi_disk)
    within 300 test -b "/dev/$disk"
    dd if="/dev/$disk" of=/dev/null bs=4096 count=1 skip=100 iflag=direct 2> /dev/null
    if incident_of slow-disk 300; then
        same "a slow request" "dd read $disk" \
            "$(incident 'd["process"]["comm"] + " " + d["block_io"]["operation"] + " " + d["block_io"]["device"]')"
        same "and how slow" true "$(incident 'd["block_io"]["duration_ns"] >= 200000000')"
    else
        fail "a slow request" "$(cat /tmp/waited)" "$(daemon_log)"
    fi
    dd if="/dev/$disk" of=/dev/null bs=512 count=8 skip=4656 iflag=direct 2> /dev/null
    if incident_of failing-disk 300; then
        same "a failing request" "dd true" \
            "$(incident 'd["process"]["comm"] + " " + json.dumps(d["block_io"]["error"] is not None)')"
        note "$(incident 'd["summary"]')"
    else
        fail "a failing request" "$(cat /tmp/waited)" "$(daemon_log)"
    fi
else
    skip "a slow request" "this kernel package has no scsi_debug"
    skip "a failing request" "this kernel package has no scsi_debug"
fi
check "stops" systemctl stop incidentd
