// Has each bundle explained by the post-mortem tool: stacks unwound, names, a verdict, mini.core.
// The tool is a program of its own (incidentctl analyse), for it parses what processes and their
// ELF files say: it runs one at a time, at low priority, with limits, and answers through a file
// that is nowhere in the file system.  What it cannot do now incidentctl does when asked.
#pragma once

#include "capture/os/unique_fd.h"
#include "capture/render/bundle_analysis.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace incident::daemon {

struct AnalystCounters {
    std::uint64_t done = 0, failed = 0, passed_over = 0; // passed over: too many were waiting
};

class Analyst {
public:
    static constexpr std::size_t queue_limit = 64;
    // nullopt: it could not be done.
    using Deliver = std::function<void(std::string name, std::optional<capture::BundleAnalysis> analysis)>;

    // program: "" = none, nothing is ever done.  deliver runs on the analyst's own thread.
    Analyst(std::string program, std::string state, Deliver deliver);
    ~Analyst(); // ends the tool that runs; what waits is not done

    bool submit(std::string bundle); // false: it will not be done, and not be delivered
    std::size_t pending() const;
    AnalystCounters counters() const;
    // Where the tool is: beside this program, in a build tree's place for it, or installed; "" nowhere.
    static std::string find_program();

private:
    void run();
    Result<capture::BundleAnalysis> analyse(const std::string &bundle);

    std::string program_, state_;
    Deliver deliver_;
    UniqueFd stop_fd_; // readable: end at once
    mutable std::mutex mutex_;
    std::condition_variable work_;
    std::deque<std::string> queue_;
    AnalystCounters counters_;
    bool busy_ = false, stop_ = false;
    std::thread thread_;
};

} // namespace incident::daemon
