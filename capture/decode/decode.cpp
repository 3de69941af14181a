#include "capture/decode/decode.h"

#include "capture/decode/decode_text.h"
#include "capture/decode/syscalls.h"

#include <fcntl.h>

#include <algorithm>
#include <array>

namespace incident::capture::tables {
extern const Set set_file_type;
}

namespace incident::capture::decode {

using tables::Named;
using tables::Set;
using tables::Shape;

const tables::Call &call_of(int nr, bool compat) {
    static constexpr tables::Call none{};
    const auto &calls = compat ? tables::calls32 : tables::calls64;
    return nr >= 0 && static_cast<std::size_t>(nr) < calls.size() ? calls[nr] : none;
}

std::uint64_t Registers::value(std::size_t index) const {
    const tables::Argument &argument = call.args[index];
    const std::uint64_t low = values[argument.reg];
    if (argument.wide)
        return (low & 0xffffffff) | values[argument.reg + 1] << 32;
    return argument.bits >= 64 ? low : low & ((1ull << argument.bits) - 1);
}

std::int64_t Registers::signed_value(std::size_t index) const {
    const std::uint64_t bits = value(index);
    return call.args[index].bits == 32 ? static_cast<std::int32_t>(bits) : static_cast<std::int64_t>(bits);
}

std::string_view name_in(const Set &set, std::uint64_t value) {
    const auto find = [&](std::uint64_t wanted) -> std::string_view {
        const auto it = std::ranges::lower_bound(set.names, wanted, {}, &Named::value);
        return it != set.names.end() && it->value == wanted ? it->name : std::string_view{};
    };
    const std::string_view name = find(value);
    // -1 in an int argument is 0xffffffff in the register and ~0 in the table
    return name.empty() && value >> 31 == 1 ? find(value | 0xffffffff00000000) : name;
}

void append_set(std::string &out, const Set &set, std::uint64_t value) {
    if (!set.flags) {
        const std::string_view name = name_in(set, value);
        if (name.empty())
            append_hex(out, value);
        else
            out += name;
        return;
    }
    const std::size_t start = out.size();
    const auto add = [&](std::string_view name) {
        if (out.size() > start)
            out += '|';
        out += name;
    };
    // the part that is a value: O_RDONLY, MAP_PRIVATE, SOCK_STREAM
    const std::uint64_t low = value & set.mask;
    std::uint64_t rest = value & ~set.mask;
    const std::string_view low_name = set.mask ? name_in(set, low) : std::string_view{};
    if (!low_name.empty())
        add(low_name);
    else
        rest |= low;

    // all names whose bits are set, but none that is part of another one (O_SYNC holds O_DSYNC)
    std::array<const Named *, 64> fitting;
    std::size_t count = 0;
    for (const Named &named : set.names)
        if (named.value & ~set.mask && (named.value & value & ~set.mask) == named.value && count < fitting.size())
            fitting[count++] = &named;
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < count; ++i) {
        bool inside = false;
        for (std::size_t j = 0; j < count && !inside; ++j)
            inside = j != i && (fitting[i]->value & fitting[j]->value) == fitting[i]->value &&
                     (fitting[i]->value != fitting[j]->value || j < i);
        seen |= fitting[i]->value;
        if (!inside)
            add(fitting[i]->name);
    }
    if (rest & ~seen) {
        add("");
        append_hex(out, rest & ~seen);
    } else if (out.size() == start) {
        const std::string_view zero = set.mask ? std::string_view{} : name_in(set, 0);
        out += zero.empty() ? "0" : zero; // PROT_NONE, F_OK
    }
}

void append_signal(std::string &out, int number) {
    if (number >= 1 && number <= 64)
        out += signal_name(number);
    else
        append_number(out, number);
}

namespace {

void append_pointer(std::string &out, std::uint64_t value) {
    if (value)
        append_hex(out, value);
    else
        out += "NULL";
}

// As strace: 0644, 000, 07 as 007
void append_octal(std::string &out, std::uint64_t value) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, value, 8).ptr;
    out.append(end - digits < 2 ? "00" : "0").append(digits, end);
}

void append_mode(std::string &out, std::uint64_t value) {
    constexpr std::uint64_t type = 0170000; // S_IFMT
    if (value & type) {
        append_set(out, tables::set_file_type, value & type);
        out += '|';
    }
    append_octal(out, value & ~type);
}

// The encoding of an unsigned 32-bit dev_t: include/linux/kdev_t.h, new_decode_dev().
void append_device(std::string &out, std::uint64_t value) {
    out += "makedev(";
    append_hex(out, value >> 8 & 0xfff);
    out += ", ";
    append_hex(out, (value & 0xff) | (value >> 12 & 0xfff00));
    out += ')';
}

} // namespace

bool append_argument(std::string &out, const Registers &registers, std::size_t index, const std::string *path) {
    const tables::Argument &argument = registers.call.args[index];
    const std::uint64_t value = registers.value(index);
    switch (argument.shape) {
    case Shape::Hex:
        append_hex(out, value);
        return true;
    case Shape::Ptr:
        append_pointer(out, value);
        return true;
    case Shape::Dirfd:
        if (static_cast<std::int32_t>(value) == AT_FDCWD) {
            out += "AT_FDCWD";
            return true;
        }
        [[fallthrough]];
    case Shape::Fd:
        append_number(out, static_cast<std::int32_t>(value));
        return true;
    case Shape::Path:
        if (path && argument.reg + 1 == registers.call.path)
            append_quoted(out, *path);
        else
            append_pointer(out, value);
        return true;
    case Shape::Int:
        append_number(out, static_cast<std::int32_t>(value));
        return true;
    case Shape::Uint:
        append_number(out, static_cast<std::uint32_t>(value));
        return true;
    case Shape::Long:
        append_number(out, registers.signed_value(index));
        return true;
    case Shape::Ulong:
        append_number(out, value);
        return true;
    case Shape::Octal:
        append_octal(out, value);
        return true;
    case Shape::Mode:
        append_mode(out, value);
        return true;
    case Shape::Dev:
        append_device(out, value);
        return true;
    case Shape::Signal:
        append_signal(out, static_cast<std::int32_t>(value));
        return true;
    case Shape::Set:
        append_set(out, *argument.set, value);
        return true;
    case Shape::OpenMode: {
        // open's mode counts only where a file may be made; the flags stand before it
        const std::uint64_t flags = index ? registers.value(index - 1) : 0;
        if (!(flags & O_CREAT) && (flags & O_TMPFILE) != O_TMPFILE)
            return false;
        append_octal(out, value);
        return true;
    }
    default:
        return append_special(out, registers, index);
    }
}

} // namespace incident::capture::decode
