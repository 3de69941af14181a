#include "daemon/os/log_sink.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace incident::daemon {

void LogSink::sink_it_(const spdlog::details::log_msg &message) {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    if (dropped_ != 0 && write(fmt::format("{} lines of this log were lost: nobody read them\n", dropped_)))
        dropped_ = 0;
    if (dropped_ != 0 || !write({line.data(), line.size()}))
        ++dropped_;
}

bool LogSink::write(std::string_view line) const {
    const ssize_t sent = ::send(fd_, line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0 || errno != ENOTSOCK)
        return sent >= 0;
    // A pipe that can be written to takes so many bytes at once (pipe(7)); a file takes all.
    while (!line.empty()) {
        pollfd ready{fd_, POLLOUT, 0};
        if (::poll(&ready, 1, 0) != 1)
            return false;
        const ssize_t written = ::write(fd_, line.data(), std::min<std::size_t>(line.size(), PIPE_BUF));
        if (written <= 0)
            return false;
        line.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

} // namespace incident::daemon
