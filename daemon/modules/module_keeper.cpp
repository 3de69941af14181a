#include "daemon/modules/module_keeper.h"

#include "capture/collect/collectors.h"
#include "daemon/os/clocks.h"
#include "rules/model/user.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace incident::daemon {

namespace {

constexpr std::chrono::milliseconds patience{5000};
constexpr std::uint64_t longest_wait_ns = 60'000'000'000;
constexpr std::size_t missed_max = 4096;
constexpr double ns_per_s = 1e9;
constexpr int niceness = 10;

} // namespace

ModuleKeeper::ModuleKeeper(capture::OsRoots os, std::shared_ptr<KeptModules> kept)
    : os_(std::move(os)), kept_(std::move(kept)), thread_([this] { run(); }) {}

ModuleKeeper::~ModuleKeeper() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    work_.notify_one();
    thread_.join();
}

void ModuleKeeper::push(const Job &job) {
    {
        const std::lock_guard lock(mutex_);
        if (!turns_.push({rules::user_of(job.subject.uid), job.can_wait}, job))
            miss(job);
    }
    work_.notify_one();
}

void ModuleKeeper::miss(const Job &job) {
    ++missed_count_;
    if (job.key && missed_.size() < missed_max)
        missed_.push_back(*job.key);
}

void ModuleKeeper::mapped(const capture::Subject &subject, capture::UserAddress start, const bpf::module_key &key) {
    push({subject, start, key, false});
}

void ModuleKeeper::look_at(const capture::Subject &subject, bool can_wait) {
    push({subject, capture::UserAddress(), {}, can_wait});
}

std::vector<bpf::module_key> ModuleKeeper::take_missed() {
    const std::lock_guard lock(mutex_);
    return std::exchange(missed_, {});
}

ModuleKeeper::Counts ModuleKeeper::counts() const {
    const std::lock_guard lock(mutex_);
    return {turns_.size(), missed_count_};
}

double ModuleKeeper::look(const Job &job, bool &looked) const {
    constexpr double failed_s = 0.01; // what one that was in vain is taken for
    const auto cpu = capture::within<double>(job.subject, patience, [os = os_, kept = kept_, job]() -> Result<double> {
        const std::uint64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        if (auto done = kept->look_at(os, job.subject, {.at = job.start}); !done)
            return fail(done.error());
        return static_cast<double>(clock_ns(CLOCK_THREAD_CPUTIME_ID) - before) / ns_per_s;
    });
    looked = cpu.has_value();
    return cpu.value_or(failed_s);
}

void ModuleKeeper::run() {
    // Nobody waits for it; the threads that read for it inherit that.
    (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), niceness);
    std::unique_lock lock(mutex_);
    while (!stop_) {
        auto next = turns_.pop(clock_ns(CLOCK_MONOTONIC));
        if (!next) {
            work_.wait_for(lock, std::chrono::nanoseconds(std::min(turns_.wait_ns(), longest_wait_ns)));
            continue;
        }
        lock.unlock();
        bool looked = false;
        const double cpu_s = look(next->job, looked);
        lock.lock();
        turns_.charge(next->whose, cpu_s);
        if (!looked)
            miss(next->job);
    }
}

} // namespace incident::daemon
