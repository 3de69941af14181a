// Runs a follower (CoreFollower, WordsFollower) on a thread of its own.  To read gigabytes of journals, or journals on
// a disk that does not answer, takes seconds or never ends, and must keep neither the event loop nor the writer from
// their work.
#pragma once

#include "capture/os/result.h"
#include "capture/os/unique_fd.h"
#include "daemon/os/clocks.h"

#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace incident::daemon {

// Follower has: Wanted (with bundle, give_up_ns) and Found (with bundle); follow(Wanted), look(now_ns) → the answers,
// more_due() → look again at once, waiting(), hurry(), which any thread may call; and thread_name.
template <typename Follower> class JournalSearch {
public:
    using Wanted = typename Follower::Wanted;
    using Found = typename Follower::Found;

    // How long after the end of a search, in nanoseconds, its answer is waited for.
    static constexpr std::uint64_t patience_ns = 10'000'000'000;

    static constexpr std::size_t most_waiting = 1024; // for the thread, not for their answers

    static Result<std::unique_ptr<JournalSearch>> start(Follower follower) {
        auto shared = std::make_shared<Shared>(std::move(follower));
        shared->wake = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        if (!shared->wake)
            return fail(Error::system("eventfd"));
        try {
            std::thread([shared] { shared->run(); }).detach();
        } catch (const std::system_error &error) {
            return fail(Error::system(std::string("a thread for the ") + Follower::thread_name, error.code().value()));
        }
        return std::unique_ptr<JournalSearch>(new JournalSearch(std::move(shared)));
    }

    // Searches that are under way are given up, and a thread that hangs is left behind.
    ~JournalSearch() {
        const std::lock_guard lock(shared_->mutex);
        shared_->stop = true;
        shared_->work.notify_one();
    }

    // false: the thread hangs, and too many wait for it.
    bool follow(Wanted wanted) {
        const std::lock_guard lock(shared_->mutex);
        if (shared_->wanted.size() >= most_waiting)
            return false;
        until_[wanted.bundle] = wanted.give_up_ns;
        shared_->wanted.push_back(std::move(wanted));
        shared_->work.notify_one();
        return true;
    }

    // From now on nothing is waited for.
    void hurry() {
        const std::lock_guard lock(shared_->mutex);
        shared_->follower.hurry();
        shared_->hurried = true;
        shared_->work.notify_one();
    }

    // When the descriptor fd() is readable.
    std::vector<Found> take_found() {
        eventfd_t ignored;
        ::eventfd_read(shared_->wake.get(), &ignored);
        std::vector<Found> found;
        {
            const std::lock_guard lock(shared_->mutex);
            found = std::exchange(shared_->found, {});
        }
        for (const Found &one : found)
            until_.erase(one.bundle);
        return found;
    }
    int fd() const { return shared_->wake.get(); }

    // Bundles whose search should have ended `patience_ns` ago, and has not: each is named once.  If its answer comes
    // after all, take_found() returns it.
    std::vector<std::string> overdue(std::uint64_t now_ns) {
        std::vector<std::string> names;
        std::erase_if(until_, [&](const auto &one) {
            const bool late = now_ns > one.second + patience_ns;
            if (late)
                names.push_back(one.first);
            return late;
        });
        return names;
    }
    bool waiting() const { return !until_.empty(); }

private:
    static constexpr std::chrono::milliseconds between_looks{100};

    struct Shared {
        explicit Shared(Follower all) : follower(std::move(all)) {}

        Follower follower; // the thread's own
        UniqueFd wake;
        std::mutex mutex;
        std::condition_variable work;
        std::vector<Wanted> wanted;
        std::vector<Found> found;
        bool stop = false, hurried = false;

        // Without memory there is no answer: what should have come by then is overdue, and the daemon goes on.
        std::vector<Found> look_for(std::vector<Wanted> added) {
            try {
                for (Wanted &one : added)
                    follower.follow(std::move(one));
                return follower.look(clock_ns(CLOCK_MONOTONIC));
            } catch (const std::exception &error) {
                spdlog::error("the {}: {}", Follower::thread_name, error.what());
                return {};
            }
        }

        void run() {
            ::pthread_setname_np(::pthread_self(), Follower::thread_name);
            std::unique_lock lock(mutex);
            for (bool was_hurried = false;;) {
                const auto news = [&] { return stop || !wanted.empty() || hurried != was_hurried; };
                if (follower.waiting() && follower.more_due())
                    ; // at once
                else if (follower.waiting())
                    work.wait_for(lock, between_looks, news);
                else
                    work.wait(lock, news);
                if (stop)
                    return;
                auto added = std::exchange(wanted, {});
                was_hurried = hurried;
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

    explicit JournalSearch(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
    std::shared_ptr<Shared> shared_;             // with the thread, which may outlive this
    std::map<std::string, std::uint64_t> until_; // when the search for each bundle is over, CLOCK_MONOTONIC
};

} // namespace incident::daemon
