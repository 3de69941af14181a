#include "daemon/write/core_search.h"

#include "capture/os/unique_fd.h"
#include "daemon/os/clocks.h"

#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <iterator>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace incident::daemon {

namespace {

constexpr std::chrono::milliseconds between_looks{100};

} // namespace

struct CoreSearch::Shared {
    explicit Shared(CoreFollower all) : follower(std::move(all)) {}

    CoreFollower follower; // the thread's own
    UniqueFd wake;
    std::mutex mutex;
    std::condition_variable work;
    std::vector<WantedCore> wanted;
    std::vector<FoundCore> found;
    bool stop = false;

    // Without memory there is no answer: what should have come by then is overdue, and the daemon goes on.
    std::vector<FoundCore> look_for(std::vector<WantedCore> added) {
        try {
            for (WantedCore &one : added)
                follower.follow(std::move(one));
            return follower.look(clock_ns(CLOCK_MONOTONIC));
        } catch (const std::exception &error) {
            spdlog::error("the search for cores: {}", error.what());
            return {};
        }
    }

    void run() {
        ::pthread_setname_np(::pthread_self(), "core search");
        std::unique_lock lock(mutex);
        for (;;) {
            const auto news = [this] { return stop || !wanted.empty(); };
            if (follower.waiting())
                work.wait_for(lock, between_looks, news);
            else
                work.wait(lock, news);
            if (stop)
                return;
            auto added = std::exchange(wanted, {});
            lock.unlock();
            auto answers = look_for(std::move(added));
            lock.lock();
            if (answers.empty())
                continue;
            found.insert(found.end(), std::move_iterator(answers.begin()), std::move_iterator(answers.end()));
            ::eventfd_write(wake.get(), 1);
        }
    }
};

CoreSearch::CoreSearch(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

Result<std::unique_ptr<CoreSearch>> CoreSearch::start(CoreFollower follower) {
    auto shared = std::make_shared<Shared>(std::move(follower));
    shared->wake = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!shared->wake)
        return fail(Error::system("eventfd"));
    try {
        std::thread([shared] { shared->run(); }).detach();
    } catch (const std::system_error &error) {
        return fail(Error::system("a thread for the search of cores", error.code().value()));
    }
    return std::unique_ptr<CoreSearch>(new CoreSearch(std::move(shared)));
}

CoreSearch::~CoreSearch() {
    const std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
    shared_->work.notify_one();
}

bool CoreSearch::follow(WantedCore wanted) {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->wanted.size() >= most_waiting)
        return false;
    until_[wanted.bundle] = wanted.give_up_ns;
    shared_->wanted.push_back(std::move(wanted));
    shared_->work.notify_one();
    return true;
}

std::vector<FoundCore> CoreSearch::take_found() {
    eventfd_t ignored;
    ::eventfd_read(shared_->wake.get(), &ignored);
    std::vector<FoundCore> found;
    {
        const std::lock_guard lock(shared_->mutex);
        found = std::exchange(shared_->found, {});
    }
    for (const FoundCore &one : found)
        until_.erase(one.bundle);
    return found;
}

int CoreSearch::fd() const {
    return shared_->wake.get();
}

std::vector<std::string> CoreSearch::overdue(std::uint64_t now_ns) {
    std::vector<std::string> names;
    std::erase_if(until_, [&](const auto &one) {
        const bool late = now_ns > one.second + patience_ns;
        if (late)
            names.push_back(one.first);
        return late;
    });
    return names;
}

} // namespace incident::daemon
