// Detaches probes on threads of its own, so that nobody waits: the kernel takes about 0.1 s for each probe (RCU grace
// periods), and several at once take no longer than one.
#pragma once

#include "daemon/probe/latency_kernel.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace incident::daemon {

class Detacher {
public:
    Detacher();
    ~Detacher(); // waits until all are detached

    // They are dropped in this order, one after another.
    void drop(std::vector<LatencyKernel::Link> links);

private:
    static constexpr unsigned workers_max = 16;

    void work();

    std::mutex mutex_;
    std::condition_variable more_;
    std::deque<std::vector<LatencyKernel::Link>> waiting_;
    std::vector<std::thread> workers_; // started as needed
    unsigned idle_ = 0;
    bool ending_ = false;
};

} // namespace incident::daemon
