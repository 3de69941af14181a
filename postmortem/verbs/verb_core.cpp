// incidentctl core: writes the matching core, decompressed, to a file or a pipe.
#include "postmortem/core/core_output.h"
#include "postmortem/core/new_file.h"
#include "postmortem/terminal/escape.h"
#include "postmortem/terminal/times.h"
#include "postmortem/verbs/verbs.h"

#include <algorithm>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace incident::postmortem {

namespace {

constexpr std::int64_t default_patience_ns = 30'000'000'000;

// A comm is 15 bytes of anything, '/' included.
std::string file_name_part(std::string comm) {
    std::ranges::replace_if(
        comm, [](unsigned char c) { return !isalnum(c) && c != '.' && c != '_' && c != '-'; }, '_');
    return comm.empty() ? "unknown" : comm;
}

class Core : public Verb {
public:
    std::string_view name() const override { return "core"; }
    std::string_view summary() const override { return "Write the matching core, decompressed, to a file"; }

    void declare(Options &options) override {
        options.id(id_);
        options.text("-o,--output", "FILE", output_, "where to (default ./core.COMM.PID; - is standard output)");
        options.flag("--force", force_, "overwrite FILE");
        options.duration("--wait", "TIME", patience_ns_, "how long to wait for a core still being written (30s)");
    }

    Result<int> run(Session &session) override {
        const auto opened = open_bundle(session, id_);
        if (!opened)
            return fail(opened.error());
        const auto incident = Incident::read(opened->bundle);
        if (!incident)
            return fail(incident.error());
        SignalScope signals;
        const LocatedCore located = await_core(*incident, session, std::chrono::nanoseconds(patience_ns_),
                                               [&signals] { return signals.interrupted(); });
        if (!located.usable())
            return fail(fmt::format("no core for {}: {}{}", opened->bundle.name(), located.why_not(),
                                    located.unreachable.empty() ? "" : " (" + located.unreachable + ")"));
        if (output_ == "-")
            return to_stdout(*incident, located, session, signals);
        const std::string path =
            output_.empty() ? fmt::format("core.{}.{}", file_name_part(incident->comm()), incident->pid()) : output_;
        return to_file(*incident, located, path, session, signals);
    }

private:
    Result<int> to_stdout(const Incident &incident, const LocatedCore &located, Session &session,
                          SignalScope &signals) const {
        if (session.json)
            return usage(session, "--json and -o - exclude each other");
        if (isatty(STDOUT_FILENO))
            return usage(session, "refusing to write a core to a terminal: redirect it, or give -o FILE");
        const auto copied = fetch_core(incident, located, STDOUT_FILENO, true, "standard output", session, signals);
        return copied ? Result<int>(exit_done) : fail(copied.error());
    }

    Result<int> to_file(const Incident &incident, const LocatedCore &located, const std::string &path, Session &session,
                        SignalScope &signals) const {
        struct stat existing {};
        if (!force_ && lstat(path.c_str(), &existing) == 0) // before the work; publish() checks again
            return fail(fmt::format("{} exists already: give another -o FILE, or --force", path));
        auto file = NewFile::make(path);
        if (!file)
            return fail(file.error());
        const auto copied = fetch_core(incident, located, file->fd(), false, path, session, signals);
        if (!copied)
            return fail(copied.error());
        if (const Status published = file->publish(path, force_); !published)
            return fail(published.error());
        if (session.json)
            session.print(nlohmann::ordered_json{{"file", path},
                                                 {"bytes", copied->bytes},
                                                 {"truncated", copied->truncated || located.link.truncated},
                                                 {"join", join_name(located.link.join)},
                                                 {"source", located.link.file}});
        else
            session.out.line(fmt::format("{} ({}; {} join, from {})", printable(path), size_text(copied->bytes),
                                         join_name(located.link.join), printable(located.link.file)));
        return exit_done;
    }

    static int usage(const Session &session, const std::string &problem) {
        session.say("core: " + problem);
        return exit_usage;
    }

    std::string id_, output_;
    bool force_ = false;
    std::int64_t patience_ns_ = default_patience_ns;
};

} // namespace

std::unique_ptr<Verb> make_core() {
    return std::make_unique<Core>();
}

} // namespace incident::postmortem
