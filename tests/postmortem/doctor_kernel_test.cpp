// incidentctl doctor: kernel and clock.
#include "doctor_lab.h"

namespace incident::postmortem::test {

using namespace doctor;

TEST(DoctorKernel, Release) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_release)), Is(Grade::Ok, "6.1.0-42-amd64"));
    for (const char *old : {"5.10.0-30-amd64\n", "6.0.12\n"}) {
        lab.write("/proc/sys/kernel/osrelease", old);
        EXPECT_THAT(only(lab.look(check_release)), Is(Grade::Bad, "kernel ", "apt install linux-image-amd64"));
    }
    lab.write("/proc/sys/kernel/osrelease", "6.12.3\n");
    lab.write("/proc/sys/kernel/arch", "aarch64\n");
    EXPECT_THAT(only(lab.look(check_release)), Is(Grade::Bad, "aarch64"));
    lab.remove("/proc/sys/kernel/osrelease");
    EXPECT_THAT(only(lab.look(check_release)), Is(Grade::Unknown, "osrelease"));
}

TEST(DoctorKernel, Btf) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_btf)), Is(Grade::Ok, "/sys/kernel/btf/vmlinux"));
    lab.write("/sys/kernel/btf/vmlinux", "ELF");
    EXPECT_THAT(only(lab.look(check_btf)), Is(Grade::Bad, "is not BTF"));
    lab.remove("/sys/kernel/btf");
    EXPECT_THAT(only(lab.look(check_btf)), Is(Grade::Bad, "no /sys/kernel/btf/vmlinux", "linux-image-amd64"));
    lab.remove("/sys");
    EXPECT_THAT(only(lab.look(check_btf)), Is(Grade::Bad, "/sys is not mounted", "mount -t sysfs"));
}

TEST(DoctorKernel, Lockdown) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_lockdown)), Is(Grade::Ok, "none"));
    lab.write("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
    EXPECT_THAT(only(lab.look(check_lockdown)), Is(Grade::Ok, "integrity"));
    lab.write("/sys/kernel/security/lockdown", "none integrity [confidentiality]\n");
    EXPECT_THAT(only(lab.look(check_lockdown)), Is(Grade::Bad, "confidentiality", "command line"));
    lab.remove("/sys/kernel/security/lockdown");
    EXPECT_THAT(only(lab.look(check_lockdown)), Is(Grade::Ok, "incidentd has loaded its programs"));
    lab.status = nullptr;
    EXPECT_THAT(only(lab.look(check_lockdown)), Is(Grade::Unknown, "securityfs", "mount -t securityfs"));
    lab.write("/sys/kernel/security/lsm", "capability");
    EXPECT_THAT(only(lab.look(check_lockdown)), Is(Grade::Ok, "not in this kernel"));
}

TEST(DoctorKernel, Jit) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_jit)), Is(Grade::Ok, "1"));
    lab.write("/proc/sys/net/core/bpf_jit_enable", "0\n");
    EXPECT_THAT(only(lab.look(check_jit)), Is(Grade::Warn, "interpreted", "sysctl -w net.core.bpf_jit_enable=1"));
    lab.remove("/proc/sys/net/core/bpf_jit_enable");
    EXPECT_THAT(only(lab.look(check_jit)), Is(Grade::Unknown, "bpf_jit_enable"));
}

TEST(DoctorKernel, ProbesMatterToTheRulesThatNeedThem) {
    Lab lab;
    for (const auto check : {check_uprobes, check_kprobes, check_tracefs})
        EXPECT_THAT(only(lab.look(check)), Is(Grade::Ok, ""));
    lab.remove("/sys/bus");
    lab.remove("/sys/kernel/tracing");
    EXPECT_THAT(only(lab.look(check_uprobes)), Is(Grade::Warn, "no uprobes"));
    EXPECT_THAT(only(lab.look(check_kprobes)), Is(Grade::Note, "no kprobes"));
    EXPECT_THAT(only(lab.look(check_tracefs)), Is(Grade::Warn, "not mounted", "mount -t tracefs"));
    lab.rule("[[rule]]\nname = \"slow\"\non = \"latency\"\nprobe = \"uprobe:/bin/true:main\"\nthreshold = \"5s\"\n"
             "[[rule]]\nname = \"point\"\non = \"tracepoint\"\ntracepoint = \"sched:sched_switch\"\n"
             "[[rule]]\nname = \"txg\"\non = \"txg_sync\"\nthreshold = \"5s\"\n");
    EXPECT_THAT(only(lab.look(check_uprobes)), Is(Grade::Bad, "no uprobes"));
    EXPECT_THAT(only(lab.look(check_tracefs)), Is(Grade::Bad, "not mounted"));
    EXPECT_THAT(only(lab.look(check_kprobes)), Is(Grade::Note, "no kprobes")); // no ZFS here
    lab.write("/proc/spl/kstat/zfs/arcstats", "");
    EXPECT_THAT(only(lab.look(check_kprobes)), Is(Grade::Warn, "no kprobes"));
    lab.write("/sys/bus/event_source/devices/kprobe/type", "6\n");
    lab.write("/sys/kernel/debug/kprobes/enabled", "0\n");
    EXPECT_THAT(only(lab.look(check_kprobes)), Is(Grade::Warn, "switched off", "echo 1"));
}

TEST(DoctorKernel, PanicOnOom) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_panic_on_oom)), Is(Grade::Ok, ""));
    lab.write("/proc/sys/vm/panic_on_oom", "2\n");
    EXPECT_THAT(only(lab.look(check_panic_on_oom)), Is(Grade::Warn, "is 2", "sysctl -w vm.panic_on_oom=0"));
    lab.remove("/proc/sys/vm/panic_on_oom");
    EXPECT_THAT(only(lab.look(check_panic_on_oom)), Is(Grade::Unknown, "panic_on_oom"));
}

TEST(DoctorClock, Synchronized) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_clock)), Is(Grade::Ok, ""));
    lab.synchronized = false;
    EXPECT_THAT(only(lab.look(check_clock)), Is(Grade::Warn, "unsynchronized", "timedatectl set-ntp true"));
    lab.synchronized = std::nullopt;
    EXPECT_THAT(only(lab.look(check_clock)), Is(Grade::Unknown, ""));
}

TEST(DoctorClock, Source) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_clocksource)), Is(Grade::Ok, "tsc"));
    const std::string current = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    lab.write(current, "hpet\n");
    EXPECT_THAT(only(lab.look(check_clocksource)), Is(Grade::Warn, "hpet is slow", "echo tsc >"));
    lab.write("/sys/devices/system/clocksource/clocksource0/available_clocksource", "hpet acpi_pm \n");
    EXPECT_THAT(only(lab.look(check_clocksource)), Is(Grade::Warn, "hpet is slow", "journalctl -k"));
    lab.write(current, "refined-jiffies\n");
    EXPECT_THAT(only(lab.look(check_clocksource)), Is(Grade::Bad, "milliseconds"));
    lab.remove(current);
    EXPECT_THAT(only(lab.look(check_clocksource)), Is(Grade::Unknown, ""));
}

} // namespace incident::postmortem::test
