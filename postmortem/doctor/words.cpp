#include "postmortem/doctor/words.h"

#include <fmt/format.h>

namespace incident::postmortem::doctor {

std::string some_of(const std::vector<std::string> &names, std::string_view between) {
    constexpr std::size_t shown = 5;
    std::string text;
    for (std::size_t i = 0; i < names.size() && i < shown; ++i)
        text += std::string(i > 0 ? between : "") + names[i];
    if (names.size() > shown)
        text += fmt::format("{}and {} more", between == "\n" ? "\n# " : " ", names.size() - shown);
    return text;
}

std::string counted(std::uint64_t count, std::string_view one, std::string_view many) {
    return fmt::format("{} {}", count, count == 1 ? one : many);
}

} // namespace incident::postmortem::doctor
