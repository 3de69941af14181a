#include "daemon/service/preflight.h"

#include "capture/os/kernel_release.h"
#include "daemon/os/rights.h"

#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdint>

namespace incident::daemon {

namespace {

bool has(std::uint64_t set, int capability) {
    return set >> capability & 1;
}

} // namespace

Status preflight(const std::string &sys_root) {
    const auto capabilities = effective_capabilities();
    if (!has(capabilities, CAP_SYS_ADMIN)) {
        std::string lacking;
        const std::pair<int, const char *> needed[] = {
            {CAP_BPF, "CAP_BPF"}, {CAP_PERFMON, "CAP_PERFMON"}, {CAP_SYS_PTRACE, "CAP_SYS_PTRACE"}};
        for (const auto &[capability, name] : needed)
            if (!has(capabilities, capability))
                lacking.append(lacking.empty() ? "" : ", ").append(name);
        if (!lacking.empty())
            return fail(fmt::format("not enough privileges (uid {}, without {}): run it as root or as its systemd unit",
                                    ::geteuid(), lacking));
    }
    utsname name{};
    const auto version = ::uname(&name) == 0 ? capture::kernel_version(name.release) : std::nullopt;
    if (version && *version < capture::oldest_kernel)
        return fail(fmt::format("kernel {} is too old: 6.1 or newer is needed", name.release));
    const std::string btf = sys_root + "/kernel/btf/vmlinux";
    if (::access(btf.c_str(), R_OK))
        return fail(fmt::format("no kernel BTF ({}): a kernel with CONFIG_DEBUG_INFO_BTF=y is needed, and /sys mounted",
                                Error::system(btf).what));
    return {};
}

} // namespace incident::daemon
