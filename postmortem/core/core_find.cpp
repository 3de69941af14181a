#include "postmortem/core/core_find.h"

#include "capture/core/stored_core.h"
#include "postmortem/core/core_progress.h"
#include "postmortem/terminal/times.h"

#include <fmt/format.h>
#include <thread>

namespace incident::postmortem {

namespace {

constexpr std::chrono::milliseconds ask_again{250};

// Fills in what of the file is there, or why it is not to be opened.
void look_at_file(LocatedCore &located, const capture::DeathIdentity &death, const capture::OsRoots &os) {
    capture::CoreLink &link = located.link;
    link.file_bytes = 0;
    if (link.file.empty())
        return;
    const auto name = capture::StoredCoreName::parse(link.file);
    const auto stored = capture::find_stored_core(os, link.file);
    if (stored)
        link.file_bytes = stored->bytes;
    else if (stored.error().code != ENOENT)
        located.refused = stored.error().what;
    if (std::string why = name && stored ? name->contradiction(death) : ""; !why.empty())
        located.refused = why;
    if (!located.refused.empty())
        link.file_bytes = 0;
}

// ", 1.2 GiB written so far"
std::string so_far(const capture::DeathIdentity &death, const capture::OsRoots &os) {
    const auto bytes = core_bytes_so_far(death, os);
    return bytes ? fmt::format(", {} written so far", size_text(*bytes)) : "";
}

std::string seconds_text(std::chrono::nanoseconds time) {
    return span_text(static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0)));
}

// One line on a terminal, written over itself; gone when it is destroyed.
class WaitingLine {
public:
    WaitingLine(Output &err, std::chrono::nanoseconds patience) : err_(err), patience_(patience) {}
    WaitingLine(const WaitingLine &) = delete;
    ~WaitingLine() {
        if (!shown_)
            return;
        err_.write("\r\x1b[K");
        err_.flush();
    }
    void show(std::chrono::nanoseconds waited, const capture::DeathIdentity &death, const capture::OsRoots &os) {
        if (!err_.terminal())
            return;
        err_.write(fmt::format("\rwaiting for systemd-coredump to finish the core … {} s of at most {}{}\x1b[K",
                               std::chrono::duration_cast<std::chrono::seconds>(waited).count(),
                               seconds_text(patience_), so_far(death, os)));
        err_.flush();
        shown_ = true;
    }

private:
    Output &err_;
    std::chrono::nanoseconds patience_;
    bool shown_ = false;
};

} // namespace

std::string LocatedCore::why_not() const {
    if (usable())
        return "";
    if (!waited.empty())
        return link.reason.empty() ? waited : fmt::format("{}; {}", link.reason, waited);
    if (link.join == capture::Join::None)
        return link.reason.empty() ? "no core belongs to this incident" : link.reason;
    if (link.file.empty())
        return link.reason.empty() ? "its journal entry names no stored core" : link.reason;
    if (!refused.empty())
        return fmt::format("{} is not opened: {}", link.file, refused);
    return fmt::format("{} is no longer there", link.file);
}

const char *join_name(capture::Join join) {
    switch (join) {
    case capture::Join::Exact:
        return "exact";
    case capture::Join::Window:
        return "window";
    case capture::Join::None:
        break;
    }
    return "none";
}

LocatedCore locate_core(const Incident &incident, const Session &session) {
    LocatedCore stored;
    stored.link = incident.stored_core();
    const capture::DeathIdentity death = incident.death();
    look_at_file(stored, death, session.os);
    if (stored.usable() || death.signal == 0 || death.process.pid == 0 || !session.find_core)
        return stored;
    const auto live = session.find_core(death);
    if (!live) {
        stored.unreachable = live.error().what;
        return stored;
    }
    // The journal forgets; what was once proved stays so.
    if (live->join == capture::Join::None && stored.link.join != capture::Join::None)
        return stored;
    LocatedCore located;
    located.link = *live;
    look_at_file(located, death, session.os);
    // The bundle knows why there can be no core, because the daemon looked when the process died. The journal only
    // knows that it has none.
    if (live->join == capture::Join::None && !live->pending && !stored.link.pending && !stored.link.reason.empty())
        located.link.reason = stored.link.reason;
    return located;
}

LocatedCore await_core(const Incident &incident, const Session &session, std::chrono::nanoseconds patience,
                       const std::function<bool()> &interrupted) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    const capture::DeathIdentity death = incident.death();
    LocatedCore located = locate_core(incident, session);
    WaitingLine line(session.err, patience);
    while (!located.usable() && located.link.pending && located.unreachable.empty()) {
        const auto waited = Clock::now() - start;
        if (interrupted && interrupted()) {
            located.waited = "waiting for systemd-coredump was interrupted";
            break;
        }
        if (waited >= patience) {
            located.waited = fmt::format("systemd-coredump has not finished it within {}{} (--wait TIME waits longer)",
                                         seconds_text(patience), so_far(death, session.os));
            break;
        }
        line.show(waited, death, session.os);
        std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(ask_again, patience - waited));
        located = locate_core(incident, session);
    }
    return located;
}

Result<capture::CoreLink> find_in_journal(const capture::DeathIdentity &death) {
    auto journal = capture::CoreJournal::open();
    if (!journal)
        return fail(journal.error());
    return journal->find(death);
}

} // namespace incident::postmortem
