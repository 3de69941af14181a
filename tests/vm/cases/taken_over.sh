#!/bin/bash
# what incidentd could do to the machine if somebody else's code ran in it: what incidentd(8) says, and no more
# kernels: 6.1 backports
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh

note "$(uname -srv)"
need "the victim taken_over" test -x "$BUILD/tests/victims/taken_over"
install_incidentd
install -m 755 "$BUILD/tests/victims/taken_over" /usr/local/bin/
sleep infinity &
# The shipped unit with this program in the place of incidentd.
unit_drop_in taken 'Type=oneshot' 'ExecStart=' "ExecStart=/usr/local/bin/taken_over $!" 'Restart=no' 'WatchdogSec=0'
systemctl start incidentd
said=$(journalctl -u incidentd -o cat | grep -E '^[a-z/:-]+ (yes|no)$')
note "$said"
may="ask-service-manager become-another-user load-bpf read-file read-kernel-log read-memory signal write-memory write-state"
same "what it may" "$may" "$(awk '$2 == "yes" { print $1 }' <<< "$said" | sort | xargs)"
same "all was tried" 34 "$(grep -c . <<< "$said")"
