// incidentctl wait: returns as soon as a bundle is committed.
#include "capture/bundle/bundle_name.h"
#include "postmortem/read/incident.h"
#include "postmortem/terminal/escape.h"
#include "postmortem/terminal/times.h"
#include "postmortem/verbs/incident_watch.h"
#include "postmortem/verbs/verbs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <set>
#include <sys/stat.h>

namespace incident::postmortem {

namespace {

constexpr std::int64_t just_now_ns = 5'000'000'000;
// Newer bundles than these cannot all be looked at when waiting begins in a storm.
constexpr std::size_t scanned_max = 512;

// When the bundle was written.  timeline.jsonl is never replaced later, unlike the
// directory, which changes when a late core link is added.
std::int64_t written_ns(const capture::Bundle &bundle) {
    struct stat status {};
    if (fstatat(bundle.fd(), "timeline.jsonl", &status, AT_SYMLINK_NOFOLLOW) != 0 && fstat(bundle.fd(), &status) != 0)
        return 0;
    return status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec;
}

class Wait : public Verb {
public:
    std::string_view name() const override { return "wait"; }
    std::string_view summary() const override { return "Wait until an incident is recorded, and print its name"; }

    void declare(Options &options) override {
        options.text("--rule", "NAME", rule_, "only an incident of this rule");
        options.count("--pid", "PID", pid_, "only an incident of this process, recorded at any time");
        options.duration("--timeout", "TIME", timeout_ns_, "give up after this long (30s)");
        options.notes("An incident recorded within the last 5 seconds counts too, newest first, unless an earlier\n"
                      "'wait' has returned it; so 'crash; incidentctl wait' cannot miss it.  With --pid one of any\n"
                      "time counts, returned before or not.  Exit code 1 if the time is over.");
    }

    Result<int> run(Session &session) override {
        started_ns_ = now_realtime_ns();
        const auto until =
            std::chrono::steady_clock::now() + std::chrono::nanoseconds(std::max<std::int64_t>(timeout_ns_, 0));
        // Watch first, look then: what comes in between wakes the first wait.
        auto watch = IncidentWatch::start(session.state);
        if (!watch)
            return fail(watch.error());
        for (bool first = true;; first = false) {
            const auto found = look(session, first);
            if (!found)
                return fail(found.error());
            if (!found->empty()) {
                if (session.json)
                    session.print(nlohmann::ordered_json{{"id", *found}});
                else
                    session.out.line(printable(*found));
                return exit_done;
            }
            const auto changed = watch->wait(until);
            if (!changed)
                return fail(changed.error());
            if (!*changed)
                break;
        }
        return fail(fmt::format("no incident{}{} within {}", rule_.empty() ? "" : " of rule " + rule_,
                                pid_ ? fmt::format(" of pid {}", *pid_) : "",
                                span_text(static_cast<std::uint64_t>(std::max<std::int64_t>(timeout_ns_, 0)))));
    }

private:
    // The newest bundle that counts; "" if there is none (yet).
    Result<std::string> look(const Session &session, bool first) {
        const auto dir = open_incidents(session);
        if (!dir && dir.error().code == ENOENT)
            return std::string();
        if (!dir)
            return fail(dir.error());
        const auto names = dir->names();
        if (!names)
            return fail(names.error());
        WaitedMarker marker(session.state);
        std::size_t scanned = 0;
        for (auto name = names->rbegin(); name != names->rend(); ++name) {
            // Names sort by time: the older end need not be opened again and again.
            if (!seen_.insert(*name).second || (!pid_ && first && ++scanned > scanned_max))
                continue;
            if (!matches(*dir, *name, first, marker))
                continue;
            // If two waits look back, only one may take it; if two were already waiting, both may.
            if (marker.claim(*name) || pid_ || !first)
                return *name;
        }
        return std::string();
    }

    bool matches(const capture::IncidentsDir &dir, const std::string &name, bool first,
                 const WaitedMarker &marker) const {
        const auto parsed = capture::parse_bundle_name(name);
        if (pid_ && (!parsed || parsed->pid != *pid_))
            return false;
        const auto bundle = dir.bundle(name);
        if (!bundle)
            return false;
        if (!pid_ && first && (written_ns(*bundle) < started_ns_ - just_now_ns || marker.contains(name)))
            return false;
        if (rule_.empty())
            return true;
        const auto incident = Incident::read(*bundle);
        return incident && incident->view()["rule"].text() == rule_;
    }

    std::string rule_;
    std::optional<std::uint64_t> pid_;
    std::int64_t timeout_ns_ = 30'000'000'000;
    std::int64_t started_ns_ = 0;
    std::set<std::string> seen_;
};

} // namespace

std::unique_ptr<Verb> make_wait() {
    return std::make_unique<Wait>();
}

} // namespace incident::postmortem
