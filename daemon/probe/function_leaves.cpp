#include "daemon/probe/function_leaves.h"

#include "daemon/probe/x86_instruction.h"

#include <fmt/format.h>

#include <cstring>

namespace incident::daemon {

namespace {

constexpr std::size_t returns_max = 64; // ret instructions probed of one function

} // namespace

Result<Leaves> find_leaves(std::span<const std::uint8_t> code) {
    Leaves leaves;
    for (std::uint64_t at = 0; at < code.size();) {
        const auto rest = code.subspan(at);
        const std::size_t length = instruction_length(rest);
        if (length == 0)
            return fail(fmt::format("what stands at +{:#x} is not a known instruction", at));
        const std::size_t prefix = rest[0] == 0xf3 || rest[0] == 0xf2 ? 1 : 0; // "rep ret", "bnd ret", "bnd jmp"
        const std::uint8_t op = rest[prefix];
        if (op == 0xc3 || op == 0xc2)
            leaves.returns.push_back(at);
        std::int64_t distance = 0;
        bool jump = false;
        if (op == 0xe9 && length >= prefix + 5) {
            std::int32_t far = 0;
            std::memcpy(&far, rest.data() + prefix + 1, sizeof(far));
            distance = far;
            jump = true;
        } else if (op == 0xeb && length >= prefix + 2) {
            distance = static_cast<std::int8_t>(rest[prefix + 1]);
            jump = true;
        }
        const auto target = static_cast<std::int64_t>(at + length) + distance;
        leaves.jumps_out |= jump && (target < 0 || target >= static_cast<std::int64_t>(code.size()));
        at += length;
    }
    if (leaves.returns.empty())
        return fail("it has no ret instruction");
    if (leaves.returns.size() > returns_max)
        return fail(fmt::format("it has {} ret instructions, more than {}", leaves.returns.size(), returns_max));
    return leaves;
}

} // namespace incident::daemon
