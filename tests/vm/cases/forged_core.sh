#!/bin/bash
# whose core is joined: systemd-coredump's entries as journald attests them, and one that a user forged
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh
USER_ID=1000
note "$(uname -srv)"
install_incidentd
start_incidentd "$SOURCE/systemd/rules.d" || { fail "starts" "$(daemon_log)"; exit 0; }
as_user() {
    setpriv --reuid=$USER_ID --regid=$USER_ID --clear-groups -- env -i "PATH=$PATH" HOME=/tmp LC_ALL=C.UTF-8 "$@"
}
# ---- whose core: systemd-coredump becomes the user before it sends the entry
stage "his own core"
settled() { [ "$(incident 'd["core"].get("pending", False)')" = false ]; }
sent_by() { # the entry that is joined, as journald attests it; of one that ended before it looked it cannot name the program
    journalctl --cursor="$(incident 'd["core"]["journal_cursor"]')" -o json -n 1 |
        json '" ".join([d["_UID"], d["_TRANSPORT"], d.get("_EXE", "'$program'"), d.get("_SYSTEMD_UNIT", "")[:17]])'
}
program=/usr/lib/systemd/systemd-coredump
genuine="journal $program systemd-coredump@"
as_user bash -c 'kill -ABRT $$' > /dev/null 2>&1
if incident_of crash 300 && within 330 settled; then
    same "his own core is joined" exact "$(incident 'd["core"]["join"]')"
    same "by an entry of his uid" "$USER_ID $genuine" "$(sent_by)"
    his=$(incident 'd["core"]["file"]')
else
    fail "his own crash: an incident" "$(daemon_log)"
fi

# forge PID: the genuine program sends any fields for anybody, as soon as that process dies
forge() {
    while ! grep -q '^CoreDumping:.*1' "/proc/$1/status" 2> /dev/null && [ -d "/proc/$1" ]; do :; done
    printf 'MESSAGE_ID=fc2e22bc6ee647b6b90729ab34a250b1\nMESSAGE=x\nCOREDUMP_EXE=%s\nCOREDUMP_FILENAME=%s\n\n' \
        "$(readlink -f /bin/sleep)" "$his" |
        as_user /usr/lib/systemd/systemd-coredump --backtrace "$1" 0 0 6 "$(date +%s)" 18446744073709551615 vm
}
stage "root's core"
sleep 1000 &
pid=$!
forge $pid > /tmp/forged 2>&1 &
forger=$!
kill -ABRT $pid
if incident_of crash 300 && within 330 settled; then
    wait $forger
    same "root's core is joined, not that which he says" exact "$(incident 'd["core"]["join"]')"
    has "it is root's" "/core\.sleep\.0\.[0-9a-f]{32}\.$pid\." "$(incident 'd["core"]["file"]')"
    same "by the entry of systemd-coredump's own user" "$(id -u systemd-coredump) $genuine" "$(sent_by)"
    has "he was heard" "\"$USER_ID\"" "$(journalctl -o json COREDUMP_PID=$pid _UID=$USER_ID)"
else
    fail "root's crash: an incident" "$(daemon_log)"
fi
check "stops" systemctl stop incidentd
journalctl -u incidentd -o cat > "$OUT/incidentd.log"
