// Writes bundles on a thread of its own, so that a slow disk never keeps the event loop from reading the ring buffer.
// The queue has a limit; incidents that do not fit are counted and logged.  Users take turns in it, and if there is no
// room, one of the user whose incidents take most gives way.
#pragma once

#include "capture/bundle/bundle.h"
#include "capture/core/core_link.h"
#include "capture/render/bundle_analysis.h"
#include "capture/render/merge_words.h"
#include "daemon/assemble/assembly.h"
#include "daemon/os/fair_queue.h"
#include "daemon/record/kernel_symbols.h"
#include "daemon/write/incident_entry.h"
#include "daemon/write/retention.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <variant>

namespace incident::daemon {

struct WriteJob {
    std::string name; // of the bundle
    Assembly incident;
    capture::CoreLink core;        // as far as it is known now
    capture::LastWords last_words; // whether they are looked for
    std::vector<std::string> redact;
    std::uint32_t user() const; // whose process it is about
};

// What has become known of a bundle after it was written: its core, its analysis, or its past.
struct AmendJob {
    std::string name;
    // std::monostate: the bundle cannot be analysed.
    std::variant<capture::CoreLink, capture::BundleAnalysis, std::monostate, capture::Past> news;
    std::uint32_t user = 0;
    std::vector<std::string> redact{}; // for a past
};
enum class News { None, Core, Analysis, Past };
News news_of(const AmendJob &job);

// Asks for the journal entry of a bundle, because its core and its analysis are known or will not come.
struct ReportJob {
    std::string name;
    std::optional<std::uint32_t> user; // none: it is not known
};

struct WriteResult {
    std::string name;
    std::optional<std::uint32_t> user{};
    bool no_room = false;   // it was not written, because others had to be
    News news = News::None; // of an AmendJob
    bool reported = false;  // of a ReportJob
    bool gone = false;      // … whose bundle was removed meanwhile
    bool light = false;
    std::string error;   // "" = done
    int error_code = 0;  // its errno, where it had one
    std::string summary; // one line, for the log
    EntryFields entry;   // of a ReportJob
    std::uint64_t took_ns = 0;
    std::uint64_t since_trigger_ns = 0; // trigger event → committed
    std::uint64_t removed = 0;          // bundles that went for it
};

class Writer {
public:
    // The limit of bytes of incidents that wait.
    static constexpr std::size_t queue_limit = 96u << 20;

    // Results are fetched with take_results() when the descriptor fd() is readable.
    static Result<std::unique_ptr<Writer>> start(capture::IncidentsDir directory, capture::OsRoots os, Budget budget,
                                                 GiveWay gives_way, BpfCodeSource bpf_code);
    ~Writer(); // finishes what is queued

    // false: the queue is full, and no user has more in it.  The incident is lost.
    bool submit(WriteJob job);
    void submit(AmendJob job);
    void submit(ReportJob job);
    std::vector<WriteResult> take_results();
    int fd() const { return wake_.get(); }
    std::size_t pending() const; // jobs whose results were not taken yet
    // Half of the limit is used, and this user has more than her share of that: her next incidents should be light.
    bool crowded(std::uint32_t user) const;

private:
    Writer(capture::IncidentsDir directory, capture::OsRoots os, Budget budget, GiveWay gives_way,
           BpfCodeSource bpf_code, UniqueFd wake);
    void run();
    using Job = std::variant<WriteJob, AmendJob, ReportJob>;
    WriteResult done(Job &job);
    WriteResult write(WriteJob &job);
    WriteResult amend(AmendJob &job);
    WriteResult report(const ReportJob &job);
    using Files = std::vector<std::pair<std::string, std::string>>; // path in the bundle, content
    Status with_room(const std::string &name, const Files &files, const std::function<Status()> &write);

    capture::IncidentsDir directory_;
    capture::OsRoots os_;
    Retention retention_; // of directory_
    BpfCodeSource bpf_code_;
    std::optional<KernelSymbols> symbols_; // the thread's own
    UniqueFd wake_;
    mutable std::mutex mutex_;
    std::condition_variable work_;
    FairQueue<Job> queue_; // WriteJobs weigh bytes
    std::vector<WriteResult> results_;
    bool busy_ = false, stop_ = false;
    std::thread thread_;
};

} // namespace incident::daemon
