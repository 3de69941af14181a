#include "daemon/write/reporter.h"

#include "capture/os/unique_fd.h"

#include <sys/eventfd.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace incident::daemon {

struct Reporter::Shared {
    Send send;
    std::chrono::milliseconds between_tries;
    UniqueFd wake;
    std::mutex mutex;
    std::condition_variable work;
    std::deque<std::pair<std::string, EntryFields>> queue;
    std::vector<Told> told;
    bool busy = false, stop = false, hurry = false;

    // For the time of a try the lock is not held.
    Status send_in_the_end(const EntryFields &entry, std::unique_lock<std::mutex> &lock) {
        for (int left = tries;;) {
            lock.unlock();
            Status sent = send(entry);
            lock.lock();
            if (sent || --left == 0 || work.wait_for(lock, between_tries, [this] { return stop || hurry; }))
                return sent;
        }
    }

    void run() {
        std::unique_lock lock(mutex);
        for (;;) {
            work.wait(lock, [this] { return stop || !queue.empty(); });
            if (stop)
                return;
            auto [name, entry] = std::move(queue.front());
            queue.pop_front();
            busy = true;
            Status sent = send_in_the_end(entry, lock);
            busy = false;
            told.push_back({std::move(name), std::move(sent)});
            ::eventfd_write(wake.get(), 1);
        }
    }
};

Reporter::Reporter(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

Result<std::unique_ptr<Reporter>> Reporter::start(Send send, std::chrono::milliseconds between_tries) {
    auto shared = std::make_shared<Shared>();
    shared->send = std::move(send);
    shared->between_tries = between_tries;
    shared->wake = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!shared->wake)
        return fail(Error::system("eventfd"));
    try {
        std::thread([shared] { shared->run(); }).detach();
    } catch (const std::system_error &error) {
        return fail(Error::system("a thread for the journal's entries", error.code().value()));
    }
    return std::unique_ptr<Reporter>(new Reporter(std::move(shared)));
}

Reporter::~Reporter() {
    const std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
    shared_->work.notify_one();
}

bool Reporter::submit(std::string name, EntryFields entry) {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->queue.size() >= most_waiting)
        return false;
    shared_->queue.emplace_back(std::move(name), std::move(entry));
    shared_->work.notify_one();
    return true;
}

void Reporter::hurry() {
    const std::lock_guard lock(shared_->mutex);
    shared_->hurry = true;
    shared_->work.notify_one();
}

std::vector<Reporter::Told> Reporter::take_told() {
    eventfd_t ignored;
    ::eventfd_read(shared_->wake.get(), &ignored);
    const std::lock_guard lock(shared_->mutex);
    return std::exchange(shared_->told, {});
}

int Reporter::fd() const {
    return shared_->wake.get();
}

std::size_t Reporter::pending() const {
    const std::lock_guard lock(shared_->mutex);
    return shared_->queue.size() + (shared_->busy ? 1 : 0) + shared_->told.size();
}

} // namespace incident::daemon
