// Runs the post-mortem tool on each bundle, which unwinds stacks, finds names, gives a verdict, and makes mini.core.
// The tool is a program of its own (incidentctl analyse), because it parses what processes and their ELF files say. One
// runs at a time, at low priority and with limits, and it answers through a file without a name.  If a bundle is not
// analysed now, incidentctl does it when a reader asks.  Users take turns; if too many wait, one of the user with the
// most is passed over.
#pragma once

#include "capture/os/unique_fd.h"
#include "capture/render/bundle_analysis.h"
#include "daemon/os/fair_queue.h"
#include "daemon/write/analysis_process.h"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace incident::daemon {

struct AnalystCounters {
    std::uint64_t done = 0, failed = 0, passed_over = 0; // passed_over: not analysed because too many were waiting
};

class Analyst {
public:
    static constexpr std::size_t queue_limit = 64;
    // nullopt: the bundle could not be analysed, or was passed over.
    using Deliver =
        std::function<void(std::string name, std::uint32_t user, std::optional<capture::BundleAnalysis> analysis)>;

    // process: null if there is no tool; then no bundle is analysed.  deliver runs on the analyst's own thread, or on
    // the caller's of submit().
    Analyst(std::unique_ptr<AnalysisProcess> process, Deliver deliver);
    ~Analyst(); // ends the running tool; bundles that wait are not analysed

    // false: it will not be analysed, and deliver is not called.  It may be called for another one.
    bool submit(std::string bundle, std::uint32_t user);
    std::size_t pending() const;
    AnalystCounters counters() const;
    // The path of the tool: beside this program, in the build tree, or installed; "" if it is in none of these places.
    static std::string find_program();

private:
    void run();
    Result<capture::BundleAnalysis> analyse(const std::string &bundle);

    std::unique_ptr<AnalysisProcess> process_;
    Deliver deliver_;
    UniqueFd stop_fd_; // readable: end at once
    mutable std::mutex mutex_;
    std::condition_variable work_;
    struct Waiting {
        std::string bundle;
        std::uint32_t user;
    };
    FairQueue<Waiting> queue_; // each weighs one
    AnalystCounters counters_;
    bool busy_ = false, stop_ = false;
    std::thread thread_;
};

} // namespace incident::daemon
