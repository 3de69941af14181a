#include "daemon/probe/detacher.h"

namespace incident::daemon {

Detacher::Detacher() = default;

Detacher::~Detacher() {
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
    }
    more_.notify_all();
    for (auto &worker : workers_)
        worker.join();
}

void Detacher::drop(std::vector<LatencyKernel::Link> links) {
    if (links.empty())
        return;
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(links));
    if (waiting_.size() > idle_ && workers_.size() < workers_max)
        workers_.emplace_back([this] { work(); });
    more_.notify_one();
}

void Detacher::work() {
    std::unique_lock lock(mutex_);
    for (;;) {
        ++idle_;
        more_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
        --idle_;
        if (waiting_.empty())
            return;
        auto links = std::move(waiting_.front());
        waiting_.pop_front();
        lock.unlock();
        for (auto &link : links)
            link.reset();
        links.clear();
        lock.lock();
    }
}

} // namespace incident::daemon
