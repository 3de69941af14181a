#include "rules/files/redaction.h"

#include "rules/text/escape.h"

#include <fmt/format.h>
#include <re2/re2.h>

namespace incident::rules {
namespace {

std::string hint_for(const RE2 &pattern) {
    if (pattern.error_code() == RE2::ErrorBadPerlOp)
        return "what stands before or behind cannot be looked at: let the pattern match it as well";
    if (pattern.error_code() == RE2::ErrorBadEscape)
        return "a pattern cannot refer back to a group; a letter that means itself has no '\\' before it";
    if (pattern.pattern().find('\\') != std::string::npos)
        return "in 'single quotes' a backslash needs no second one";
    return "";
}

} // namespace

std::optional<RedactionError> redaction_error(const std::string &pattern) {
    if (pattern.empty())
        return RedactionError{"the pattern is empty", ""};
    RE2::Options options(RE2::Latin1); // as it is used: capture/render/render_redact.cpp
    options.set_log_errors(false);
    const RE2 compiled(pattern, options);
    if (!compiled.ok())
        return RedactionError{
            fmt::format("{} is not a regular expression: {}", quote(pattern), terminal_safe(compiled.error())),
            hint_for(compiled)};
    if (RE2::FullMatch("", compiled))
        return RedactionError{fmt::format("{} also matches the empty text, so everywhere", quote(pattern)),
                              "make something in it required: '+' instead of '*'"};
    return std::nullopt;
}

} // namespace incident::rules
