#include "postmortem/verbs/incident_watch.h"

#include "capture/os/lines.h"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace incident::postmortem {

namespace {

constexpr std::size_t marker_names = 256;
constexpr std::size_t marker_max = 64 * 1024;

std::string parent_of(const std::string &path) {
    const std::size_t slash = path.find_last_of('/');
    if (slash == std::string::npos)
        return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

struct FileLock {
    explicit FileLock(int fd) : fd(fd) { flock(fd, LOCK_EX); }
    ~FileLock() { flock(fd, LOCK_UN); }
    int fd;
};

} // namespace

Result<IncidentWatch> IncidentWatch::start(std::string state) {
    while (state.size() > 1 && state.ends_with('/'))
        state.pop_back();
    IncidentWatch watch;
    watch.state_ = std::move(state);
    if (const Status watched = watch.watch(); !watched)
        return fail(watched.error());
    return watch;
}

// Watches incidents/, or where that is missing the nearest directory above that exists.
Status IncidentWatch::watch() {
    inotify_ = UniqueFd(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    if (!inotify_)
        return fail(Error::system("cannot watch for incidents: inotify"));
    const std::string wanted = state_ + "/incidents";
    std::string missing; // just below path
    for (std::string path = wanted;; missing = std::exchange(path, parent_of(path))) {
        if (inotify_add_watch(inotify_.get(), path.c_str(),
                              IN_MOVED_TO | IN_CREATE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR) >= 0) {
            complete_ = path == wanted;
            // One made between the failed attempt and this one raises no event.
            struct stat status {};
            if (!complete_ && stat(missing.c_str(), &status) == 0)
                return watch();
            return {};
        }
        if (errno == EACCES)
            return fail(Error{"no permission to watch " + path + ": run as root", EACCES});
        if (errno != ENOENT || path == "/" || path == ".")
            return fail(Error::system("cannot watch " + path));
    }
}

Result<bool> IncidentWatch::wait(std::chrono::steady_clock::time_point until) {
    using namespace std::chrono;
    const auto left = duration_cast<milliseconds>(until - steady_clock::now()).count() + 1;
    if (left <= 0)
        return false;
    pollfd poll_for{inotify_.get(), POLLIN, 0};
    const int ready = poll(&poll_for, 1, static_cast<int>(std::min<std::int64_t>(left, INT32_MAX)));
    if (ready < 0 && errno != EINTR)
        return fail(Error::system("cannot wait for incidents"));
    if (ready <= 0)
        return steady_clock::now() < until;
    alignas(inotify_event) std::array<char, 16 * 1024> events;
    bool ended = false;
    for (ssize_t got; (got = read(inotify_.get(), events.data(), events.size())) > 0;)
        for (ssize_t at = 0; at < got;) {
            const auto *event = reinterpret_cast<const inotify_event *>(events.data() + at);
            ended = ended || (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED));
            at += static_cast<ssize_t>(sizeof *event + event->len);
        }
    if (!complete_ || ended)
        if (const Status watched = watch(); !watched)
            return fail(watched.error());
    return true;
}

WaitedMarker::WaitedMarker(const std::string &state)
    : fd_(open((state + "/.waited").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) {}

std::vector<std::string> WaitedMarker::read() const {
    std::vector<std::string> names;
    std::string text(marker_max, '\0');
    const ssize_t got = fd_ ? pread(fd_.get(), text.data(), text.size(), 0) : 0;
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    for (const std::string_view line : capture::lines_of(text))
        names.emplace_back(line);
    return names;
}

bool WaitedMarker::contains(const std::string &name) const {
    const auto names = read();
    return std::ranges::find(names, name) != names.end();
}

bool WaitedMarker::claim(const std::string &name) {
    if (!fd_)
        return true;
    const FileLock lock(fd_.get());
    auto names = read();
    if (std::ranges::find(names, name) != names.end())
        return false;
    names.push_back(name);
    std::string text;
    for (std::size_t i = names.size() > marker_names ? names.size() - marker_names : 0; i < names.size(); ++i)
        text += names[i] + "\n";
    if (ftruncate(fd_.get(), 0) == 0)
        (void)!pwrite(fd_.get(), text.data(), text.size(), 0);
    return true;
}

} // namespace incident::postmortem
