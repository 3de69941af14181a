#!/bin/bash
# the doctor on a stock host: what it finds is so, and what mends it mends it; metrics by the timer
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh

install_incidentd
if start_incidentd "$SOURCE/systemd/rules.d"; then
    ok "starts as a unit"
else
    fail "starts as a unit" "$(incidentctl status 2>&1)" "$(daemon_log)"
    exit 0
fi

# line GROUP NAME KEY: of the check's worst finding
line() {
    incidentctl --json doctor | json "([c for s in ('bad', 'warn', 'unknown', 'note', 'ok') for c in d['checks'] if (c['group'], c['name'], c['state']) == ('$1', '$2', s)] or [{}])[0].get('$3')"
}
state_is() { [ "$(line "$1" "$2" state)" = "$3" ]; }
# mended WHAT GROUP NAME: bad or a warning now; the first line of its fix makes it ok
mended() {
    local before fix
    before=$(line "$2" "$3" state) fix=$(line "$2" "$3" fix)
    case $before in bad | warn) ;; *) fail "$1" "it is $before" "$(line "$2" "$3" fact)"; return ;; esac
    bash -c "${fix%%$'\n'*}" > /tmp/mended 2>&1
    if within 300 state_is "$2" "$3" ok; then
        ok "$1: $fix"
    else
        fail "$1" "$fix" "$(cat /tmp/mended)" "$(line "$2" "$3" fact)"
    fi
}

page=$(incidentctl doctor)
note "$page"
for check in 'incidentd running' 'incidentd state' 'rules files' 'rules loaded' 'kernel release' 'kernel BTF' \
    'kernel kprobes' 'kernel uprobes' 'kernel tracefs' 'kernel OOM' 'cores core_pattern' 'cores socket' 'cores Storage' \
    'incidentd units' 'journal journald'; do
    # shellcheck disable=SC2086  # group and name
    same "$check" ok "$(line $check state)"
done
# under the unit the daemon is spared, what runs it at boot is not made yet
same "oom_score_adj" ok "$(line incidentd 'OOM score' state)"

systemctl disable incidentd 2> /dev/null
mended "not enabled" incidentd 'at boot'
echo core > /proc/sys/kernel/core_pattern
mended "core_pattern" cores core_pattern
systemctl stop systemd-coredump.socket
mended "nobody listens for cores" cores socket
sysctl -qw fs.suid_dumpable=0
mended "suid_dumpable" cores dumpable
mkdir -p /etc/systemd/coredump.conf.d
printf '[Coredump]\nStorage=none\n' > /etc/systemd/coredump.conf.d/50-x.conf
mended "no core is kept" cores Storage
printf 'd /var/lib/systemd/coredump 0755 root root 1d\n' > /etc/tmpfiles.d/60-x.conf
mended "cores go too early" cores age
mkdir -p /etc/systemd/journald.conf.d
printf '[Journal]\nStorage=volatile\n' > /etc/systemd/journald.conf.d/50-x.conf
mended "the journal is in memory" journal storage

# a unit that may not dump: its running process by prlimit, the next by the drop-in
echo '|/lib/systemd/systemd-coredump %P %u %g %s %t %c %h' > /proc/sys/kernel/core_pattern
systemd-run -q --unit=limited -p LimitCORE=0 sleep 1000
limited() { # KEY: of the finding about it; others are without a limit of their own here as well
    incidentctl --json doctor | json "next((c['$1'] for c in d['checks'] if 'limited.service' in c['fact']), 'none')"
}
has "a unit's limit" '^sleep\[[0-9]+\] of limited.service: RLIMIT_CORE is 0' "$(limited fact)"
bash -c "$(limited fix)"
same "is lifted" none "$(limited fact)"
has "and stays so" LimitCORE=infinity "$(cat /etc/systemd/system/limited.service.d/50-core.conf)"
systemctl stop limited

# a unit of ours that has failed
systemd-run -q --unit=incidentd-broken false
failed() { state_is incidentd units warn; }
if within 300 failed; then ok "a failed unit is seen"; else fail "a failed unit is seen" "$(line incidentd units fact)"; fi
has "by its name" 'incidentd-broken.service has failed' "$(line incidentd units fact)"
systemctl reset-failed incidentd-broken
same "and gone again" ok "$(line incidentd units state)"

# metrics: nothing without node_exporter's directory
prom=/var/lib/prometheus/node-exporter/incidentd.prom
systemctl start incidentd-metrics.service
check "without its directory nothing is done" test ! -e $prom
mkdir -p /var/lib/prometheus/node-exporter
chown nobody /var/lib/prometheus/node-exporter
check "the timer starts" systemctl start incidentd-metrics.timer
written() { grep -qx 'incidentd_up 1' $prom; }
if within 300 written; then ok "metrics are written"; else fail "metrics are written" "$(journalctl -u incidentd-metrics)"; fi
same "for all to read" 644 "$(stat -c %a $prom)"
same "to the end" '# EOF' "$(tail -n 1 $prom)"
has "with the bundles' space" '^incidentd_bundles_bytes ' "$(cat $prom)"
systemctl stop incidentd-metrics.timer incidentd
systemctl start incidentd-metrics.service 2> /dev/null
same "a daemon that is down" 'incidentd_up 0' "$(grep -x 'incidentd_up [01]' $prom)"
same "is bad" bad "$(line incidentd running state)"
has "with the command" 'systemctl enable --now incidentd' "$(line incidentd running fix)"
