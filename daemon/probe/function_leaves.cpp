#include "daemon/probe/function_leaves.h"

#include "capture/decode/x86_instruction.h"

#include <fmt/format.h>

namespace incident::daemon {

namespace {

constexpr std::size_t returns_max = 64; // ret instructions probed of one function

} // namespace

Result<Leaves> find_leaves(std::span<const std::uint8_t> code) {
    Leaves leaves;
    for (std::uint64_t at = 0; at < code.size();) {
        const auto instruction = capture::decode_x86(code.subspan(at));
        if (!instruction)
            return fail(fmt::format("what stands at +{:#x} is not a known instruction", at));
        if (instruction->mnemonic == ZYDIS_MNEMONIC_RET)
            leaves.returns.push_back(at);
        at += instruction->length;
        const auto distance = instruction->distance();
        leaves.jumps_out |= instruction->mnemonic == ZYDIS_MNEMONIC_JMP && distance &&
                            at + static_cast<std::uint64_t>(*distance) >= code.size(); // also what is below 0
    }
    if (leaves.returns.empty())
        return fail("it has no ret instruction");
    if (leaves.returns.size() > returns_max)
        return fail(fmt::format("it has {} ret instructions, more than {}", leaves.returns.size(), returns_max));
    return leaves;
}

} // namespace incident::daemon
