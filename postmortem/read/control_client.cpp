#include "postmortem/read/control_client.h"

#include "capture/os/unique_fd.h"

#include <array>
#include <cstdio>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace incident::postmortem {

namespace {

using Deadline = std::chrono::steady_clock::time_point;

Result<UniqueFd> connect_to(const std::string &state) {
    const std::string path = state + "/control.sock";
    UniqueFd dir(open(state.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    const auto not_running = [&](std::string_view why) {
        return fail(Error{fmt::format("incidentd is not running ({} {})", why, path), errno});
    };
    if (!dir)
        return errno == ENOENT ? not_running("no") : fail(Error::system("cannot open " + state));
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd)
        return fail(Error::system("cannot make a socket"));
    // Through the directory's descriptor, because sun_path ends at 107 bytes.
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/control.sock", dir.get());
    if (connect(fd.get(), reinterpret_cast<const sockaddr *>(&address), sizeof address) == 0)
        return fd;
    switch (errno) {
    case ENOENT:
        return not_running("no");
    case ECONNREFUSED:
        return not_running("nobody listens on");
    case EACCES:
        return fail(Error{fmt::format("no permission to talk to incidentd on {}: run as root", path), EACCES});
    case EAGAIN: // the backlog is full
        return fail(Error{fmt::format("incidentd is busy: {} takes no more connections", path), EAGAIN});
    default:
        return fail(Error::system("cannot connect to " + path));
    }
}

Status wait_for(int fd, short events, Deadline deadline) {
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        pollfd poll_for{fd, events, 0};
        const int ready = left.count() > 0 ? poll(&poll_for, 1, static_cast<int>(left.count())) : 0;
        if (ready > 0)
            return {};
        if (ready == 0)
            return fail(Error{"incidentd does not answer", ETIMEDOUT});
        if (errno != EINTR)
            return fail(Error::system("cannot wait for incidentd's answer"));
    }
}

Status send_all(int fd, std::string_view text, Deadline deadline) {
    while (!text.empty()) {
        if (const Status ready = wait_for(fd, POLLOUT, deadline); !ready)
            return ready;
        const ssize_t sent = send(fd, text.data(), text.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR && errno != EAGAIN)
            return fail(Error::system("cannot ask incidentd"));
        if (sent > 0)
            text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return {};
}

Result<std::string> read_all(int fd, Deadline deadline) {
    std::string reply;
    std::array<char, 64 * 1024> block;
    for (;;) {
        if (const Status ready = wait_for(fd, POLLIN, deadline); !ready)
            return fail(ready.error());
        const ssize_t got = recv(fd, block.data(), block.size(), 0);
        if (got == 0)
            return reply;
        if (got < 0 && errno != EINTR && errno != EAGAIN)
            return fail(Error::system("cannot read incidentd's answer"));
        if (got > 0)
            reply.append(block.data(), static_cast<std::size_t>(got));
        if (reply.size() > control_reply_max)
            return fail(fmt::format("incidentd's answer is larger than {} bytes", control_reply_max));
    }
}

} // namespace

Result<Json> ask_daemon(const std::string &state, std::string_view verb, std::chrono::milliseconds patience) {
    const Deadline deadline = std::chrono::steady_clock::now() + patience;
    const auto socket = connect_to(state);
    if (!socket)
        return fail(socket.error());
    if (const Status sent = send_all(socket->get(), dump_json(Json{{"verb", verb}}) + "\n", deadline); !sent)
        return fail(sent.error());
    const auto reply = read_all(socket->get(), deadline);
    if (!reply)
        return fail(reply.error());
    auto document = parse_json(*reply);
    if (!document)
        return fail(Error(document.error()).in("incidentd's answer"));
    return document;
}

} // namespace incident::postmortem
