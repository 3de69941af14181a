#include "rules/files/parse.h"

#include <algorithm>

namespace incident::rules {
namespace {

bool no_errors(const std::vector<Diagnostic> &diagnostics) {
    return std::none_of(diagnostics.begin(), diagnostics.end(),
                        [](const Diagnostic &d) { return d.severity == Severity::Error; });
}

} // namespace

bool ParsedRules::ok() const {
    return no_errors(diagnostics);
}
bool ParsedConfig::ok() const {
    return no_errors(diagnostics);
}

} // namespace incident::rules
