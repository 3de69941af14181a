#!/bin/bash
# systemd is up, the kernel has what incidentd needs, systemd-coredump stores a crash
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh

note "$(uname -srv)"
note "$(systemctl --version | head -1); up $(cut -d' ' -f1 /proc/uptime) s"
same "PID 1 is systemd" systemd "$(cat /proc/1/comm)"
same "no unit failed" running "$(systemctl is-system-running)"
check "kernel BTF" test -s /sys/kernel/btf/vmlinux
check "tracefs" test -e /sys/kernel/tracing/events/signal/signal_deliver/format
check "raw_syscalls tracepoints" test -e /sys/kernel/tracing/events/raw_syscalls/sys_enter/format
check "cgroup v2" test -e /sys/fs/cgroup/cgroup.controllers
check "PSI" test -e /proc/pressure/memory
same "coredump socket" active "$(systemctl is-active systemd-coredump.socket)"
has "core_pattern is systemd-coredump's" systemd-coredump "$(cat /proc/sys/kernel/core_pattern)"

{ bash -c 'kill -SEGV $$'; } 2> /dev/null
stored() { coredumpctl --no-pager --json=short list | json 'd[0]["sig"]' | grep -qx 11; }
if within 300 stored; then ok "a crash is stored"; else fail "a crash is stored" "$(coredumpctl --no-pager list 2>&1)"; fi
has "gdb reads it" '^#0 ' "$(coredumpctl --no-pager -A '-batch -ex bt' debug bash 2>&1 < /dev/null)"
