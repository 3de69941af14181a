// Phrases that several findings use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace incident::postmortem::doctor {

// "a, b, c and 4 more"; with "\n" between them the last line is "# and 4 more".
std::string some_of(const std::vector<std::string> &names, std::string_view between = ", ");
// "1 process", "3 processes"
std::string counted(std::uint64_t count, std::string_view one, std::string_view many);

} // namespace incident::postmortem::doctor
