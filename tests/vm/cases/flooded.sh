#!/bin/bash
# two users' programs log as fast as they can, without a limit: cores are joined, incidents told and questions answered
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh
note "$(uname -srv)"
mkdir -p /etc/systemd/journald.conf.d
printf '[Journal]\nRateLimitIntervalSec=0\nSystemMaxUse=200M\nRuntimeMaxUse=200M\n' > /etc/systemd/journald.conf.d/flood.conf
systemctl restart systemd-journald
install_incidentd
start_incidentd "$SOURCE/systemd/rules.d" || { fail "starts" "$(daemon_log)"; exit 0; }
as_user() { setpriv "--reuid=$1" "--regid=$1" --clear-groups -- "${@:2}"; }
entries() { journalctl -q -o json _COMM=incidentd "INCIDENT_ID=${bundle##*/}" 2> /dev/null | grep -c .; }
settled() { [ "$(incident 'd["core"].get("pending", False)')" = false ] && [ "$(entries)" != 0 ]; }

as_user 1001 yes "what a user has to say" | as_user 1001 systemd-cat &
as_user 1002 python3 -c '
import socket
to = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
to.connect("/run/systemd/journal/socket")
while True:
    to.send(b"MESSAGE=more\nPRIORITY=6\n")' &
flood=$!
sleep 5
before=$(journalctl --disk-usage)
for i in 1 2 3 4; do
    sh -c 'kill -SEGV $$' 2> /dev/null
    if incident_of crash 300 && within 400 settled; then
        same "crash $i: joined" exact "$(incident 'd["core"]["join"]')"
        same "crash $i: told once" 1 "$(entries)"
        [ "$(incident 'd["core"]["join"]')" = exact ] || note "$(incident 'd["core"]["reason"]')"
    else
        fail "crash $i: an incident that is told" "$(ls -A /var/lib/incidentd/incidents)"
    fi
    check "crash $i: status answers" incidentctl --json status
done
note "$before, then $(journalctl --disk-usage)"
check "the flood went on" kill $flood
kill %1
still_up
same "all bundles are whole" '' "$(flawed_bundles)"
check "stops" systemctl stop incidentd
