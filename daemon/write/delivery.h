// Takes an incident from its snapshot to the reader: decides whether it is kept whole, light or only counted; has it
// written, joined with its core and analysed; and then reports it once.
#pragma once

#include "capture/bundle/bundle.h"
#include "daemon/os/event_loop.h"
#include "daemon/write/analyst.h"
#include "daemon/write/core_follower.h"
#include "daemon/write/hook.h"
#include "daemon/write/journal_search.h"
#include "daemon/write/manager.h"
#include "daemon/write/reporter.h"
#include "daemon/write/words_follower.h"
#include "daemon/write/writer.h"
#include "rules/engine/storm.h"
#include "rules/files/config.h"

#include <nlohmann/json_fwd.hpp>

#include <map>
#include <memory>
#include <optional>
#include <set>

namespace incident::daemon {

struct IncidentCounters {
    std::uint64_t committed = 0, failed = 0, recovered = 0;
    std::uint64_t counted = 0; // not written because the signature was seen often, see StormPolicy
    std::uint64_t removed = 0; // of those written, for room
    std::map<std::string, std::uint64_t> failed_because; // how many failed, by reason: "No space left on device"
};

// What others do for it: mostly processes of their own, because this one has no right to it.
struct DeliveryProcesses {
    // Call it before other threads are made.
    static Result<DeliveryProcesses> start(const std::string &state, const rules::Config &config);

    std::unique_ptr<AnalysisProcess> tool; // null: incidents are not analysed
    std::unique_ptr<Manager> manager;      // null: there is no hook
    BpfCodeSource bpf_code;
    GiveWay gives_way; // none: nothing does
};

class Delivery {
public:
    // incidents: those of the state directory, which only the caller uses (StateLock).  Bundles that a killed daemon
    // left half-written are removed.
    static Result<std::unique_ptr<Delivery>> open(capture::IncidentsDir incidents, const std::string &state,
                                                  const rules::Config &config, DeliveryProcesses with);
    ~Delivery();

    // Takes part in the loop from now on, and reports incidents that the last daemon wrote but could not report.
    Status attach(EventLoop &loop);
    // The time before this daemon in which nothing was recorded; every bundle says it.
    void set_gap(const std::optional<capture::Gap> &gap) { gap_ = gap; }

    // Takes an incident whose snapshot is complete.  If its rule asks for a dump, the signal has been sent or refused.
    void take(Assembly assembly);
    // Waits until everything is written and reported.  Cores that are not found yet stay "pending" in their bundles.
    // alive: is called while it waits.
    void finish(const std::function<void()> &alive);
    // Bundles that are not analysed by now are analysed by incidentctl when a reader asks.
    void end_analyses() { analyst_.reset(); }

    const IncidentCounters &counters() const { return counters_; }
    std::size_t pending() const { return writer_->pending(); }
    const std::string &directory() const { return incidents_.path(); }
    void add_status(nlohmann::ordered_json &status) const;

private:
    enum class Awaited { Nothing, Core, Analysis, Past };
    struct Untold { // a bundle that could not be reported, and is tried again
        std::uint32_t user = 0;
        std::uint64_t gap_ns = 0, due_ns = 0;
    };

    Delivery(capture::IncidentsDir incidents, const rules::Config &config);
    Status open_state(const std::string &state, DeliveryProcesses with);
    bool keep(Assembly &assembly);
    void drain(const std::function<void()> &alive);
    void on_written();
    void on_amended(const WriteResult &result);
    void on_committed(const WriteResult &result);
    void lost(const std::string &name);
    void on_reported(WriteResult &result);
    void on_told();
    void mark_reported(const std::string &bundle);
    void try_again();
    void tell_again(const std::string &bundle, const std::string &why);
    void on_cores();
    void follow_words(WantedWords wanted);
    void on_words();
    void on_overdue();
    void look_for_overdue();
    void without_words(const std::string &bundle, const std::string &why);
    void finish_words(const std::function<void()> &alive);
    // Reports the bundle if `known` was the last thing it waited for.
    void no_longer_awaits(const std::string &bundle, Awaited known);
    void report_late();

    capture::IncidentsDir incidents_;
    rules::Config config_;
    rules::StormPolicy storm_;
    std::unique_ptr<Manager> manager_; // null: there is no hook
    std::optional<Hook> hook_;
    std::optional<capture::Gap> gap_;
    std::unique_ptr<Writer> writer_;
    std::unique_ptr<Reporter> reporter_;
    std::unique_ptr<CoreSearch> cores_;
    std::unique_ptr<WordsSearch> words_;
    std::unique_ptr<Analyst> analyst_;              // passes its results to the writer
    std::map<std::string, WantedCore> core_wanted_; // of bundles that are being written
    std::map<std::string, WantedWords> words_wanted_;
    std::map<std::string, WantedWords> words_awaited_; // of bundles that are written
    struct Unreported {
        std::set<Awaited> awaited; // what must still become known before it is reported
        std::uint32_t user = 0;
    };
    std::map<std::string, Unreported> unreported_; // bundles, by name
    std::set<std::string> still_marked_;           // reported, but the mark that they are not could not be removed
    std::map<std::string, Untold> untold_;
    EventLoop::Timer search_timer_, again_timer_;
    IncidentCounters counters_;
};

} // namespace incident::daemon
