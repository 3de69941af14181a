// How users share a number of places an hour that must not become more by being shared.
#pragma once

#include <cstdint>

namespace incident::rules {

// A quarter of the places is left for users who have taken none within the hour; of fewer than four places none is.
// taken: of all users, `own` of them by this one.
inline bool place_left(std::uint64_t places, std::uint64_t taken, std::uint64_t own) {
    const std::uint64_t for_others = own == 0 ? 0 : places / 4;
    return taken + for_others < places;
}

} // namespace incident::rules
