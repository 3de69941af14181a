#!/bin/bash
# kill -9 of the daemon at chosen instants of a capture: the restarted one leaves only whole bundles
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh

INCIDENTS=/var/lib/incidentd/incidents

note "$(uname -srv)"
need "the victim siblings" test -x "$BUILD/tests/victims/siblings"
install -t /usr/local/bin "$BUILD/tests/victims/siblings"
install_incidentd

# What the kernel side of it consists of; the cgroup programs are systemd's own.
programs() { bpftool -j prog show | json 'len([p for p in d if not p["type"].startswith("cgroup")])'; }
links() { bpftool -j link show | json 'len(d)'; }
maps() { bpftool -j map show | json 'len(d)'; }
held() { echo "$(programs) programs, $(links) links, $(maps) maps"; }
before="$(programs) programs, $(links) links"

start_incidentd "$SOURCE/systemd/rules.d" || { fail "starts" "$(daemon_log)"; exit 0; }
running=$(held)
note "before: $before; running: $running"

# at INSTANT: the victim has 100 threads, which makes a bundle of some size; the daemon is killed as
# soon as the instant is seen.  Prints what there was a moment later, or "missed".
cat > /root/at.py << 'PYTHON'
import os, signal, subprocess, sys, time
directory, instant, daemon = sys.argv[1], sys.argv[2], int(sys.argv[3])
before = set(os.listdir(directory))
# Seen first by name, then inside.
def seen(prefix, inside=None, count=0):
    for name in os.listdir(directory):
        if name.startswith(prefix) and name not in before:
            try:
                files = os.listdir(os.path.join(directory, name))
            except OSError:
                continue
            if (inside is None or inside in files) and len(files) >= count:
                return True
    return False
instants = {
    "dead": lambda: victim.poll() is not None,
    "begun": lambda: seen(".partial-"),
    "half": lambda: seen(".partial-", count=8),
    "sealed": lambda: seen(".partial-", "MANIFEST"),
    "committed": lambda: seen("2"),
    "amending": lambda: seen(".amend-"),
    "amended": lambda: seen(".amend-", "MANIFEST"),
}
victim = subprocess.Popen(["siblings", "33", "33", "33", "fault"], stdout=subprocess.DEVNULL)
end = time.monotonic() + 300
while not instants[instant]():
    time.sleep(0.0005) # the others need the processor as well
    if time.monotonic() > end:
        print("missed")
        sys.exit()
os.kill(daemon, signal.SIGKILL)
print(*sorted(set(os.listdir(directory)) - before))
victim.wait()
PYTHON

up() { [ "$(systemctl show -P MainPID incidentd)" != "$1" ] && incidentctl --json status; }
recovered=0
for instant in dead begun half sealed committed amending amended; do
    stage $instant
    pid=$(systemctl show -P MainPID incidentd)
    left=$(python3 /root/at.py $INCIDENTS $instant "$pid")
    note "$instant: ${left:-nothing yet}"
    if [ "$left" = missed ]; then
        fail "$instant: the instant is met" "$(ls -A $INCIDENTS)"
        continue
    fi
    if within 300 up "$pid"; then ok "$instant: restarted"; else fail "$instant: restarted" "$(daemon_log)"; exit 0; fi
    same "$instant: nothing half-written" '' "$(half_written)"
    same "$instant: every bundle is whole" '' "$(flawed_bundles)"
    check "$instant: every bundle is readable" incidentctl list
    has "$instant: the gap is stated" "incidentd\[$pid\] was killed, .* nothing was recorded" "$(daemon_log)"
    same "$instant: by status too" "$pid" "$(incidentctl --json status | json 'd["gap"]["pid"]')"
    note "$(daemon_log | grep -E 'finished|removed|put back' | tail -3)"
    recovered=$((recovered + $(incidentctl --json status | json 'd["incidents"]["recovered"]')))
    systemctl reset-failed incidentd # its limit of starts is another case's
done
same "some were half-written" true "$(json "$recovered > 0" <<< '{}')"
same "no program, link or map is left over of seven lives" "$running" "$(held)"

stage after
{ bash -c 'kill -SEGV $$'; } 2> /dev/null
if incident_of crash 300; then ok "it records as before"; else fail "it records as before" "$(daemon_log)"; fi
check "stops" systemctl stop incidentd
same "nothing of it stays in the kernel" "$before" "$(programs) programs, $(links) links"
journalctl -u incidentd -o cat > "$OUT/incidentd.log"
