// Renders how complete the bundle is: counts, losses, and what failed.  Internal to capture/.
#pragma once

#include "capture/render/render.h"
#include "capture/render/render_redact.h"

#include <nlohmann/json_fwd.hpp>

namespace incident::capture {

nlohmann::ordered_json quality_json(const RenderContext &context, const Redactor &redactor);

} // namespace incident::capture
