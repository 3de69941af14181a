#include "capture/render/render_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace incident::capture {

namespace {

struct LimitName {
    const char *name, *unit;
};

// By RLIMIT_CPU and so on: lnames in fs/proc/base.c.
constexpr std::array<LimitName, LIMITS> limit_names{{
    {"Max cpu time", "seconds"},
    {"Max file size", "bytes"},
    {"Max data size", "bytes"},
    {"Max stack size", "bytes"},
    {"Max core file size", "bytes"},
    {"Max resident set", "bytes"},
    {"Max processes", "processes"},
    {"Max open files", "files"},
    {"Max locked memory", "bytes"},
    {"Max address space", "bytes"},
    {"Max file locks", "locks"},
    {"Max pending signals", "signals"},
    {"Max msgqueue size", "bytes"},
    {"Max nice priority", ""},
    {"Max realtime priority", ""},
    {"Max realtime timeout", "us"},
}};

std::string value_text(std::uint64_t value) {
    constexpr std::uint64_t infinity = ~0ull; // RLIM_INFINITY
    return value == infinity ? "unlimited" : fmt::to_string(value);
}

} // namespace

std::string limits_text(const bpf::death_event &event) {
    const auto set = [](const bpf::limit &limit) { return limit.soft != 0 || limit.hard != 0; };
    if (std::ranges::none_of(event.limits, set))
        return "";
    std::string text = fmt::format("{:<25} {:<20} {:<20} {:<10}\n", "Limit", "Soft Limit", "Hard Limit", "Units");
    for (std::size_t i = 0; i < limit_names.size(); ++i) {
        fmt::format_to(std::back_inserter(text), "{:<25} {:<20} {:<20} ", limit_names[i].name,
                       value_text(event.limits[i].soft), value_text(event.limits[i].hard));
        if (*limit_names[i].unit)
            fmt::format_to(std::back_inserter(text), "{:<10}", limit_names[i].unit);
        text += '\n';
    }
    return text;
}

} // namespace incident::capture
