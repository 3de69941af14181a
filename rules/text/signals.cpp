#include "rules/text/signals.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstring>
#include <utility>

namespace incident::rules {
namespace {

constexpr std::pair<std::string_view, int> signal_aliases[] = {{"IOT", SIGABRT}, {"IO", SIGIO}, {"CLD", SIGCHLD}};

std::optional<int> realtime(std::string_view name) {
    const bool from_min = name.starts_with("RTMIN");
    if (!from_min && !name.starts_with("RTMAX"))
        return std::nullopt;
    name.remove_prefix(5);
    const int base = from_min ? SIGRTMIN : SIGRTMAX;
    if (name.empty())
        return base;
    if (name[0] != (from_min ? '+' : '-'))
        return std::nullopt;
    unsigned offset = 0;
    const auto [end, problem] = std::from_chars(name.data() + 1, name.data() + name.size(), offset);
    if (problem != std::errc() || end != name.data() + name.size() ||
        offset > static_cast<unsigned>(SIGRTMAX - SIGRTMIN))
        return std::nullopt;
    return from_min ? base + static_cast<int>(offset) : base - static_cast<int>(offset);
}

} // namespace

std::optional<int> signal_number(std::string_view name) {
    if (name.starts_with("SIG"))
        name.remove_prefix(3);
    for (int number = 1; number < SIGRTMIN; ++number)
        if (const char *abbreviation = sigabbrev_np(number); abbreviation != nullptr && name == abbreviation)
            return number;
    for (const auto &[alias, number] : signal_aliases)
        if (name == alias)
            return number;
    return realtime(name);
}

std::string signal_name(int number) {
    if (const char *abbreviation = sigabbrev_np(number))
        return std::string("SIG") + abbreviation;
    if (number < SIGRTMIN || number > SIGRTMAX)
        return std::to_string(number);
    return number == SIGRTMIN ? "SIGRTMIN" : "SIGRTMIN+" + std::to_string(number - SIGRTMIN);
}

const std::vector<std::string> &signal_names() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> all;
        for (int number = 1; number < SIGRTMIN; ++number)
            if (sigabbrev_np(number) != nullptr)
                all.push_back(signal_name(number));
        all.insert(all.end(), {"SIGRTMIN", "SIGRTMAX"});
        return all;
    }();
    return names;
}

bool kills_by_default(int number) {
    constexpr int harmless[] = {SIGCHLD, SIGURG, SIGWINCH, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU};
    return std::ranges::find(harmless, number) == std::end(harmless);
}

bool dumps_core_by_default(int number) {
    constexpr int dumping[] = {SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGXCPU, SIGXFSZ, SIGSYS};
    return std::ranges::find(dumping, number) != std::end(dumping);
}

} // namespace incident::rules
