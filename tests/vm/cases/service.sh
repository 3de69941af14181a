#!/bin/bash
# the shipped unit: starts, tells its state, reloads, is restarted when it hangs or dies, stops whole
# kernels: 6.1 backports
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh

VICTIMS=$BUILD/tests/victims
EXPOSURE=32 # tenths; incidentd(8), "Confinement", says what for
MINE=/etc/incidentd/rules.d/mine.toml

note "$(uname -srv)"
install_incidentd
systemctl daemon-reload
property() { systemctl show -P "$1" incidentd; }
is() { [ "$(property "$1")" = "$2" ]; }
says() { [[ $(property StatusText) =~ $1 ]]; }
# told WHAT PATTERN: what `systemctl status` shows comes to match it
# Under emulation recording costs more than the shipped budget: that may be said, and nothing else.
END='(; [0-9]+ left out for the cost budget: incidentctl status)?(; over the cost budget)?$'
told() { if within 300 says "$2"; then ok "$1"; else fail "$1" "no match for: $2" "in: $(property StatusText)"; fi; }
up() { is ActiveState active && incidentctl --json status > /dev/null; }

# ---- the unit file
unit=$(property FragmentPath)
same "systemd-analyze verify has nothing to say" '' "$(systemd-analyze --man=no verify "$unit" 2>&1)"
check "exposure" systemd-analyze --no-pager security --offline=true --threshold=$EXPOSURE "$unit"

# ---- starts, as it is installed
check "starts" systemctl start incidentd
same "and is up when systemctl says so" 'active running notify' "$(property ActiveState) $(property SubState) $(property Type)"
told "says what it does" '^Recording: 3 rules active, 1 unavailable \(txg-stall\); 0 incidents'"$END"
has "systemctl status shows it" 'Status: "Recording: 3 rules active' "$(systemctl status incidentd --no-pager 2>&1)"
pid=$(property MainPID)
field() { awk -v name="$1:" '$1 == name { print $2 }' "/proc/$pid/status"; }
same "no new privileges" 1 "$(field NoNewPrivs)"
same "a system-call filter" 2 "$(field Seccomp)"
note "capabilities $(field CapEff) of $(field CapBnd)"
same "its oom_score_adj" -900 "$(cat "/proc/$pid/oom_score_adj")"
tool=$(pgrep -x incidentd-tool)
same "that of what starts the analysis" 0 "$(cat "/proc/$tool/oom_score_adj")"
inside() { nsenter -t "$pid" -m -- "$@"; }
same "all it may write is its state" 'ro rw' \
    "$(inside findmnt -no OPTIONS -T /usr | cut -d, -f1) $(inside findmnt -no OPTIONS -T /var/lib/incidentd | cut -d, -f1)"

# ---- reloads
stage reload
mkdir -p "${MINE%/*}"
cat > $MINE << 'RULE'
[[rule]]
name = "status"
on = "exit"
status = 42
match = { comm = "bash" }
RULE
check "reloads good rules" systemctl reload incidentd
loaded() { [ "$(rule_state "$1")" = "$2" ]; }
if within 300 loaded status active; then ok "and has them"; else fail "and has them" "$(rule_state status)" "$(daemon_log)"; fi
told "and says so" '^Recording: 4 rules active'
sed 's/status = 42/statuss = 42/' -i $MINE
if systemctl reload incidentd 2> /tmp/refused; then
    fail "refuses broken rules"
else
    ok "refuses broken rules"
fi
has "with what is wrong in the journal" "mine.toml:4:1: error: .*statuss" "$(daemon_log)"
same "the rules are those of before" active "$(rule_state status)"
same "and it is up" active "$(property ActiveState)"
# Without systemctl reload's check before.
systemctl kill --kill-who=main -s HUP incidentd
told "a signal alone keeps them as well, and it says so" '^Recording: 4 rules active.*reload was refused'
same "they are still those of before" active "$(rule_state status)"
rm $MINE
check "reloads when it is mended" systemctl reload incidentd
told "and no longer complains" '^Recording: 3 rules active, 1 unavailable \(txg-stall\); 0 incidents'"$END"
same "the main process is the same" "$pid" "$(property MainPID)"

