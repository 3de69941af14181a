// Failures from which a caller can recover, as values.  An Error says what was tried on which object and why it failed.
// Callers add context on the way up, and only the two programs print it, once.
#pragma once

#include <cerrno>
#include <cstring>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace incident {

struct Error {
    std::string what;
    int code = 0; // errno where the kernel gave one, else 0

    static Error system(std::string_view doing, int code = errno) {
        Error error{std::string(doing), code};
        error.what.append(": ").append(std::strerror(code)); // NOLINT(concurrency-mt-unsafe): glibc's is safe
        return error;
    }

    Error in(std::string_view context) && {
        what.insert(0, ": ").insert(0, context);
        return std::move(*this);
    }
};

template <typename T> using Result = std::expected<T, Error>;
using Status = std::expected<void, Error>;

inline std::unexpected<Error> fail(Error error) {
    return std::unexpected(std::move(error));
}
inline std::unexpected<Error> fail(std::string what) {
    return std::unexpected(Error{std::move(what), 0});
}

} // namespace incident
