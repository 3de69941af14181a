// The way of an incident from its snapshot to the reader: kept whole, light or only counted, written, joined with its
// core, explained, and then told to the world once.
#pragma once

#include "capture/bundle/bundle.h"
#include "daemon/os/event_loop.h"
#include "daemon/write/analyst.h"
#include "daemon/write/core_follower.h"
#include "daemon/write/hook.h"
#include "daemon/write/writer.h"
#include "rules/engine/storm.h"
#include "rules/files/config.h"

#include <nlohmann/json_fwd.hpp>

#include <map>
#include <memory>
#include <set>

namespace incident::daemon {

struct IncidentCounters {
    std::uint64_t committed = 0, failed = 0, recovered = 0;
    std::uint64_t counted = 0;                           // of a signature seen often: not written, see StormPolicy
    std::map<std::string, std::uint64_t> failed_because; // failed, by reason: "No space left on device"
};

class Delivery {
public:
    // incidents: of the state directory, which is the caller's alone (StateLock).  What a daemon that was killed has
    // left half-written is removed.
    static Result<std::unique_ptr<Delivery>> open(capture::IncidentsDir incidents, const std::string &state,
                                                  const rules::Config &config);
    ~Delivery();

    // Takes part in the loop from now on; tells of incidents that the last daemon wrote and could not tell of.
    Status attach(EventLoop &loop);
    // Before this life; stands in every bundle.
    void set_gap(const std::optional<capture::Gap> &gap) { gap_ = gap; }

    // An incident whose snapshot is complete, and whose dump, if its rule asks for one, has been sent or refused.
    void take(Assembly assembly);
    // Waits until all is written and told of; cores still looked for stay "pending" in their bundles.
    // alive: called while it goes on.
    void finish(const std::function<void()> &alive);
    // What is not explained by now incidentctl explains when asked.
    void end_analyses() { analyst_.reset(); }

    const IncidentCounters &counters() const { return counters_; }
    std::size_t pending() const { return writer_->pending(); }
    const std::string &directory() const { return incidents_.path(); }
    void add_status(nlohmann::ordered_json &status) const;

private:
    enum class Awaited { Nothing, Core, Analysis };
    struct Written { // a bundle under way whose core is to be looked for
        capture::IncidentInput input;
        std::string exe, auxv;
    };

    Delivery(capture::IncidentsDir incidents, const rules::Config &config);
    Status open_state(const std::string &state);
    bool keep(Assembly &assembly);
    void drain(const std::function<void()> &alive);
    void on_written();
    void on_committed(const WriteResult &result);
    void on_reported(const WriteResult &result);
    void on_cores();
    void settle(const std::string &bundle, Awaited known);
    void report_late();

    capture::IncidentsDir incidents_;
    rules::Config config_;
    rules::StormPolicy storm_;
    Hook hook_;
    CoreFollower cores_;
    std::optional<capture::Gap> gap_;
    std::unique_ptr<Writer> writer_;
    std::unique_ptr<Analyst> analyst_; // hands what it finds to the writer
    std::map<std::string, Written> core_wanted_;
    std::map<std::string, std::set<Awaited>> awaited_; // what is still to be known of a bundle before it is reported
    EventLoop::Timer core_timer_;
    IncidentCounters counters_;
};

} // namespace incident::daemon