stage memory
# ---- an incident; memory with 100 threads dying
{ bash -c 'kill -SEGV $$'; } 2> /dev/null
told "counts its incidents" '; 1 incidents'"$END"
note "memory with the shipped rules: $(($(property MemoryCurrent) >> 20)) MiB"
if [ -x "$VICTIMS/siblings" ]; then
    { "$VICTIMS/siblings" 33 33 33 fault > /dev/null; } 2> /dev/null
    told "100 threads" '; 2 incidents'"$END"
    explained() { [ "$(incidentctl --json status | json 'd["analyses"]["done"] + d["analyses"]["failed"]')" -ge 2 ]; }
    if within 600 explained; then ok "and explained"; else fail "and explained" "$(incidentctl status)"; fi
else
    skip "100 threads" "the victims are not built"
fi
cgroup=/sys/fs/cgroup$(property ControlGroup)
note "memory after 100 threads died and were explained: $(($(cat "$cgroup/memory.peak") >> 20)) MiB at most, of it" \
    "$(grep -E '^(anon|file|kernel|slab|percpu|vmalloc|shmem) ' "$cgroup/memory.stat")"
same "MemoryMax is not reached" 'max 0 oom 0 oom_kill 0' "$(grep -E '^(max|oom|oom_kill) ' "$cgroup/memory.events" | xargs)"
note "tasks: $(cat "$cgroup/pids.peak" 2> /dev/null || cat "$cgroup/pids.current") of $(property TasksMax)"

stage watchdog
# ---- it hangs.  The limit is lowered for the test's sake; the feeding is the same.
unit_drop_in watchdog 'WatchdogSec=6s'
check "starts again with a short limit" systemctl restart incidentd
within 300 up
pid=$(property MainPID)
# Three times the limit, with something to do.
for _ in 1 2 3 4 5 6; do { bash -c 'kill -SEGV $$'; } 2> /dev/null; sleep 3; done
same "one that works is left alone" "$pid 0" "$(property MainPID) $(property NRestarts)"
kill -STOP "$pid"
restarted() { [ "$(property NRestarts)" -ge "$1" ] && up; }
if within 300 restarted 1; then ok "a stalled event loop is ended and restarted"; else fail "a stalled event loop is ended and restarted" "$(daemon_log)" "$(systemctl status incidentd)"; fi
has "by the watchdog" 'Watchdog timeout' "$(journalctl -u incidentd -o cat)"
has "the new one knows of the gap" "incidentd\[$pid\] was killed, .* nothing was recorded" "$(daemon_log)"
same "and so does status" "$pid" "$(incidentctl --json status | json 'd["gap"]["pid"]')"
unit_drop_in watchdog

# ---- it dies
kill -SEGV "$(property MainPID)"
if within 300 restarted 2; then ok "a crash of its own: restarted"; else fail "a crash of its own: restarted" "$(daemon_log)"; fi
{ bash -c 'kill -ABRT $$'; } 2> /dev/null
told "and records again" '; 1 incidents'"$END"

stage stop
# ---- it stops while much is under way
for _ in 1 2 3 4 5 6 7 8; do bash -c 'kill -SEGV $$' & done 2> /dev/null
check "stops" systemctl stop incidentd
wait 2> /dev/null
same "cleanly" 'inactive success' "$(property ActiveState) $(property Result)"
same "nothing half-written is left" '' "$(half_written)"
same "every bundle is whole" '' "$(flawed_bundles)"
check "starts after that" systemctl start incidentd
within 300 up
same "and knows that it had been stopped" true "$(incidentctl --json status | json 'd["gap"]["stopped"]')"
check "stops again" systemctl stop incidentd

# ---- it cannot work
unit_drop_in case 'Environment=INCIDENTD_OPTIONS=--no-such-option'
systemctl start incidentd 2> /dev/null
within 300 is ActiveState failed
same "wrong options: not tried again" 'failed exit-code 2 0' \
    "$(property ActiveState) $(property Result) $(property ExecMainStatus) $(property NRestarts)"
journalctl -u incidentd -o cat > "$OUT/incidentd.log"
