#include "rules/files/redaction.h"

#include "rules/text/escape.h"

#include <fmt/format.h>
#include <regex>

namespace incident::rules {
namespace {

// std::regex recurses over nested groups.
constexpr std::size_t longest_expression = 1024;

// libstdc++'s texts differ between releases.
const char *reason(std::regex_constants::error_type code) {
    using namespace std::regex_constants;
    if (code == error_paren)
        return "parentheses do not match, or nothing stands before a '*', '+' or '?'";
    if (code == error_brack)
        return "a '[' is not closed";
    if (code == error_brace)
        return "a '{' is not closed";
    if (code == error_badbrace)
        return "what stands in '{}' is not a count";
    if (code == error_range)
        return "a range in '[]' is wrong or not closed";
    if (code == error_escape)
        return "unknown escape or a '\\' at the end";
    if (code == error_backref)
        return "it refers to a group it does not have";
    if (code == error_ctype)
        return "unknown character class";
    if (code == error_badrepeat)
        return "nothing stands before '*', '+', '?' or '{'";
    if (code == error_complexity || code == error_space || code == error_stack)
        return "it is too complex";
    return "it is malformed";
}

} // namespace

std::optional<RedactionError> redaction_error(const std::string &pattern) {
    if (pattern.empty())
        return RedactionError{"the pattern is empty", ""};
    if (pattern.size() > longest_expression)
        return RedactionError{fmt::format("the pattern is longer than {} bytes", longest_expression), ""};
    try {
        const std::regex compiled(pattern, std::regex::ECMAScript);
        if (std::regex_match("", compiled))
            return RedactionError{fmt::format("{} also matches the empty text, so everywhere", quote(pattern)),
                                  "make something in it required: '+' instead of '*'"};
    } catch (const std::regex_error &e) {
        return RedactionError{
            fmt::format("{} is not a regular expression: {}", quote(pattern), reason(e.code())),
            pattern.find('\\') == std::string::npos ? "" : "in 'single quotes' a backslash needs no second one"};
    }
    return std::nullopt;
}

} // namespace incident::rules
