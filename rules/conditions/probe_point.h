// Parses probe points: "uprobe:BINARY:SYMBOL[+OFFSET]", "usdt:BINARY:PROVIDER:NAME".
#pragma once

#include "rules/model/rule.h"

#include <expected>

namespace incident::rules {

struct ProbeError {
    std::size_t at = 0, length = 1; // bytes within the text
    std::string message, hint;
};

std::expected<ProbePoint, ProbeError> parse_probe(std::string_view text);

extern const std::string probe_forms; // "probes are written …"

} // namespace incident::rules
