#!/bin/bash
# a user without privileges gets nothing of incidents, and what his processes say does no harm
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh

STATE=/var/lib/incidentd
USER_ID=1000

note "$(uname -srv)"
install_incidentd
start_incidentd "$SOURCE/systemd/rules.d" || { fail "starts" "$(daemon_log)"; exit 0; }
as_user() {
    setpriv --reuid=$USER_ID --regid=$USER_ID --clear-groups -- env -i "PATH=$PATH" HOME=/tmp LC_ALL=C.UTF-8 "$@"
}
# Everything but line ends that a terminal would act on.
control_characters() { LC_ALL=C grep -nP '[\x01-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]' || true; }

# ---- his own crash, from a place and under names he chose
stage hostile
evil=$'/tmp/e\n\033[31mvil'
mkdir "$evil"
cp /bin/bash "$evil/ba"$'\a'"sh"
chown -R $USER_ID "$evil"
long=$(head -c 100000 /dev/zero | tr '\0' A)
forged=$'x\nINCIDENT_ID=forged\nMESSAGE=forged\033]0;owned\a'
# hostile MAP: perf's map of the process is made by MAP
hostile() {
    (cd "$evil" && as_user "$evil/ba"$'\a'"sh" -c '
        printf "c\033[2Jm" > /proc/$$/comm
        '"$1"' /tmp/perf-$$.map
        kill -SEGV $$' "$forged" "$long") > /dev/null 2>&1
}
for map in 'ln -s /etc/shadow' 'mkfifo'; do
    hostile "$map"
    if incident_of crash 300; then
        pid=$(incident 'd["process"]["pid"]')
        ok "his crash with '$map': an incident"
    else
        fail "his crash with '$map': an incident" "$(ls -A $STATE/incidents)" "$(daemon_log)"
        continue
    fi
    explained() { [ "$(incident 'd.get("analysed", False)')" = true ]; }
    if within 300 explained; then ok "explained"; else fail "explained" "$(incidentctl analyse "$pid" 2>&1 | head)"; fi
    check "whole" incidentctl verify "$pid"
    same "its name is tame" 0 "$(basename "$bundle" | grep -c '[^A-Za-z0-9._-]')"
    for verb in list info timeline threads analyse; do
        if [ $verb = list ]; then set --; else set -- "$pid"; fi
        same "$verb shows no control characters" '' "$(incidentctl $verb "$@" 2>&1 < /dev/null | control_characters)"
    done
    # After gdb's own words: it prints the paths of a core as they are.
    shown=$(incidentctl gdb "$pid" --mini -- -batch -ex 'echo ----\n' -ex 'incident summary' -ex 'incident timeline' \
        2>&1 < /dev/null | sed '1,/^----$/d')
    has "gdb: the incident's commands" 'SIGSEGV' "$shown"
    same "gdb shows no control characters" '' "$(control_characters <<< "$shown")"
    same "nothing of a file he may not read" '' "$(grep -rlF "$(head -1 /etc/shadow)" "$bundle")"
done
same "one line for an incident" 2 "$(incidentctl --json list | wc -l)"
journalctl -o json MESSAGE_ID=0b1ca4f5d0f44a3c9d8f2d7e61c05ba7 > /tmp/entries
note "$(wc -l < /tmp/entries) entries of incidents in the journal"
same "no forged field in the journal" '' "$(python3 -c '
import json, os
for line in open("/tmp/entries"):
    entry = json.loads(line)
    if not os.path.isdir("'$STATE'/incidents/" + str(entry["INCIDENT_ID"])) or "forged" in (entry["INCIDENT_ID"], entry["MESSAGE"]):
        print(entry["INCIDENT_ID"], entry["MESSAGE"])')"
same "nor control characters in its messages" '' \
    "$(journalctl -o cat -a _COMM=incidentd | tail -n +1 | control_characters)"

# ---- what he can read
stage read
same "everything is root's alone" '' \
    "$(find $STATE \( ! -user root -o ! -group root -o -perm /077 \) ! -type l | head)"
refused() { # refused WHAT COMMAND...: by an error in one line, and nothing else
    local what=$1 status
    shift
    as_user "$@" > /tmp/said 2> /tmp/error < /dev/null
    status=$?
    same "$what: exit status" 1 $status
    has "$what: says why" '[Pp]ermission|run as root|not enough privileges' "$(cat /tmp/error)"
    same "$what: in one line, and shows nothing" '1 0' "$(wc -l < /tmp/error) $(stat -c %s /tmp/said)"
}
for verb in list "info $pid" timeline threads "analyse $pid" "verify $pid" "core $pid" gdb status "wait --timeout 1s" \
    "replay --rules /usr/share/incidentd/rules.d"; do
    # shellcheck disable=SC2086 # its words
    refused "incidentctl ${verb%% *}" incidentctl $verb
done
refused "incidentd" incidentd --state /tmp/mine
refused "incidentd on the state of others" incidentd
denied() { ! as_user "$@" > /dev/null 2>&1; }
check "not a directory of it" denied ls $STATE
check "not a bundle's file by its name" denied cat "$bundle/summary.txt"
check "nor its control socket" denied python3 -c '
import socket
socket.socket(socket.AF_UNIX).connect("'$STATE'/control.sock")'

# ---- what he can write
stage write
check "no link into it" denied ln -s /etc/passwd $STATE/incidents/link
check "no directory into it" denied mkdir $STATE/incidents/.partial-20260101T000000.000Z-crash-x-1-abcdef
check "no rule" denied touch /usr/share/incidentd/rules.d/mine.toml
check "no signal to the daemon" denied kill -HUP "$(systemctl show -P MainPID incidentd)"
check "the daemon is up" systemctl is-active incidentd
same "and has lost nothing" '[]' "$(incidentctl --json status | json 'd["losses"]')"
check "stops" systemctl stop incidentd
journalctl -u incidentd -o cat > "$OUT/incidentd.log"
