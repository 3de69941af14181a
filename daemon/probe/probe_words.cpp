#include "daemon/probe/probe_words.h"

#include <fmt/format.h>

#include <algorithm>

namespace incident::daemon {

std::string list_names(std::vector<std::string> names) {
    constexpr std::size_t listed_max = 6;
    std::ranges::sort(names);
    names.erase(std::ranges::unique(names).begin(), names.end());
    std::string text;
    for (std::size_t i = 0; i < names.size() && i < listed_max; ++i)
        text += (i ? ", " : "") + names[i].substr(0, 200);
    if (names.size() > listed_max)
        text += fmt::format(" and {} more", names.size() - listed_max);
    return text;
}

std::string price_warning(ProbePrice price) {
    switch (price) {
    case ProbePrice::Emulated:
        return {};
    case ProbePrice::SingleStepped:
        return "its first instruction has to be single-stepped: each call costs about 10 µs more instead of 1";
    case ProbePrice::Unknown:
        return "its first instruction is not a known one: each call may cost 10 µs more";
    }
    return {};
}

} // namespace incident::daemon
