#include "daemon/write/analyst.h"

#include "capture/os/dir_at.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace incident::daemon {

namespace {

constexpr int patience_ms = 60'000;
bool is_program(const std::string &path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

} // namespace

std::string Analyst::find_program() {
    char self[4096];
    const ssize_t length = ::readlink("/proc/self/exe", self, sizeof self);
    const std::string own(self, length > 0 ? static_cast<std::size_t>(length) : 0);
    const std::string directory = own.substr(0, own.rfind('/'));
    for (const std::string &path : {directory + "/incidentctl", directory + "/../postmortem/incidentctl",
                                    directory + "/../bin/incidentctl", std::string("/usr/bin/incidentctl")})
        if (is_program(path))
            return path;
    return "";
}

Analyst::Analyst(std::unique_ptr<AnalysisProcess> process, Deliver deliver)
    : process_(std::move(process)), deliver_(std::move(deliver)), stop_fd_(::eventfd(0, EFD_CLOEXEC)),
      thread_([this] { run(); }) {}

Analyst::~Analyst() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    ::eventfd_write(stop_fd_.get(), 1);
    work_.notify_one();
    thread_.join();
}

bool Analyst::submit(std::string bundle, std::uint32_t user) {
    std::optional<Waiting> passed_over;
    {
        const std::lock_guard lock(mutex_);
        const bool full = queue_.size() >= queue_limit;
        if (full)
            ++counters_.passed_over;
        if (!process_ || (full && queue_.weight_of(user) + 1 >= queue_.weight_of(queue_.heaviest()))) {
            counters_.passed_over += !full;
            return false;
        }
        if (full)
            passed_over = queue_.drop_newest(queue_.heaviest());
        queue_.push(user, {std::move(bundle), user}, 1);
        work_.notify_one();
    }
    if (passed_over)
        deliver_(std::move(passed_over->bundle), passed_over->user, std::nullopt);
    return true;
}

std::size_t Analyst::pending() const {
    const std::lock_guard lock(mutex_);
    return queue_.size() + (busy_ ? 1 : 0);
}

AnalystCounters Analyst::counters() const {
    const std::lock_guard lock(mutex_);
    return counters_;
}

void Analyst::run() {
    std::unique_lock lock(mutex_);
    for (;;) {
        work_.wait(lock, [this] { return stop_ || !queue_.empty(); });
        if (stop_)
            return;
        const auto [bundle, user] = std::move(*queue_.pop());
        busy_ = true;
        lock.unlock();
        auto analysis = analyse(bundle);
        deliver_(bundle, user, analysis ? std::optional(std::move(*analysis)) : std::nullopt);
        lock.lock();
        busy_ = false;
        if (stop_)
            return;
        if (!analysis)
            spdlog::warn("{}: not analysed: {}", bundle, analysis.error().what);
        ++(analysis ? counters_.done : counters_.failed);
    }
}

Result<capture::BundleAnalysis> Analyst::analyse(const std::string &bundle) {
    const UniqueFd output(::memfd_create("analysis", MFD_CLOEXEC));
    if (!output)
        return fail(Error::system("memfd_create"));
    const auto child = process_->begin(bundle, output.get());
    if (!child)
        return fail(child.error());
    pollfd waiting[] = {{child->get(), POLLIN, 0}, {stop_fd_.get(), POLLIN, 0}};
    const int ready = capture::retry([&] { return ::poll(waiting, std::size(waiting), patience_ms); });
    const bool by_itself = ready > 0 && waiting[0].revents;
    const auto ended = process_->end();
    if (!by_itself)
        return fail(ready == 0 ? fmt::format("it took more than {} s", patience_ms / 1000) : "incidentd is stopping");
    if (!ended)
        return fail(ended.error().what + "; incidentctl analyse " + bundle + " says why");
    struct stat size {};
    if (::fstat(output.get(), &size) != 0)
        return fail(Error::system("memfd"));
    std::string answer_bytes(static_cast<std::size_t>(size.st_size), '\0');
    if (auto read = capture::read_all_at(output.get(), 0, answer_bytes); !read)
        return fail(std::move(read.error()).in("memfd"));
    return capture::parse_analysis_stream(std::move(answer_bytes));
}

} // namespace incident::daemon
