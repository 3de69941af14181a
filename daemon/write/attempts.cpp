#include "daemon/write/attempts.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>

namespace incident::daemon {

bool Attempts::may_pass(const Error &error) {
    constexpr std::array passing{EIO, ENOMEM, EMFILE, ENFILE, EINTR, EAGAIN};
    if (std::ranges::find(passing, error.code) == passing.end())
        return false;
    spdlog::warn("incident {} is written again: {}", incident_, error.what);
    std::this_thread::sleep_for(pause_);
    pause_ *= 2;
    return true;
}

} // namespace incident::daemon
