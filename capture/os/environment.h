// Variables of the environment.
#pragma once

#include <cstdlib>

namespace incident::capture {

// nullptr: it is not set.  Nothing here ever changes the environment, so threads may read it.
inline const char *environment(const char *name) {
    return std::getenv(name); // NOLINT(concurrency-mt-unsafe): see above
}

} // namespace incident::capture
