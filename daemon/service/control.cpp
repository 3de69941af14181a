#include "daemon/service/control.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

namespace incident::daemon {

namespace {

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

std::string requested_verb(const std::string &request) {
    const auto parsed = nlohmann::json::parse(request, nullptr, false);
    const auto verb = parsed.is_object() ? parsed.find("verb") : parsed.end();
    return verb != parsed.end() && verb->is_string() ? verb->get<std::string>() : "";
}

Result<Control> Control::listen(const std::string &state, std::function<std::string(const std::string &)> answer,
                                std::chrono::milliseconds patience) {
    Control control;
    control.answer_ = std::move(answer);
    control.patience_ = patience;
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
    control.ready_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
    control.timer_ = UniqueFd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    for (const int fd : {control.socket_.get(), control.timer_.get()}) {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.fd = fd;
        if (fd < 0 || ::epoll_ctl(control.ready_.get(), EPOLL_CTL_ADD, fd, &event))
            return fail(Error::system("watching " + control.path_));
    }
    return control;
}

Control::~Control() {
    if (socket_)
        ::unlink(path_.c_str());
}

void Control::accept_all() {
    // At most so many in a turn: whoever connects without end does not keep the others waiting.
    for (std::size_t i = 0; i < connections_max; ++i) {
        UniqueFd socket(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!socket)
            return rest_if_short(errno);
        if (peers_.size() >= connections_max)
            peers_.pop_front();
        peers_.push_back({std::move(socket), std::chrono::steady_clock::now() + patience_, {}, {}, 0, false});
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.fd = peers_.back().socket.get();
        if (::epoll_ctl(ready_.get(), EPOLL_CTL_ADD, event.data.fd, &event) || !proceed(peers_.back()))
            peers_.pop_back();
    }
}

// Who waits to be accepted makes the socket readable for as long as descriptors or memory are short.
void Control::rest_if_short(int error) {
    if (error != EMFILE && error != ENFILE && error != ENOBUFS && error != ENOMEM)
        return;
    watch_socket(false);
    rests_until_ = std::chrono::steady_clock::now() + rest;
}

void Control::watch_socket(bool on) {
    epoll_event event{};
    event.events = on ? std::uint32_t{EPOLLIN} : 0u;
    event.data.fd = socket_.get();
    (void)::epoll_ctl(ready_.get(), EPOLL_CTL_MOD, event.data.fd, &event);
}

// false: nobody is there any more.
bool Control::read_request(Peer &peer) {
    char buffer[512];
    while (peer.request.size() < request_max && peer.request.find('\n') == peer.request.npos) {
        const ssize_t got = ::read(peer.socket.get(), buffer, sizeof(buffer));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno == EAGAIN;
        if (got == 0) { // it has said all
            peer.request += '\n';
            break;
        }
        peer.request.append(buffer, static_cast<std::size_t>(got));
    }
    return true;
}

bool Control::proceed(Peer &peer) {
    if (!peer.answered) {
        if (!read_request(peer))
            return false;
        if (peer.request.size() < request_max && peer.request.find('\n') == peer.request.npos)
            return true; // the rest is to come
        peer.reply = answer_(peer.request.substr(0, peer.request.find('\n')));
        peer.answered = true;
    }
    while (peer.sent < peer.reply.size()) {
        const ssize_t wrote = ::send(peer.socket.get(), peer.reply.data() + peer.sent, peer.reply.size() - peer.sent,
                                     MSG_NOSIGNAL | MSG_DONTWAIT);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0 && errno == EAGAIN) {
            wait_for(peer, true);
            return true;
        }
        if (wrote <= 0)
            return false; // the peer has gone: its loss
        peer.sent += static_cast<std::size_t>(wrote);
    }
    return false;
}

void Control::wait_for(const Peer &peer, bool to_write) {
    epoll_event event{};
    event.events = to_write ? EPOLLOUT : EPOLLIN;
    event.data.fd = peer.socket.get();
    (void)::epoll_ctl(ready_.get(), EPOLL_CTL_MOD, event.data.fd, &event);
}

// And sets the clock for the next one.
void Control::give_up_late() {
    const auto now = std::chrono::steady_clock::now();
    while (!peers_.empty() && peers_.front().until <= now) // all have the same patience: the oldest ends first
        peers_.pop_front();
    auto next = rests_until_;
    if (!peers_.empty())
        next = next ? std::min(*next, peers_.front().until) : peers_.front().until;
    itimerspec when{};
    if (next) {
        const auto ns =
            std::max<std::int64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(*next - now).count() + 1, 1);
        when.it_value.tv_sec = ns / 1'000'000'000;
        when.it_value.tv_nsec = ns % 1'000'000'000;
    }
    (void)::timerfd_settime(timer_.get(), 0, &when, nullptr);
}

void Control::serve() {
    epoll_event events[connections_max + 2];
    const int count = ::epoll_wait(ready_.get(), events, std::size(events), 0);
    for (int i = 0; i < count; ++i) {
        const int fd = events[i].data.fd;
        if (fd == timer_.get()) {
            std::uint64_t ignored;
            (void)!::read(fd, &ignored, sizeof(ignored));
            continue;
        }
        const auto peer =
            std::ranges::find_if(peers_, [fd](const Peer &candidate) { return candidate.socket.get() == fd; });
        if (peer != peers_.end() && !proceed(*peer))
            peers_.erase(peer);
    }
    if (rests_until_ && *rests_until_ <= std::chrono::steady_clock::now()) {
        rests_until_.reset();
        watch_socket(true);
    }
    if (!rests_until_) // after those that were ready: a new one may get the number of one that has just ended
        accept_all();
    give_up_late();
}

} // namespace incident::daemon
