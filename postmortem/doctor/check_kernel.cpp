// What the kernel must be and allow before a program of ours is loaded (daemon/service/preflight.cpp refuses to
// start where the first two fail).
#include "capture/os/kernel_release.h"
#include "postmortem/doctor/checks.h"
#include "postmortem/doctor/host.h"

#include <fmt/format.h>

namespace incident::postmortem::doctor {

Findings check_release(const Host &host) {
    const auto release = host.read("/proc/sys/kernel/osrelease");
    if (!release)
        return {unknown(release.error().what)};
    const auto version = capture::kernel_version(*release);
    if (!version)
        return {unknown("the kernel calls itself " + *release)};
    if (*version < capture::oldest_kernel)
        return {bad("kernel " + *release, "incidentd needs 6.1 or newer and does not start",
                    host.install("linux-image-amd64", "kernel") + " && systemctl reboot")};
    const auto machine = host.read("/proc/sys/kernel/arch"); // since 6.1
    if (machine && *machine != "x86_64")
        return {bad(fmt::format("kernel {} for {}", *release, *machine), "incidentd is for x86-64", "")};
    return {ok("kernel " + *release)};
}

Findings check_btf(const Host &host) {
    const std::string file = "/sys/kernel/btf/vmlinux";
    const auto bytes = host.read(file);
    if (!bytes && bytes.error().code == ENOENT && !host.exists("/sys/kernel"))
        return {bad("/sys is not mounted", "incidentd finds no kernel type information and does not start",
                    "mount -t sysfs sysfs /sys")};
    if (!bytes && bytes.error().code == ENOENT)
        return {bad("the kernel has no type information: no " + file,
                    "incidentd's programs fit themselves to the kernel by it; without it does not start",
                    host.install("linux-image-amd64", "kernel") + " && systemctl reboot")};
    if (!bytes)
        return {unknown(bytes.error().what, host.as_root())};
    if (!bytes->starts_with("\x9f\xeb")) // BTF_MAGIC, include/uapi/linux/btf.h
        return {bad(file + " is not BTF", "incidentd does not start", host.install("linux-image-amd64", "kernel"))};
    return {ok(file)};
}

// "none [integrity] confidentiality".  BPF that reads kernel memory and kprobes are refused from
// "confidentiality" on (LOCKDOWN_BPF_READ_KERNEL, LOCKDOWN_KPROBES: include/linux/security.h).
Findings check_lockdown(const Host &host) {
    const auto text = host.read("/sys/kernel/security/lockdown");
    if (!text && text.error().code == ENOENT)
        // securityfs, where it is mounted, always has this list.
        return {host.exists("/sys/kernel/security/lsm") ? ok("not in this kernel")
                : host.status()
                    ? ok("incidentd has loaded its programs")
                    : unknown("securityfs is not mounted", "mount -t securityfs securityfs /sys/kernel/security")};
    if (!text)
        return {unknown(text.error().what, host.as_root())};
    const std::size_t open = text->find('['), close = text->find(']', open);
    const std::string level = close == std::string::npos ? *text : text->substr(open + 1, close - open - 1);
    if (level == "confidentiality")
        return {bad("lockdown=confidentiality", "the kernel refuses programs that read its memory: nothing is recorded",
                    "remove lockdown=confidentiality from the kernel's command line (at most integrity) and reboot")};
    return {ok("lockdown is " + level)};
}

Findings check_jit(const Host &host) {
    const auto text = host.read("/proc/sys/net/core/bpf_jit_enable");
    if (!text)
        return {unknown(text.error().what, host.as_root())};
    if (*text == "0")
        return {warn("net.core.bpf_jit_enable is 0: BPF is interpreted",
                     "each recorded system call costs several times as much, and ZFS' syncs cannot be seen by fentry",
                     "sysctl -w net.core.bpf_jit_enable=1")};
    return {ok("net.core.bpf_jit_enable is " + *text)};
}

} // namespace incident::postmortem::doctor
