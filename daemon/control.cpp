#include "daemon/control.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstring>

namespace incident::daemon {

namespace {

constexpr std::size_t request_limit = 4096;
constexpr timeval patience{1, 0};
constexpr std::string_view running = "\n", stopped = " stopped\n"; // what follows the pid

} // namespace

Result<StateLock> StateLock::take(const std::string &state) {
    StateLock lock;
    lock.fd_ = UniqueFd(::open((state + "/lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock.fd_)
        return fail(Error::system("opening " + state + "/lock"));
    if (::flock(lock.fd_.get(), LOCK_EX | LOCK_NB))
        return fail(fmt::format("another incidentd uses {} (its lock is held)", state));
    char text[24] = {};
    struct stat status {};
    const ssize_t got = ::pread(lock.fd_.get(), text, sizeof(text) - 1, 0);
    if (got < 0 || ::fstat(lock.fd_.get(), &status))
        return fail(Error::system("reading " + state + "/lock"));
    std::uint32_t pid = 0;
    const auto [end, error] = std::from_chars(text, text + got, pid);
    if (const std::string_view rest(end); error == std::errc() && (rest == running || rest == stopped))
        lock.before_ = PastLife{pid, rest == stopped, status.st_mtim.tv_sec};
    return lock;
}

Status StateLock::write(std::string_view state) {
    const std::string own = fmt::format("{}{}", ::getpid(), state);
    if (::ftruncate(fd_.get(), 0) || ::pwrite(fd_.get(), own.data(), own.size(), 0) != static_cast<ssize_t>(own.size()))
        return fail(Error::system("writing the state's lock"));
    return {};
}

Status StateLock::begin() {
    return write(running);
}

// A time that cannot be written only makes a gap look longer.
void StateLock::alive() {
    (void)::futimens(fd_.get(), nullptr);
}

// Where it cannot be written the next life takes this one for killed, or knows of none.
void StateLock::release() {
    (void)write(stopped);
}

Result<Control> Control::listen(const std::string &state, std::function<std::string(const std::string &)> answer) {
    Control control;
    control.answer_ = std::move(answer);
    // sun_path holds 107 bytes: go through the directory's descriptor.
    const UniqueFd directory(::open(state.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!directory)
        return fail(Error::system("opening " + state));
    ::unlinkat(directory.get(), "control.sock", 0); // we hold the lock: nobody answers there
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    fmt::format_to_n(address.sun_path, sizeof(address.sun_path) - 1, "/proc/self/fd/{}/control.sock", directory.get());
    control.socket_ = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const mode_t mask = ::umask(0177);
    const bool bound =
        control.socket_ && ::bind(control.socket_.get(), reinterpret_cast<sockaddr *>(&address), sizeof(address)) == 0;
    const int error = errno;
    ::umask(mask);
    if (!bound)
        return fail(Error::system("binding " + state + "/control.sock", error));
    control.path_ = state + "/control.sock";
    if (::listen(control.socket_.get(), 16))
        return fail(Error::system("listening on " + control.path_));
    return control;
}

Control::~Control() {
    if (socket_)
        ::unlink(path_.c_str());
}

void Control::serve() {
    const UniqueFd peer(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!peer)
        return;
    ::setsockopt(peer.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    ::setsockopt(peer.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    std::string request;
    char buffer[512];
    while (request.size() < request_limit && request.find('\n') == request.npos) {
        const ssize_t got = ::read(peer.get(), buffer, sizeof(buffer));
        if (got <= 0)
            break;
        request.append(buffer, static_cast<std::size_t>(got));
    }
    const std::string reply = answer_(request.substr(0, request.find('\n')));
    for (std::size_t sent = 0; sent < reply.size();) {
        const ssize_t wrote = ::send(peer.get(), reply.data() + sent, reply.size() - sent, MSG_NOSIGNAL);
        if (wrote <= 0)
            break; // the peer has gone, or does not read: its loss
        sent += static_cast<std::size_t>(wrote);
    }
}

} // namespace incident::daemon
