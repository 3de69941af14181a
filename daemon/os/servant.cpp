#include "daemon/os/servant.h"

#include "capture/os/dir_at.h"
#include "capture/os/process_dir.h"
#include "daemon/os/rights.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <climits>
#include <csignal>
#include <cstring>

namespace incident::daemon {

namespace {

struct Head {
    std::int32_t failed = 0, code = 0; // code: errno, or 0
    std::uint32_t length = 0;          // of text
    std::array<char, 8192> text{};     // why it failed
};

using Files = std::vector<int>;

bool send_with(int socket, std::span<const char> bytes, const Files &files) {
    iovec part{const_cast<char *>(bytes.data()), bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(Servant::files_most * sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!files.empty()) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(files.size() * sizeof(int));
        cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
        std::memcpy(CMSG_DATA(head), files.data(), files.size() * sizeof(int));
    }
    const ssize_t sent = capture::retry([&] { return ::sendmsg(socket, &message, MSG_NOSIGNAL); });
    return sent == static_cast<ssize_t>(bytes.size());
}

// How many bytes came; 0: the other side has ended.
ssize_t receive_with(int socket, std::span<char> bytes, std::vector<UniqueFd> &files) {
    iovec part{bytes.data(), bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(Servant::files_most * sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t got = capture::retry([&] { return ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC); });
    for (cmsghdr *head = CMSG_FIRSTHDR(&message); got >= 0 && head; head = CMSG_NXTHDR(&message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;
        std::vector<int> came((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        std::memcpy(came.data(), CMSG_DATA(head), came.size() * sizeof(int));
        for (const int fd : came)
            files.emplace_back(fd);
    }
    return got;
}

// Where memory is short for a moment, what was sent waits.
ssize_t receive_in_time(int socket, std::span<char> bytes, std::vector<UniqueFd> &files) {
    constexpr int tries = 500; // five seconds
    ssize_t got = receive_with(socket, bytes, files);
    for (int i = 0; got < 0 && i < tries; ++i) {
        ::usleep(10'000);
        got = receive_with(socket, bytes, files);
    }
    return got;
}

std::span<const char> bytes_of(const auto &object) {
    return {reinterpret_cast<const char *>(&object), sizeof(object)};
}
std::span<char> room_of(auto &object) {
    return {reinterpret_cast<char *>(&object), sizeof(object)};
}

// Whatever else was open belongs to the other process: locks end with the last descriptor.
void close_all_but(bool (*needs)(std::string_view), int socket) {
    const UniqueFd directory(::open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const auto numbers = capture::numbers_in(directory.get(), ".");
    if (!numbers)
        return;
    for (const std::uint32_t number : *numbers) {
        char link[64] = {};
        if (::readlinkat(directory.get(), std::to_string(number).c_str(), link, sizeof(link) - 1) < 0)
            continue; // it was to read the others
        const int fd = static_cast<int>(number);
        if (!(needs && needs(link)) && fd != socket && fd > STDERR_FILENO && fd != directory.get())
            ::close(fd);
    }
}

// Who asked waits for it: without an answer there is nothing to serve any more.
void answer(int socket, const Servant::Answer &answered) {
    auto head = std::make_unique<Head>();
    Files files;
    if (answered) {
        for (const UniqueFd &fd : *answered)
            files.push_back(fd.get());
    } else {
        head->failed = 1;
        head->code = answered.error().code;
        head->length = static_cast<std::uint32_t>(std::min(answered.error().what.size(), head->text.size()));
        answered.error().what.copy(head->text.data(), head->length);
    }
    if (send_with(socket, bytes_of(*head), files))
        return;
    if (!answered)
        ::_exit(1);
    answer(socket, fail(Error::system("handing over what is attached")));
}

// Takes all numbers up to the highest descriptor, so that whatever is opened later has a higher one; returns it.
int fill_up(int socket) {
    UniqueFd directory(::open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const auto numbers = capture::numbers_in(directory.get(), ".");
    directory.reset();
    int highest = socket;
    for (const std::uint32_t number : numbers ? *numbers : std::vector<std::uint32_t>())
        if (const int fd = static_cast<int>(number); ::fcntl(fd, F_GETFD) >= 0) // else it was to read the others
            highest = std::max(highest, fd);
    for (int fd = STDERR_FILENO + 1; fd < highest; ++fd)
        if (::fcntl(fd, F_GETFD) < 0)
            (void)::dup2(socket, fd);
    return highest;
}

[[noreturn]] void serve_all(const Servant::Role &role, int socket, const Servant::Serve &serve) {
    ::prctl(PR_SET_NAME, role.name);
    close_all_but(role.needs, socket);
    int kept_up_to = fill_up(socket);
    if (!keep_capabilities(role.capabilities) || (!role.connects && !give_up_connections()))
        ::_exit(1);
    std::vector<char> request(role.request_bytes + 1);
    for (;;) {
        std::vector<UniqueFd> files;
        const ssize_t got = receive_in_time(socket, request, files);
        if (got <= 0)
            ::_exit(got == 0 ? 0 : 1);
        bool keeps = false;
        if (static_cast<std::size_t>(got) == role.request_bytes)
            answer(socket, serve({request.data(), role.request_bytes},
                                 files.empty() ? UniqueFd() : std::move(files.front()), keeps));
        else
            answer(socket, fail("a request of another size"));
        files.clear();
        if (keeps)
            kept_up_to = fill_up(socket);
        else
            ::syscall(SYS_close_range, kept_up_to + 1, UINT_MAX, 0); // also what a library has left open
    }
}

} // namespace

Result<std::unique_ptr<Servant>> Servant::start(const Role &role, const Serve &serve) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return fail(Error::system(fmt::format("a socket to {}", role.name)));
    UniqueFd here(ends[0]), there(ends[1]);
    const pid_t child = ::fork();
    if (child < 0)
        return fail(Error::system(role.name));
    if (child == 0)
        serve_all(role, there.get(), serve); // which closes `here`
    UniqueFd ended(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
    if (!ended) {
        const int error = errno;
        here.reset();
        ::waitpid(child, nullptr, 0);
        return fail(Error::system(fmt::format("following {}", role.name), error));
    }
    return std::unique_ptr<Servant>(new Servant(role, std::move(here), std::move(ended)));
}

Servant::~Servant() {
    socket_.reset();
    siginfo_t info{};
    while (::waitid(P_PIDFD, static_cast<id_t>(ended_.get()), &info, WEXITED) != 0 && errno == EINTR) {
    }
}

// An answer that has not been read would be taken for the next one's.
void Servant::end_it() const {
    ::syscall(SYS_pidfd_send_signal, ended_.get(), SIGKILL, nullptr, 0);
}

Servant::Answer Servant::ask(std::span<const char> request, int file) {
    const std::lock_guard lock(mutex_);
    auto head = std::make_unique<Head>();
    std::vector<UniqueFd> files;
    if (!send_with(socket_.get(), request, file < 0 ? Files{} : Files{file}))
        return fail(errno == EPIPE ? Error{name_ + " has ended", EPIPE} : Error::system("asking " + name_));
    pollfd waits{socket_.get(), POLLIN, 0};
    if (capture::retry([&] { return ::poll(&waits, 1, static_cast<int>(patience_.count())); }) == 0) {
        end_it();
        return fail(fmt::format("{} did not answer within {} s", name_, patience_.count() / 1000));
    }
    const ssize_t got = receive_in_time(socket_.get(), room_of(*head), files);
    if (got == 0)
        return fail(name_ + " has ended");
    if (got != sizeof(Head)) {
        const Error error = Error::system("the answer of " + name_);
        end_it();
        return fail(error);
    }
    if (head->failed)
        return fail(
            Error{std::string(head->text.data(), std::min<std::size_t>(head->length, head->text.size())), head->code});
    return files;
}

} // namespace incident::daemon
