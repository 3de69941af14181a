#include "daemon/probe/overdue.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace incident::daemon {

namespace {

constexpr std::uint64_t slack_min_ns = 2'000'000;
constexpr std::uint64_t again_ns = 1'000'000; // a frame was being written: look again

// Saturating: a threshold may be as good as infinite.
std::uint64_t later(std::uint64_t time, std::uint64_t by) {
    return time > OverdueScanner::never - by ? OverdueScanner::never : time + by;
}

std::uint64_t with_slack(std::uint64_t due, std::uint64_t threshold) {
    return later(due, std::max(threshold / 20, slack_min_ns));
}

std::string read_line(const std::string &path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

std::string task_file(const capture::OsRoots &os, std::uint32_t tgid, std::uint32_t tid, std::string_view name) {
    return fmt::format("{}/{}/task/{}/{}", os.proc, tgid, tid, name);
}

} // namespace

void OverdueScanner::watch(Thresholds thresholds) {
    thresholds_ = std::move(thresholds);
    next_ = thresholds_.empty() ? never : 0;
    if (thresholds_.empty())
        fired_.clear();
}

OverdueScanner::Doubted OverdueScanner::doubted(std::uint32_t probe) const {
    const auto found = doubted_.find(probe);
    return found == doubted_.end() ? Doubted{} : found->second;
}

void OverdueScanner::look_at(const OverdueCall &seen, Scan &scan) {
    const auto [first, last] = thresholds_.equal_range(seen.frame.probe);
    for (auto it = first; it != last; ++it) {
        if (seen.frame.start_ns < it->second.since_ns) // its return may have come while the probe was off
            continue;
        OverdueCall call = seen;
        call.threshold_ns = it->second.threshold_ns;
        const std::uint64_t due = later(call.frame.start_ns, call.threshold_ns);
        if (due > call.now_ns) {
            next_ = std::min(next_, with_slack(due, call.threshold_ns));
            continue;
        }
        const Key key{call.thread.slot, call.frame.probe, call.thread.calls.generation, call.frame.start_ns,
                      call.threshold_ns};
        scan.still.insert(key);
        if (fired_.contains(key))
            continue;
        if (!call.pair && has_left(os_, call.thread.tgid, call.thread.tid, call.frame)) {
            ++left_unseen_;
            continue;
        }
        if (std::string why = scan.doubt ? scan.doubt(call) : ""; !why.empty()) {
            auto &doubted = doubted_[call.frame.probe];
            ++doubted.calls;
            doubted.why = std::move(why);
            continue;
        }
        scan.fire(call);
    }
}

void OverdueScanner::scan(const LatencyKernel &kernel, std::uint64_t now,
                          const std::function<void(const OverdueCall &)> &fire, const Doubt &doubt) {
    next_ = never;
    if (thresholds_.empty())
        return;
    const auto shortest =
        std::ranges::min_element(thresholds_, {}, [](const auto &entry) { return entry.second.threshold_ns; });
    const std::uint64_t threshold = shortest->second.threshold_ns;
    next_ = with_slack(later(now, threshold), threshold);
    bool busy = false;
    Scan scan{fire, doubt, {}};
    for (const auto &thread : kernel.threads(busy)) {
        for (std::uint32_t i = 0; i < thread.calls.depth && i < CALL_DEPTH; ++i)
            look_at({thread, thread.calls.frame[i], i, false, 0, now}, scan);
        for (std::uint32_t i = 0; i < CALL_DEPTH; ++i)
            if (thread.calls.pairs_used & (1u << i))
                look_at({thread, thread.calls.pair[i], thread.calls.depth, true, 0, now}, scan);
    }
    if (busy) { // what was fired of it must not fire again
        scan.still.insert(fired_.begin(), fired_.end());
        next_ = std::min(next_, now + again_ns);
    }
    fired_ = std::move(scan.still);
}

std::optional<std::uint64_t> stack_pointer_of(const capture::OsRoots &os, std::uint32_t tgid, std::uint32_t tid) {
    // "NR ARG… SP PC", "-1 SP PC" off the CPU but in no call, "running" (fs/proc/base.c)
    std::istringstream line(read_line(task_file(os, tgid, tid, "syscall")));
    std::vector<std::string> words;
    for (std::string word; words.size() < 9 && line >> word;)
        words.push_back(word);
    if (words.size() < 3)
        return std::nullopt;
    return std::strtoull(words[words.size() - 2].c_str(), nullptr, 16);
}

bool has_left(const capture::OsRoots &os, std::uint32_t tgid, std::uint32_t tid, const bpf::call_frame &frame) {
    const auto sp = stack_pointer_of(os, tgid, tid);
    // A pointer far away is of another stack: that of a signal handler.
    constexpr std::uint64_t one_stack = 64ull << 20;
    return sp && *sp > frame.sp && *sp - frame.sp < one_stack;
}

std::optional<TimeSplit> split_so_far(const capture::OsRoots &os, std::uint32_t tgid, std::uint32_t tid,
                                      const bpf::call_frame &frame, std::uint64_t now) {
    // se.sum_exec_runtime, sched_info.run_delay, sched_info.pcount
    std::istringstream line(read_line(task_file(os, tgid, tid, "schedstat")));
    std::uint64_t executed = 0, delayed = 0;
    if (!(line >> executed >> delayed) || now < frame.start_ns)
        return std::nullopt;
    const std::uint64_t elapsed = now - frame.start_ns;
    TimeSplit split;
    split.runnable_ns =
        std::min<std::uint64_t>(elapsed, delayed > frame.run_delay_ns ? delayed - frame.run_delay_ns : 0);
    split.running_ns =
        std::min<std::uint64_t>(elapsed - split.runnable_ns, executed > frame.exec_ns ? executed - frame.exec_ns : 0);
    split.blocked_ns = elapsed - split.runnable_ns - split.running_ns;
    return split;
}

} // namespace incident::daemon
