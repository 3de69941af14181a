#include "daemon/os/rights.h"

#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

namespace incident::daemon {

namespace {

struct Sets {
    __user_cap_data_struct half[2]{};
};

bool read_sets(Sets &sets) {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    return ::syscall(SYS_capget, &header, sets.half) == 0;
}

std::uint64_t mask_of(std::span<const int> capabilities) {
    std::uint64_t mask = 0;
    for (const int capability : capabilities)
        mask |= 1ull << capability;
    return mask;
}

Status keep(std::uint64_t mask) {
    Sets sets;
    if (!read_sets(sets))
        return fail(Error::system("capget"));
    for (int i = 0; i < 2; ++i) {
        const auto kept = static_cast<std::uint32_t>(mask >> (32 * i));
        sets.half[i].effective &= kept;
        sets.half[i].permitted &= kept;
        sets.half[i].inheritable &= kept;
    }
    // Without it root gets all of the bounding set back when it executes a program (security/commoncap.c).
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return fail(Error::system("PR_SET_NO_NEW_PRIVS"));
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    if (::syscall(SYS_capset, &header, sets.half) != 0)
        return fail(Error::system("capset"));
    return {};
}

} // namespace

std::uint64_t effective_capabilities() {
    Sets sets;
    if (!read_sets(sets))
        return 0;
    return sets.half[0].effective | static_cast<std::uint64_t>(sets.half[1].effective) << 32;
}

Status keep_capabilities(std::span<const int> kept) {
    return keep(mask_of(kept));
}

Status drop_capabilities(std::span<const int> dropped) {
    return keep(~mask_of(dropped));
}

Status give_up_connections() {
    const std::unique_ptr<void, decltype([](void *filter) { seccomp_release(filter); })> filter(
        seccomp_init(SCMP_ACT_ALLOW));
    if (!filter)
        return fail("seccomp: no filter can be made");
    const auto refuse = [&](std::uint64_t type) {
        constexpr std::uint64_t type_bits = 0xf; // SOCK_TYPE_MASK, include/linux/net.h
        return seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 1,
                                SCMP_A1(SCMP_CMP_MASKED_EQ, type_bits, type));
    };
    int error = seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_TSYNC, 1);
    if (error == 0)
        error = seccomp_attr_set(filter.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
    for (const std::uint64_t type : {SOCK_STREAM, SOCK_SEQPACKET})
        error = error == 0 ? refuse(type) : error;
    if (error == 0)
        error = seccomp_load(filter.get());
    if (error != 0)
        return fail(Error::system("seccomp", -error));
    return {};
}

} // namespace incident::daemon
