#include "capture/bundle/bundle_name.h"

#include "capture/bundle/bundle.h"
#include "capture/os/number.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

namespace incident::capture {

namespace {

constexpr std::string_view TIME_SHAPE = "00000000T000000.000Z"; // 0 stands for any digit
// With these a name and its prefix stay below NAME_MAX (255).
constexpr std::size_t RULE_MAX = 100, COMM_MAX = 64, SHORT_ID_MAX = 32;
constexpr std::size_t PATH_COMPONENTS = 4, COMPONENT_MAX = 128;

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
bool is_alnum(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_name_char(char c) {
    return is_alnum(c) || c == '.' || c == '_' || c == '-';
}

std::string reduced(std::string_view text, std::size_t max, bool dashes) {
    std::string out(text.substr(0, max));
    for (char &c : out)
        if (!is_name_char(c) || (c == '-' && !dashes))
            c = '_';
    if (out.empty() || out.front() == '.')
        out.insert(out.begin(), '_');
    return out;
}

} // namespace

std::string bundle_name(WallTime time, std::string_view rule, std::string_view comm, std::uint32_t pid,
                        std::string_view short_id) {
    const auto seconds = static_cast<std::time_t>(time.ns / 1'000'000'000);
    std::tm utc{};
    ::gmtime_r(&seconds, &utc); // 64 bits of ns end in 2554: always four digits of year
    return fmt::format("{:04}{:02}{:02}T{:02}{:02}{:02}.{:03}Z-{}-{}-{}-{}", utc.tm_year + 1900, utc.tm_mon + 1,
                       utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, time.ns / 1'000'000 % 1000,
                       reduced(rule, RULE_MAX, true), reduced(comm, COMM_MAX, true), pid,
                       reduced(short_id, SHORT_ID_MAX, false));
}

std::optional<BundleName> parse_bundle_name(std::string_view name) {
    if (name.size() > 240 || name.size() <= TIME_SHAPE.size() || !std::ranges::all_of(name, is_name_char))
        return std::nullopt;
    for (std::size_t i = 0; i < TIME_SHAPE.size(); ++i)
        if (TIME_SHAPE[i] == '0' ? !is_digit(name[i]) : name[i] != TIME_SHAPE[i])
            return std::nullopt;
    BundleName parts;
    parts.time = name.substr(0, TIME_SHAPE.size());
    std::string_view rest = name.substr(TIME_SHAPE.size());
    const std::size_t id_dash = rest.rfind('-');
    if (id_dash == std::string_view::npos || id_dash == 0 || id_dash + 1 == rest.size())
        return std::nullopt;
    parts.short_id = rest.substr(id_dash + 1);
    rest = rest.substr(0, id_dash);
    const std::size_t pid_dash = rest.rfind('-');
    if (pid_dash == 0 || rest.front() != '-')
        return std::nullopt;
    if (!whole_number(rest.substr(pid_dash + 1), parts.pid))
        return std::nullopt;
    parts.what = rest.substr(1, pid_dash - 1);
    // "<rule>-<comm>", neither of them empty.
    if (parts.what.size() < 3 || parts.what.substr(1, parts.what.size() - 2).find('-') == std::string_view::npos)
        return std::nullopt;
    return parts;
}

bool valid_bundle_path(std::string_view path) {
    for (std::size_t components = 1;; ++components) {
        const std::size_t slash = path.find('/');
        const std::string_view part = path.substr(0, slash);
        if (part.empty() || part.size() > COMPONENT_MAX || part.front() == '.' || components > PATH_COMPONENTS ||
            !std::ranges::all_of(part, is_name_char))
            return false;
        if (slash == std::string_view::npos)
            return true;
        path.remove_prefix(slash + 1);
    }
}

} // namespace incident::capture
