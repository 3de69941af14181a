// Prints arguments whose meaning depends on other arguments.
#include "capture/decode/decode.h"
#include "capture/decode/decode_text.h"

#include <asm/ioctl.h>
#include <linux/futex.h>
#include <linux/mman.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <fcntl.h>

namespace incident::capture::tables {
extern const Set set_clone, set_protocol, set_so, set_tcp, set_ip, set_ipv6, set_fd_flags, set_seals, set_dnotify,
    set_ioctl;
} // namespace incident::capture::tables

namespace incident::capture::decode {

using tables::Shape;

namespace {

// clone(2): the low byte is the signal the parent gets, not a flag.
void append_clone_flags(std::string &out, std::uint64_t value) {
    const int exit_signal = static_cast<int>(value & 0xff);
    if (value & ~0xffull) {
        append_set(out, tables::set_clone, value & ~0xffull);
        if (!exit_signal)
            return;
        out += '|';
    }
    append_signal(out, exit_signal);
}

void append_value_or_number(std::string &out, const tables::Set &set, std::uint64_t value) {
    const std::string_view name = name_in(set, value);
    if (name.empty())
        append_number(out, static_cast<std::int32_t>(value));
    else
        out += name;
}

void append_protocol(std::string &out, std::uint64_t domain, std::uint64_t value) {
    if (domain == AF_INET || domain == AF_INET6)
        append_value_or_number(out, tables::set_protocol, value);
    else
        append_number(out, static_cast<std::int32_t>(value));
}

void append_sockopt(std::string &out, std::uint64_t level, std::uint64_t value) {
    static constexpr std::pair<std::uint64_t, const tables::Set *> options[] = {{SOL_SOCKET, &tables::set_so},
                                                                                {IPPROTO_TCP, &tables::set_tcp},
                                                                                {IPPROTO_IP, &tables::set_ip},
                                                                                {IPPROTO_IPV6, &tables::set_ipv6}};
    for (const auto &[of, set] : options)
        if (of == level)
            return append_value_or_number(out, *set, value);
    append_number(out, static_cast<std::int32_t>(value));
}

bool append_fcntl(std::string &out, std::uint64_t command, std::uint64_t value) {
    switch (command) {
    case F_GETFD:
    case F_GETFL:
    case F_GETOWN:
    case F_GETSIG:
    case F_GETLEASE:
    case F_GETPIPE_SZ:
    case F_GET_SEALS:
        return false;
    case F_DUPFD:
    case F_DUPFD_CLOEXEC:
    case F_SETOWN:
    case F_SETPIPE_SZ:
        append_number(out, static_cast<std::int32_t>(value));
        return true;
    case F_SETFD:
        append_set(out, tables::set_fd_flags, value);
        return true;
    case F_SETFL:
        append_set(out, tables::set_open_flags, value);
        return true;
    case F_ADD_SEALS:
        append_set(out, tables::set_seals, value);
        return true;
    case F_NOTIFY:
        append_set(out, tables::set_dnotify, value);
        return true;
    case F_SETSIG:
        append_signal(out, static_cast<std::int32_t>(value));
        return true;
    default:
        append_hex(out, value);
        return true;
    }
}

// A name, or the parts the number is made of (include/uapi/asm-generic/ioctl.h).
void append_ioctl(std::string &out, std::uint64_t value) {
    const auto command = static_cast<std::uint32_t>(value);
    const std::string_view name = name_in(tables::set_ioctl, command);
    if (!name.empty()) {
        out += name;
        return;
    }
    static constexpr std::string_view directions[] = {"_IOC_NONE", "_IOC_WRITE", "_IOC_READ", "_IOC_READ|_IOC_WRITE"};
    out.append("_IOC(").append(directions[_IOC_DIR(command) & 3]);
    for (const std::uint32_t part : {_IOC_TYPE(command), _IOC_NR(command), _IOC_SIZE(command)}) {
        out += ", ";
        append_hex(out, part);
    }
    out += ')';
}

// futex(2): which of the last three arguments an operation looks at.
bool append_futex(std::string &out, Shape shape, std::uint64_t operation, std::uint64_t value) {
    const std::uint64_t command = operation & FUTEX_CMD_MASK & 0xffffffff;
    const bool moves = command == FUTEX_REQUEUE || command == FUTEX_CMP_REQUEUE || command == FUTEX_WAKE_OP ||
                       command == FUTEX_CMP_REQUEUE_PI;
    const bool waits = command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET || command == FUTEX_LOCK_PI ||
                       command == FUTEX_LOCK_PI2 || command == FUTEX_WAIT_REQUEUE_PI;
    const bool bits = command == FUTEX_WAIT_BITSET || command == FUTEX_WAKE_BITSET;
    if ((shape == Shape::FutexVal2 && moves) ||
        (shape == Shape::FutexVal3 && moves && command != FUTEX_WAKE_OP && command != FUTEX_REQUEUE)) {
        append_number(out, static_cast<std::uint32_t>(value));
    } else if ((shape == Shape::FutexVal2 && waits) ||
               (shape == Shape::FutexUaddr2 && (moves || command == FUTEX_WAIT_REQUEUE_PI))) {
        value ? append_hex(out, value) : void(out += "NULL");
    } else if (shape == Shape::FutexVal3 && bits) {
        value == FUTEX_BITSET_MATCH_ANY ? void(out += "FUTEX_BITSET_MATCH_ANY") : append_hex(out, value);
    } else if (shape == Shape::FutexVal3 && command == FUTEX_WAKE_OP) {
        append_hex(out, value);
    } else {
        return false;
    }
    return true;
}

} // namespace

bool append_special(std::string &out, const Registers &registers, std::size_t index) {
    const std::uint64_t value = registers.value(index);
    const auto earlier = [&](std::size_t back) { return index >= back ? registers.value(index - back) : 0; };
    const Shape shape = registers.call.args[index].shape;
    switch (shape) {
    case Shape::CloneFlags:
        append_clone_flags(out, value);
        return true;
    case Shape::Protocol:
        append_protocol(out, earlier(2), value);
        return true;
    case Shape::Sockopt:
        append_sockopt(out, earlier(1), value);
        return true;
    case Shape::FcntlArg:
        return append_fcntl(out, earlier(1), value);
    case Shape::Ioctl:
        append_ioctl(out, value);
        return true;
    case Shape::FutexVal2:
        return append_futex(out, shape, earlier(2), value);
    case Shape::FutexUaddr2:
        return append_futex(out, shape, earlier(3), value);
    case Shape::FutexVal3:
        return append_futex(out, shape, earlier(4), value);
    case Shape::MremapNew:
        if (!(earlier(1) & MREMAP_FIXED))
            return false;
        append_hex(out, value);
        return true;
    default:
        append_hex(out, value);
        return true;
    }
}

} // namespace incident::capture::decode
