#include "capture/decode/syscalls.h"

#include "capture/decode/decode.h"
#include "capture/decode/decode_text.h"

#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <set>

namespace incident::capture {

namespace tables {
extern const Set set_errno, set_signal, set_si_code, set_code_ill, set_code_fpe, set_code_segv, set_code_bus,
    set_code_trap, set_code_cld, set_code_poll, set_code_sys;
} // namespace tables

namespace {

using decode::call_of;
using tables::Shape;

// What glibc gives to programs; 32 and 33 it keeps for itself (signal(7)).
constexpr int user_sigrtmin = 34, last_signal = 64;

constexpr std::pair<int, const tables::Set *> code_sets[] = {
    {SIGILL, &tables::set_code_ill}, {SIGFPE, &tables::set_code_fpe},   {SIGSEGV, &tables::set_code_segv},
    {SIGBUS, &tables::set_code_bus}, {SIGTRAP, &tables::set_code_trap}, {SIGCHLD, &tables::set_code_cld},
    {SIGIO, &tables::set_code_poll}, {SIGSYS, &tables::set_code_sys}};

bool duplicates(const decode::Registers &registers) {
    for (std::size_t i = 1; i < registers.call.count; ++i)
        if (registers.call.args[i].shape == Shape::FcntlArg)
            return registers.value(i - 1) == F_DUPFD || registers.value(i - 1) == F_DUPFD_CLOEXEC;
    return false;
}

// The descriptor a call works on: its first plain one.
int descriptor_of(const decode::Registers &registers) {
    for (std::size_t i = 0; i < registers.call.count; ++i)
        if (registers.call.args[i].shape == Shape::Fd)
            return static_cast<std::int32_t>(registers.value(i));
    return -1;
}

} // namespace

std::string syscall_name(int nr, bool compat) {
    // of the x32 ABI, whose first 512 numbers are those of x86-64 (arch/x86/entry/syscalls/syscall_64.tbl)
    constexpr int x32_bit = 0x40000000; // __X32_SYSCALL_BIT
    if (!compat && nr >= x32_bit)
        return "x32:" +
               (nr - x32_bit < 512 ? syscall_name(nr - x32_bit, false) : "syscall_" + std::to_string(nr - x32_bit));
    const tables::Call &call = call_of(nr, compat);
    return call.name.empty() ? "syscall_" + std::to_string(nr) : std::string(call.name);
}

const std::vector<std::string> &syscall_names() {
    static const std::vector<std::string> names = [] {
        constexpr int numbers = 1024; // far beyond both tables
        std::set<std::string> all;
        for (int compat = 0; compat < 2; ++compat)
            for (int nr = 0; nr < numbers; ++nr)
                if (const tables::Call &call = call_of(nr, compat != 0); !call.name.empty())
                    all.emplace(call.name);
        return std::vector<std::string>(all.begin(), all.end());
    }();
    return names;
}

std::string errno_name(int error) {
    std::string_view name = error > 0 ? decode::name_in(tables::set_errno, error) : std::string_view{};
    for (const tables::Named &restart : tables::restarts)
        if (error > 0 && restart.value == static_cast<std::uint64_t>(error))
            name = restart.name;
    return name.empty() ? "errno " + std::to_string(error) : std::string(name);
}

std::string signal_name(int number) {
    const std::string_view name = number > 0 ? decode::name_in(tables::set_signal, number) : std::string_view{};
    if (!name.empty())
        return std::string(name);
    if (number >= user_sigrtmin && number <= last_signal)
        return number == user_sigrtmin ? "SIGRTMIN" : "SIGRTMIN+" + std::to_string(number - user_sigrtmin);
    return "SIG" + std::to_string(number);
}

std::string signal_code_name(int number, int code) {
    const auto bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(code));
    const auto *const own = std::ranges::find(code_sets, number, &std::pair<int, const tables::Set *>::first);
    std::string_view name =
        own != std::end(code_sets) && code > 0 ? decode::name_in(*own->second, bits) : std::string_view{};
    if (name.empty())
        name = decode::name_in(tables::set_si_code, bits);
    return name.empty() ? "code " + std::to_string(code) : std::string(name);
}

int signal_number(std::string_view name) {
    if (name.starts_with("SIG"))
        name.remove_prefix(3);
    for (const tables::Named &named : tables::set_signal.names)
        if (named.name.substr(3) == name)
            return static_cast<int>(named.value);
    // other names of the same numbers (asm/signal.h, asm-generic/signal.h)
    if (name == "IOT")
        return SIGIOT;
    if (name == "POLL")
        return SIGPOLL;
    const bool from_last = name.starts_with("RTMAX");
    if (!name.starts_with("RTMIN") && !from_last)
        return 0;
    name.remove_prefix(5);
    int offset = 0;
    if (!name.empty()) {
        const char *const end = name.data() + name.size();
        if (name.front() != (from_last ? '-' : '+') || name.size() == 1 || name[1] < '0' || name[1] > '9')
            return 0;
        const auto [stop, error] = std::from_chars(name.data() + 1, end, offset);
        if (error != std::errc{} || stop != end || offset > last_signal - user_sigrtmin)
            return 0;
    }
    return from_last ? last_signal - offset : user_sigrtmin + offset;
}

DecodedCall decode_syscall(int nr, bool compat, const std::uint64_t args[6], const std::string *path) {
    const tables::Call &call = call_of(nr, compat);
    DecodedCall decoded;
    if (call.name.empty())
        decoded.name = syscall_name(nr, compat);
    else
        decoded.name = call.name;
    decoded.returns_pointer = call.returns == tables::Returns::Pointer;
    if (!call.known) {
        // newer than the headers of the build, or removed long ago
        for (std::size_t i = 0; i < 6; ++i)
            decoded.args.push_back(hex_text(compat ? args[i] & 0xffffffff : args[i]));
        return decoded;
    }
    const decode::Registers registers{call, args, compat};
    decoded.args.reserve(call.count);
    for (std::size_t i = 0; i < call.count; ++i) {
        std::string &text = decoded.args.emplace_back();
        if (!decode::append_argument(text, registers, i, path))
            decoded.args.pop_back();
    }
    decoded.fd = descriptor_of(registers);
    decoded.returns_fd = call.returns == tables::Returns::Fd || duplicates(registers);
    return decoded;
}

std::uint8_t path_argument(int nr, bool compat, bool all) {
    const tables::Call &call = call_of(nr, compat);
    const bool wanted = all || call.kind == tables::Class::Open || call.kind == tables::Class::Exec;
    return wanted ? call.path : 0;
}

unsigned argument_registers(int nr, bool compat) {
    const tables::Call &call = call_of(nr, compat);
    if (!call.known)
        return SYSCALL_ARGS;
    unsigned registers = 0;
    for (std::size_t i = 0; i < call.count && i < call.args.size(); ++i)
        registers = std::max(registers, call.args[i].reg + (call.args[i].wide ? 2u : 1u));
    return registers;
}

bool returns_descriptor(int nr, bool compat) {
    return call_of(nr, compat).returns == tables::Returns::Fd;
}

bool is_memory_call(int nr, bool compat) {
    return call_of(nr, compat).kind == tables::Class::Memory;
}

bool is_open_call(int nr, bool compat) {
    return call_of(nr, compat).kind == tables::Class::Open;
}

} // namespace incident::capture
