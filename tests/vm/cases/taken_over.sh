#!/bin/bash
# what each of incidentd's processes could do to the machine if somebody else's code ran in it: what incidentd(8) says
# kernels: 6.1 backports
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh

note "$(uname -srv)"
need "the victim taken_over" test -x "$BUILD/tests/victims/taken_over"
install_incidentd
install -m 755 "$BUILD/tests/victims/take_over" "$BUILD/tests/victims/taken_over" /usr/local/bin/
sleep infinity &
other=$!
sed -e 's/^#unit = .*/unit = "incident-hook@.service"/' "$SOURCE/systemd/incidentd.toml" > /root/hook.toml
grep -q '^unit' /root/hook.toml || fail "the configuration has a hook"
unit_drop_in taken 'Restart=no' 'Environment="INCIDENTD_OPTIONS=--config /root/hook.toml"'

# of NAME: the pid of the process of the unit that has this name
of() {
    local pid
    while read -r pid; do
        [ "$(cat "/proc/$pid/comm")" != "$1" ] || echo "$pid"
    done < /sys/fs/cgroup/system.slice/incidentd.service/cgroup.procs
}
# may NAME WHAT...: what that process may, sorted, and nothing else
may() {
    local name=$1 said since
    shift
    systemctl reset-failed incidentd 2> /dev/null
    since=$(journalctl -n 1 -o json | json 'd["__CURSOR"]')
    check "$name: started" systemctl restart incidentd
    check "$name: taken over" take_over "$(of "$name")" /usr/local/bin/taken_over $other
    tried() { said=$(journalctl -u incidentd --after-cursor "$since" -o cat | grep -E '^[a-z/:-]+ (yes|no)$') && [ "$(wc -l <<< "$said")" -ge 34 ]; }
    within 300 tried
    note "$name:" "$said"
    same "$name: all was tried" 34 "$(grep -c . <<< "$said")"
    same "$name: what it may" "$*" "$(awk '$2 == "yes" { print $1 }' <<< "$said" | sort | xargs)"
    systemctl stop incidentd
}

may incidentd read-file read-kernel-log read-memory signal write-state
may incidentd-bpf load-bpf read-file read-kernel-log signal write-state
may incidentd-tool become-another-user read-file signal write-state
may incidentd-hook ask-service-manager read-file signal write-state
