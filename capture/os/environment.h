// Reads variables of the environment.
#pragma once

#include <cstdlib>

namespace incident::capture {

// nullptr: the variable is not set.  Threads may read the environment, because no code here changes it.
inline const char *environment(const char *name) {
    return std::getenv(name); // NOLINT(concurrency-mt-unsafe): see above
}

} // namespace incident::capture
