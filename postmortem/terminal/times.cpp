#include "postmortem/terminal/times.h"

#include <array>
#include <charconv>
#include <cmath>
#include <ctime>
#include <fmt/format.h>

namespace incident::postmortem {

namespace {

constexpr std::int64_t second_ns = 1'000'000'000;

struct Unit {
    std::string_view name;
    std::int64_t ns;
};
constexpr std::array<Unit, 8> units{{{"ns", 1},
                                     {"us", 1'000},
                                     {"µs", 1'000},
                                     {"ms", 1'000'000},
                                     {"s", second_ns},
                                     {"m", 60 * second_ns},
                                     {"h", 3600 * second_ns},
                                     {"d", 86400 * second_ns}}};

Error not_a_duration(std::string_view text) {
    return {fmt::format("'{}' is not a duration such as 250ms, 30s or 1h30m", text), 0};
}

bool skip(std::string_view &text, char c) {
    if (text.empty() || text[0] != c)
        return false;
    text.remove_prefix(1);
    return true;
}

// What the format has (strptime(3)), a fraction of a second, and "Z" or the offset from UTC.
std::optional<std::int64_t> parse_utc(const std::string &text, const char *format) {
    std::tm when{};
    const char *at = strptime(text.c_str(), format, &when);
    std::int64_t fraction = 0, scale = second_ns;
    if (at && *at == '.')
        for (++at; *at >= '0' && *at <= '9'; ++at)
            fraction += (*at - '0') * (scale /= 10);
    at = at ? strptime(at, "%z", &when) : nullptr;
    if (!at || at != text.data() + text.size() || when.tm_year < 70 || when.tm_year > 350)
        return std::nullopt;
    const std::int64_t offset = when.tm_gmtoff; // timegm() sets it
    return (static_cast<std::int64_t>(timegm(&when)) - offset) * second_ns + fraction;
}

std::optional<std::int64_t> parse_calendar(const std::string &text, std::int64_t now_ns) {
    const std::time_t now = now_ns / second_ns;
    for (const char *format : {"%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d",
                               "%H:%M:%S", "%H:%M"}) {
        std::tm when{};
        localtime_r(&now, &when);
        when.tm_hour = when.tm_min = when.tm_sec = 0;
        when.tm_isdst = -1;
        const char *end = strptime(text.c_str(), format, &when);
        if (!end || *end != '\0')
            continue;
        if (const std::time_t seconds = mktime(&when); seconds != -1)
            return static_cast<std::int64_t>(seconds) * second_ns;
    }
    return std::nullopt;
}

// "2h ago", as people say it.
std::string_view without_ago(std::string_view text) {
    constexpr std::string_view ago = " ago";
    if (text.ends_with(ago))
        text.remove_suffix(ago.size());
    return text;
}

} // namespace

Result<std::int64_t> parse_duration(std::string_view text) {
    std::string_view rest = text;
    const bool negative = skip(rest, '-');
    double total = 0;
    bool any = false;
    while (!rest.empty()) {
        double number = 0;
        const auto [end, error] =
            std::from_chars(rest.data(), rest.data() + rest.size(), number, std::chars_format::fixed);
        if (error != std::errc{} || rest[0] == '-' || !std::isfinite(number))
            return fail(not_a_duration(text));
        rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
        const std::size_t length = std::min(rest.find_first_of("0123456789."), rest.size());
        const std::string_view name = rest.substr(0, length);
        const Unit *unit = nullptr;
        for (const Unit &candidate : units)
            if (candidate.name == name)
                unit = &candidate;
        if (!unit && !(name.empty() && !any))
            return fail(not_a_duration(text));
        total += number * static_cast<double>(unit ? unit->ns : second_ns);
        rest.remove_prefix(length);
        any = true;
    }
    if (!any || total > 9e18)
        return fail(not_a_duration(text));
    return static_cast<std::int64_t>(negative ? -total : total);
}

Result<std::int64_t> parse_time(std::string_view text, std::int64_t now_ns) {
    if (text.starts_with('@')) {
        if (const auto seconds = parse_duration(text.substr(1)))
            return *seconds;
    } else if (text == "today" || text == "yesterday") {
        const std::string midnight = local_time(now_ns - (text == "today" ? 0 : 86400 * second_ns)).substr(0, 10);
        if (const auto instant = parse_calendar(midnight, now_ns))
            return *instant;
    } else if (const auto duration = parse_duration(without_ago(text))) {
        return now_ns - std::abs(*duration);
    } else if (const auto instant = parse_calendar(std::string(text), now_ns)) {
        return *instant;
    }
    return fail(fmt::format("'{}' is neither a time such as \"2026-11-21 15:04\" nor a duration such as 2h", text));
}

std::optional<std::int64_t> parse_name_time(std::string_view text) {
    return parse_utc(std::string(text), "%Y%m%dT%H%M%S");
}

std::optional<std::int64_t> parse_iso_time(std::string_view text) {
    return parse_utc(std::string(text), "%Y-%m-%dT%H:%M:%S");
}

std::string local_time(std::int64_t realtime_ns) {
    const std::time_t seconds = realtime_ns / second_ns;
    std::tm when{};
    localtime_r(&seconds, &when);
    char text[64];
    const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &when);
    return {text, length};
}

std::string span_text(std::uint64_t ns) {
    const double seconds = static_cast<double>(ns) / second_ns;
    if (ns < 1'000)
        return fmt::format("{} ns", ns);
    if (ns < 1'000'000)
        return fmt::format("{:.3g} µs", seconds * 1e6);
    if (ns < static_cast<std::uint64_t>(second_ns))
        return fmt::format("{:.3g} ms", seconds * 1e3);
    if (seconds < 60)
        return fmt::format("{:.3g} s", seconds);
    const auto whole = ns / second_ns;
    if (whole < 3600)
        return fmt::format("{}m {}s", whole / 60, whole % 60);
    if (whole < 86400)
        return fmt::format("{}h {}m", whole / 3600, whole / 60 % 60);
    return fmt::format("{}d {}h", whole / 86400, whole / 3600 % 24);
}

std::string size_text(std::uint64_t bytes) {
    if (bytes < 1024)
        return fmt::format("{} B", bytes);
    double value = static_cast<double>(bytes);
    std::size_t unit = 0;
    static constexpr std::array<const char *, 5> names{"KiB", "MiB", "GiB", "TiB", "PiB"};
    for (value /= 1024; value >= 1023.95 && unit + 1 < names.size(); ++unit)
        value /= 1024;
    return fmt::format("{:.1f} {}", value, names[unit]);
}

std::int64_t now_realtime_ns() {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<std::int64_t>(now.tv_sec) * second_ns + now.tv_nsec;
}

} // namespace incident::postmortem
