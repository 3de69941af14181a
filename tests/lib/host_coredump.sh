#!/bin/bash
# A journal and a systemd-coredump that takes cores, on a machine whose PID 1 is not
# systemd; on one where it is, nothing is done.
#
#   host_coredump.sh start | stop | status
#
# start brings up what is missing: /etc/machine-id, kernel.core_pattern and
# core_pipe_limit as systemd-coredump's package sets them, a journald, and a listener on
# /run/systemd/coredump that runs systemd-coredump once a crash (what
# systemd-coredump.socket does).  It notes each thing it did under $STATE; stop undoes
# exactly those.  A start that finds notes of an interrupted run undoes these first.
#
# All of this is the machine's, not the caller's: hold
# /run/lock/incidentd-tests.lock (flock) from before start until after stop.  What is
# left running does not inherit the caller's descriptor 9, where scripts keep the lock.
set -euo pipefail

STATE=/run/incidentd-tests
JOURNAL=/run/systemd/journal
JOURNALD=/lib/systemd/systemd-journald
COREDUMP=/lib/systemd/systemd-coredump
COREDUMP_SOCKET=/run/systemd/coredump
COREDUMP_SYSCTLS=/usr/lib/sysctl.d/50-coredump.conf

fail() {
    echo "host_coredump.sh: $*" >&2
    exit 1
}

# wait_until SECONDS COMMAND…
wait_until() {
    local tries=$(($1 * 20))
    shift
    until "$@"; do
        [ $((tries--)) -gt 0 ] || return 1
        sleep 0.05
    done
}

# A pid note holds "PID STARTTIME", so that a reused pid is never taken for ours.
start_time() {
    sed -n 's/.*) //p' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20
}

note_process() {
    echo "$2 $(start_time "$2")" >"$STATE/$1.pid"
}

noted_process() {
    local pid start
    [ -e "$STATE/$1.pid" ] || return 1
    read -r pid start <"$STATE/$1.pid"
    [ -n "$start" ] && [ "$(start_time "$pid")" = "$start" ] && echo "$pid"
}

has_ended() {
    ! noted_process "$1" >/dev/null
}

end_process() {
    local pid
    if pid=$(noted_process "$1"); then
        kill "$pid"
        wait_until 10 has_ended "$1" || kill -KILL "$pid"
    fi
    rm -f "$STATE/$1.pid"
}

set_sysctl() {
    local file=/proc/sys/kernel/$1
    [ "$(cat "$file")" = "$2" ] && return
    cat "$file" >"$STATE/$1.sysctl"
    echo "$2" >"$file" || fail "cannot set kernel.$1 (is /proc/sys read-only?)"
}

restore_sysctl() {
    [ -e "$STATE/$1.sysctl" ] || return 0
    cat "$STATE/$1.sysctl" >"/proc/sys/kernel/$1"
    rm "$STATE/$1.sysctl"
}

packaged_sysctl() {
    sed -n "s/^-\?kernel\.$1 *= *//p" "$COREDUMP_SYSCTLS"
}

start_machine_id() {
    [ -s /etc/machine-id ] && return
    : >"$STATE/made-machine-id"
    systemd-machine-id-setup
}

journal_answers() {
    [ -S "$JOURNAL/socket" ] && journalctl --sync 2>/dev/null
}

start_journald() {
    journal_answers && return
    if [ ! -d "$JOURNAL" ]; then
        mkdir -p "$JOURNAL"
        : >"$STATE/made-journal-dir"
    fi
    setsid "$JOURNALD" </dev/null >"$STATE/journald.log" 2>&1 9>&- &
    note_process journald $!
    wait_until 20 journal_answers || fail "journald did not come up: $(cat "$STATE/journald.log")"
    if [ ! -e /dev/log ] && [ ! -L /dev/log ]; then
        ln -s "$JOURNAL/dev-log" /dev/log
        : >"$STATE/made-dev-log"
    fi
    journalctl --flush
}

someone_listens() {
    grep -q " $COREDUMP_SOCKET\$" /proc/net/unix
}

start_listener() {
    someone_listens && return
    rm -f "$COREDUMP_SOCKET"
    mkdir -p /var/lib/systemd/coredump
    (
        umask 077
        exec setsid systemd-socket-activate -l "$COREDUMP_SOCKET" --seqpacket -a "$COREDUMP"
    ) </dev/null >"$STATE/listener.log" 2>&1 9>&- &
    note_process listener $!
    wait_until 20 someone_listens || fail "nothing listens on $COREDUMP_SOCKET: $(cat "$STATE/listener.log")"
}

no_dump_under_way() {
    local pid
    pid=$(noted_process listener) || return 0
    [ -z "$(cat "/proc/$pid/task/$pid/children" 2>/dev/null)" ]
}

stop_listener() {
    [ -e "$STATE/listener.pid" ] || return 0
    wait_until 60 no_dump_under_way || echo "host_coredump.sh: a core dump is still being written" >&2
    end_process listener
    rm -f "$COREDUMP_SOCKET"
}

stop_journald() {
    [ -e "$STATE/journald.pid" ] || return 0
    journalctl --sync 2>/dev/null || true
    end_process journald
    rm -f "$JOURNAL"/{socket,stdout,dev-log,io.systemd.journal}
    if [ -e "$STATE/made-dev-log" ]; then
        rm -f /dev/log "$STATE/made-dev-log"
    fi
    if [ -e "$STATE/made-journal-dir" ]; then
        rm -rf "$JOURNAL"
    fi
}

stop() {
    [ -d "$STATE" ] || return 0
    stop_listener
    stop_journald
    restore_sysctl core_pattern
    restore_sysctl core_pipe_limit
    if [ -e "$STATE/made-machine-id" ]; then
        rm -f /etc/machine-id
    fi
    rm -rf "$STATE"
}

start() {
    [ "$(id -u)" = 0 ] || fail "needs root"
    [ -d /run/systemd/system ] && return
    [ -x "$COREDUMP" ] || fail "$COREDUMP is not there: install systemd-coredump"
    stop
    mkdir -m 700 "$STATE"
    start_machine_id
    set_sysctl core_pattern "$(packaged_sysctl core_pattern)"
    set_sysctl core_pipe_limit "$(packaged_sysctl core_pipe_limit)"
    start_journald
    start_listener
}

status() {
    local name
    for name in journald listener; do
        echo "$name: $(noted_process "$name" || echo "not started by this script")"
    done
    echo "core_pattern: $(cat /proc/sys/kernel/core_pattern)"
    echo "core_pipe_limit: $(cat /proc/sys/kernel/core_pipe_limit)"
}

case ${1:-} in
start | stop | status) "$1" ;;
*)
    echo "usage: $0 start|stop|status" >&2
    exit 2
    ;;
esac
