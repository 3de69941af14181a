// Renders a kernel stack.  Internal to capture/.
#pragma once

#include "capture/render/render.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <span>

namespace incident::capture {

// [{ip, symbol}], innermost first.  Frames that exist only because of the tracing are left out: our BPF programs and
// the functions through which the kernel calls them, down to the traced function.  If the breakpoint of a uprobe
// brought the thread into the kernel, no frame is left.
nlohmann::ordered_json kernel_stack_json(const RenderContext &context, std::span<const std::uint64_t> addresses);

} // namespace incident::capture
