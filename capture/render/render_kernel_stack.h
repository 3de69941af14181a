// A kernel stack as a bundle shows it.  Internal to capture/.
#pragma once

#include "capture/render/render.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <span>

namespace incident::capture {

// [{ip, symbol}], innermost first.  Without what stands on top of it only because it was looked at: our own BPF
// programs and what the kernel calls them through, down to the function that was traced.  Where a breakpoint of a
// uprobe brought the thread into the kernel, nothing is left.
nlohmann::ordered_json kernel_stack_json(const RenderContext &context, std::span<const std::uint64_t> addresses);

} // namespace incident::capture
