#include "rules/model/units.h"

#include "rules/text/escape.h"
#include "rules/text/suggest.h"

#include <charconv>
#include <fmt/format.h>
#include <span>

namespace incident::rules {

const std::string duration_forms = R"(durations are written "50us", "900ms", "5s", "2m", "1h" or "1d")";
const std::string size_forms = R"(sizes are written "512B", "16KiB", "4MiB", "2GiB" or "1TiB")";
const std::string percent_forms = R"(shares are written "1%" or "0.05%")";

namespace {

struct Unit {
    std::string_view name;
    std::uint64_t factor;
};

// Smallest first.
constexpr Unit durations[] = {{"us", 1'000},         {"ms", 1'000'000},        {"s", 1'000'000'000},
                              {"m", 60'000'000'000}, {"h", 3'600'000'000'000}, {"d", 86'400'000'000'000}};
constexpr Unit sizes[] = {{"B", 1}, {"KiB", 1ull << 10}, {"MiB", 1ull << 20}, {"GiB", 1ull << 30}, {"TiB", 1ull << 40}};

// Other spellings that people use, for the hint.
struct Alias {
    std::string_view written, unit;
};
constexpr Alias unit_aliases[] = {
    {"usec", "us"},   {"\u00b5s", "us"},      {"micros", "us"}, {"microseconds", "us"}, {"msec", "ms"},
    {"millis", "ms"}, {"milliseconds", "ms"}, {"sec", "s"},     {"secs", "s"},          {"second", "s"},
    {"seconds", "s"}, {"min", "m"},           {"mins", "m"},    {"minute", "m"},        {"minutes", "m"},
    {"hr", "h"},      {"hour", "h"},          {"hours", "h"},   {"day", "d"},           {"days", "d"},
    {"byte", "B"},    {"bytes", "B"},         {"k", "KiB"},     {"kb", "KiB"},          {"m", "MiB"},
    {"mb", "MiB"},    {"g", "GiB"},           {"gb", "GiB"},    {"t", "TiB"},           {"tb", "TiB"},
};

const Unit *meant(std::string_view written, std::span<const Unit> units) {
    const std::string wanted = lower(written);
    for (const Unit &unit : units)
        if (lower(unit.name) == wanted)
            return &unit;
    for (const Alias &alias : unit_aliases)
        if (alias.written == wanted)
            for (const Unit &unit : units)
                if (unit.name == alias.unit)
                    return &unit;
    return nullptr;
}

std::string without_blanks(std::string_view text) {
    std::string out;
    for (char c : text)
        if (c != ' ' && c != '\t' && c != '_')
            out += c;
    return out;
}

std::expected<std::uint64_t, UnitError> parse(std::string_view text, std::span<const Unit> units, std::string_view what,
                                              const std::string &forms) {
    std::uint64_t number = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    const std::string_view name = text.substr(static_cast<std::size_t>(end - text.data()));
    if (problem == std::errc::result_out_of_range)
        return std::unexpected(UnitError{fmt::format("is too large: {}", quote(text)), forms});
    if (problem == std::errc() && name.empty())
        return std::unexpected(UnitError{fmt::format("needs a unit: {}", quote(text)), forms});
    if (problem == std::errc())
        for (const Unit &unit : units)
            if (unit.name == name) {
                std::uint64_t value = 0;
                if (__builtin_mul_overflow(number, unit.factor, &value) || value > INT64_MAX)
                    return std::unexpected(UnitError{fmt::format("is too large: {}", quote(text)), forms});
                return value;
            }

    std::string hint = forms;
    if (const std::string squeezed = without_blanks(text); problem == std::errc() || squeezed != text) {
        const std::size_t digits = std::min(squeezed.find_first_not_of("0123456789"), squeezed.size());
        const Unit *unit = meant(std::string_view(squeezed).substr(digits), units);
        if (unit != nullptr && digits > 0)
            hint = fmt::format("did you mean \"{}{}\"?", squeezed.substr(0, digits), unit->name);
    }
    if (text.find('.') != std::string_view::npos)
        hint = fmt::format("whole numbers only, in a smaller unit; {}", forms);
    return std::unexpected(UnitError{fmt::format("is not a {}: {}", what, quote(text)), hint});
}

std::string in_largest_unit(std::uint64_t value, std::span<const Unit> units) {
    const Unit *best = &units[0];
    for (const Unit &unit : units)
        if (value % unit.factor == 0 && value >= unit.factor)
            best = &unit;
    return fmt::format("{}{}", value / best->factor, best->name);
}

} // namespace

std::expected<Nanoseconds, UnitError> parse_duration(std::string_view text) {
    const auto ns = parse(text, durations, "duration", duration_forms);
    if (!ns)
        return std::unexpected(ns.error());
    return Nanoseconds(static_cast<std::int64_t>(*ns));
}

std::expected<std::uint64_t, UnitError> parse_size(std::string_view text) {
    return parse(text, sizes, "size", size_forms);
}

std::expected<double, std::string> parse_percent(std::string_view text) {
    double number = 0;
    const auto [end, problem] =
        std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
    const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
    if (problem == std::errc() && unit.empty())
        return std::unexpected(fmt::format("needs a unit: {}", quote(text)));
    if (problem != std::errc() || unit != "%")
        return std::unexpected(fmt::format("is not a share: {}", quote(text)));
    if (!(number > 0) || number > 100) // also of "nan"
        return std::unexpected(fmt::format("must be above 0% and at most 100%, found {}", quote(text)));
    return number / 100;
}

std::string duration_text(Nanoseconds value) {
    const std::int64_t us = value.count() / 1'000;
    return us <= 0 ? "0s" : in_largest_unit(static_cast<std::uint64_t>(us) * 1'000, durations);
}

std::string about_text(Nanoseconds value) {
    constexpr std::chrono::milliseconds exact_below(10);
    return duration_text(value < exact_below ? value : std::chrono::floor<std::chrono::milliseconds>(value));
}

std::string size_text(std::uint64_t bytes) {
    return in_largest_unit(bytes, sizes);
}

} // namespace incident::rules
