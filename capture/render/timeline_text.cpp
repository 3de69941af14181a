#include "capture/render/timeline_text.h"

#include "capture/decode/decode_text.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>

namespace incident::capture {

namespace {

using Line = simdjson::dom::object;

// Members by type: what is absent or of another type reads as nothing.
template <typename T> std::optional<T> member_of(Line line, std::string_view key) {
    T value;
    return line[key].get(value) ? std::nullopt : std::optional(value);
}

constexpr auto line_number = member_of<std::int64_t>;

std::string shown(Line line, std::string_view key) {
    return terminal_text(member_of<std::string_view>(line, key).value_or(""));
}

std::string bytes_text(std::int64_t bytes) {
    const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (std::fabs(value) >= 1024 && unit + 1 < std::size(units)) {
        value /= 1024;
        ++unit;
    }
    const int after = unit && std::fabs(value) < 99.95 ? 1 : 0;
    return fmt::format("{:.{}f} {}", value, after, units[unit]);
}

// The arguments, the one that is the call's descriptor as 3</etc/x>.
std::string arguments_text(Line line) {
    const auto args = member_of<simdjson::dom::array>(line, "args");
    if (!args)
        return {};
    const auto fd = line_number(line, "fd");
    std::string fd_path = shown(line, "fd_path"), text;
    for (const simdjson::dom::element argument : *args) {
        if (!text.empty())
            text += ", ";
        std::string_view written;
        const std::string one = argument.get(written) ? "?" : terminal_text(written);
        text += one;
        if (!fd_path.empty() && fd && one == std::to_string(*fd)) {
            text += '<' + fd_path + '>';
            fd_path.clear();
        }
    }
    return text;
}

std::string memory_text(Line line) {
    const auto memory = member_of<Line>(line, "memory");
    std::string text;
    if (!memory)
        return text;
    if (const auto delta = line_number(*memory, "delta"); delta && *delta)
        text += fmt::format(" {}{}", *delta > 0 ? "+" : "", bytes_text(*delta));
    if (const auto rss = line_number(*memory, "rss"))
        text += fmt::format("{} rss {}", text.empty() ? "" : ",", bytes_text(*rss));
    return text.empty() ? text : " {" + text.substr(1) + "}";
}

std::string note_text(Line line) {
    const std::string note = shown(line, "note");
    return note.empty() ? note : " (" + note + ")";
}

std::string call_text(Line line) {
    std::string text = shown(line, "name");
    text += '(' + arguments_text(line) + ')';
    const auto duration = line_number(line, "duration_ns");
    if (member_of<bool>(line, "in_flight").value_or(false))
        return text + " = ? <in flight>" + note_text(line);
    if (const auto error = shown(line, "error"); !error.empty())
        text += " = -1 " + error;
    else if (const auto pointer = shown(line, "ret_text"); !pointer.empty())
        text += " = " + pointer;
    else if (const auto ret = line_number(line, "ret"))
        text += fmt::format(" = {}", *ret);
    else
        text += " = ?";
    if (duration)
        text += " <" + duration_text(*duration) + ">";
    if (const auto why = shown(line, "path_error"); !why.empty())
        text += " (path " + why + ")";
    return text + memory_text(line) + note_text(line);
}

std::string signal_text(Line line) {
    const std::string phase = shown(line, "phase");
    std::string text = fmt::format("--- {} {} {{{}", shown(line, "name"), phase, shown(line, "code_name"));
    if (const auto address = shown(line, "address"); !address.empty())
        text += ", address " + address;
    if (const auto sender = member_of<Line>(line, "sender"))
        if (const auto pid = line_number(*sender, "pid"))
            text += fmt::format(", from {}[{}]", shown(*sender, "comm"), *pid);
    if (const auto outcome = shown(line, phase == "delivered" ? "disposition" : "result"); !outcome.empty())
        text += ", " + outcome;
    return text + "} ---";
}

struct Unit {
    double ns;
    const char *name;
};
constexpr Unit units[] = {{1, "ns"},     {1e3, "µs"},   {1e6, "ms"},   {1e9, "s"},
                          {60e9, "min"}, {3600e9, "h"}, {86400e9, "d"}};

// digits significant ones, in the largest unit that leaves something before the point
std::string scaled(double ns, int digits, bool sign) {
    std::size_t unit = 0;
    const double magnitude = std::fabs(ns);
    const double almost = 1 - 0.5 * std::pow(10, -digits); // 999.6 µs is 1 ms when rounded
    while (unit + 1 < std::size(units) && magnitude >= units[unit + 1].ns * almost)
        ++unit;
    const double value = ns / units[unit].ns;
    const int before = std::fabs(value) >= 1 ? static_cast<int>(std::log10(std::fabs(value))) + 1 : 1;
    const int after = unit == 0 ? 0 : std::max(0, digits - before);
    return sign ? fmt::format("{:+.{}f} {}", value, after, units[unit].name)
                : fmt::format("{:.{}f} {}", value, after, units[unit].name);
}

std::string clock_text(Line line) {
    if (const auto slept = line_number(line, "slept_ns"))
        return "*** the machine had slept for " + duration_text(*slept) + " ***";
    const auto set = line_number(line, "set_by_ns").value_or(0);
    return "*** the clock was set by " + scaled(static_cast<double>(set), 3, true) + " ***";
}

// What somebody has logged: "| app[123]: cannot open it".
std::string log_text(Line line) {
    std::string text = "| " + shown(line, "name");
    if (const auto pid = line_number(line, "pid"))
        text += fmt::format("[{}]", *pid);
    text += ": " + shown(line, "message");
    return member_of<bool>(line, "cut").value_or(false) ? text + "…" : text;
}

// Of what is remembered beyond the calls that are kept: "· openat /etc/x ENOENT (12 times, first 3 h before)".
std::string fact_text(Line line, std::int64_t t_ns) {
    const std::string kind = shown(line, "fact"), what = shown(line, "what");
    std::string text = "· ";
    if (kind == "memory")
        return text + "resident memory reached " + bytes_text(std::strtoll(what.c_str(), nullptr, 10));
    if (kind == "descriptors")
        return text + "descriptor " + what + " was reached";
    if (const std::string name = shown(line, "name"); !name.empty())
        text += name + ' ';
    else
        text += kind + ' ';
    if (member_of<bool>(line, "cut").value_or(false))
        text += "…";
    text += kind == "slow" ? "lasted over " + what : what;
    if (const std::string error = shown(line, "error"); !error.empty() && error != what)
        text += " = -1 " + error;
    if (const std::string status = shown(line, "status_text"); !status.empty())
        text += ' ' + status;
    const auto met = line_number(line, "met").value_or(1);
    const auto first = line_number(line, "first_ns").value_or(t_ns);
    std::int64_t since = 0;
    if (met > 1 && !__builtin_sub_overflow(t_ns, first, &since))
        text += fmt::format(" ({} times within {})", met, duration_text(since));
    return text;
}

std::string other_text(Line line, std::string_view kind) {
    std::string text = fmt::format("*** {}", terminal_text(kind));
    if (const auto name = shown(line, "name"); !name.empty() && name != kind)
        text += ' ' + name;
    if (const auto path = shown(line, "path"); !path.empty())
        text += ' ' + path;
    if (const auto comm = shown(line, "comm"); !comm.empty())
        text += " (" + comm + ')';
    if (const auto child = line_number(line, "child"))
        text += fmt::format(" {}", *child);
    if (const auto status = shown(line, "status_text"); !status.empty())
        text += ": " + status;
    return text + memory_text(line) + " ***";
}

} // namespace

std::string relative_time(std::int64_t ns) {
    constexpr std::size_t width = 12;
    std::string text = scaled(static_cast<double>(ns), 4, true);
    const std::size_t columns = text.size() - (text.find("µ") != std::string::npos ? 1 : 0);
    return columns < width ? std::string(width - columns, ' ') + text : text;
}

std::string duration_text(std::int64_t ns) {
    return scaled(static_cast<double>(ns), 3, false);
}

std::string timeline_text(simdjson::dom::element event, std::int64_t reference_ns) {
    Line line;
    if (event.get(line))
        return std::string(14, ' ') + "(no timeline line)";
    const std::int64_t t = line_number(line, "t_ns").value_or(reference_ns);
    // hostile times: the difference must not overflow
    std::int64_t relative;
    if (__builtin_sub_overflow(t, reference_ns, &relative))
        relative =
            t < reference_ns ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int64_t>::max();
    const std::string_view kind = member_of<std::string_view>(line, "kind").value_or("");
    std::string text = relative_time(relative) + "  ";
    if (kind == "syscall" || kind == "open" || kind == "request")
        text += call_text(line);
    else if (kind == "signal")
        text += signal_text(line);
    else if (kind == "log")
        text += log_text(line);
    else if (kind == "fact")
        text += fact_text(line, t);
    else if (kind == "clock")
        text += clock_text(line);
    else if (kind == "trigger")
        text += "*** " + shown(line, "name");
    else
        text += other_text(line, kind.empty() ? "event" : kind);
    return text;
}

} // namespace incident::capture
