#include "postmortem/core_find.h"

#include "postmortem/escape.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <thread>

namespace incident::postmortem {

namespace {

constexpr std::chrono::milliseconds ask_again{250};

std::uint64_t bytes_of(const std::string &file) {
    struct stat status {};
    return stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) ? static_cast<std::uint64_t>(status.st_size) : 0;
}

} // namespace

std::string LocatedCore::why_not() const {
    if (usable())
        return "";
    if (link.join == capture::Join::None)
        return link.reason.empty() ? "no core belongs to this incident" : link.reason;
    if (link.file.empty())
        return link.reason.empty() ? "its journal entry names no stored core" : link.reason;
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

LocatedCore locate_core(const Incident &incident, const CoreFinder &find) {
    LocatedCore stored{incident.stored_core(), ""};
    if (!stored.link.file.empty())
        stored.link.file_bytes = bytes_of(stored.link.file);
    const capture::DeathIdentity death = incident.death();
    if (stored.usable() || death.signal == 0 || death.pid == 0 || !find)
        return stored;
    const auto live = find(death);
    if (!live) {
        stored.unreachable = live.error().what;
        return stored;
    }
    // The journal forgets; what was once proved stays so.
    if (live->join == capture::Join::None && stored.link.join != capture::Join::None)
        return stored;
    LocatedCore located{*live, ""};
    if (!located.link.file.empty() && located.link.file_bytes == 0)
        located.link.file_bytes = bytes_of(located.link.file);
    // The bundle knows from the moment itself why none could come; the journal only that it has none.
    if (live->join == capture::Join::None && !live->pending && !stored.link.pending && !stored.link.reason.empty())
        located.link.reason = stored.link.reason;
    return located;
}

LocatedCore await_core(const Incident &incident, const Session &session, std::chrono::nanoseconds patience,
                       const std::function<bool()> &interrupted) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    LocatedCore located = locate_core(incident, session.find_core);
    bool shown = false;
    while (!located.usable() && located.link.pending && located.unreachable.empty()) {
        const auto waited = Clock::now() - start;
        if (waited >= patience || (interrupted && interrupted()))
            break;
        if (session.err.terminal()) {
            session.err.write(fmt::format("\rwaiting for systemd-coredump to finish the core … {} s ",
                                          std::chrono::duration_cast<std::chrono::seconds>(waited).count()));
            session.err.flush();
            shown = true;
        }
        std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(ask_again, patience - waited));
        located = locate_core(incident, session.find_core);
    }
    if (shown) {
        session.err.write("\r\x1b[K");
        session.err.flush();
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
