// incidentctl gdb: gdb on the core, at the thread that died, knowing what led to it.
#include "capture/collect.h"
#include "postmortem/core_output.h"
#include "postmortem/escape.h"
#include "postmortem/gdb_script.h"
#include "postmortem/incident_text.h"
#include "postmortem/temp_dir.h"
#include "postmortem/verbs.h"

#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace incident::postmortem {

namespace {

constexpr std::string_view deleted_suffix = " (deleted)"; // as the kernel marks /proc/PID/exe

Status write_file(const std::string &path, std::string_view text) {
    const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!fd || write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
        return fail(Error::system("cannot write " + path));
    return {};
}

struct Executable {
    std::string path;    // "": let gdb look for it by the core's build-id
    std::string warning; // what is not as it should be
};

// The program that died, if it is still the same file.
Executable find_executable(const Incident &incident) {
    std::string path = incident.exe();
    const bool was_deleted = path.ends_with(deleted_suffix);
    if (was_deleted)
        path.erase(path.size() - deleted_suffix.size());
    if (!path.starts_with('/'))
        return {"", "the bundle does not say which program it was; gdb looks for it by the core's build-id"};
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    struct stat status {};
    if (!fd || fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode))
        return {"", fmt::format("{} is not there (any more); gdb looks for it by the core's build-id", path)};
    const std::string expected(incident.view()["process"]["build_id"].text());
    const std::string found = capture::build_id_of_file(fd.get());
    if (!expected.empty() && found != expected)
        return {path, fmt::format("{} has changed since (build-id {}, it was {}): names and lines may be wrong", path,
                                  found.empty() ? "none" : found, expected)};
    if (expected.empty() && was_deleted)
        return {path, fmt::format("{} had been deleted or replaced when it died: names and lines may be wrong", path)};
    return {path, ""};
}

class Gdb : public Verb {
public:
    std::string_view name() const override { return "gdb"; }
    std::string_view summary() const override { return "Open the matching core in gdb, with the incident's commands"; }

    void declare(Options &options) override {
        options.id(id_);
        options.duration("--wait", "TIME", patience_ns_, "how long to wait for a core still being written (30s)");
        options.rest("GDB ARGS", arguments_);
        options.notes(
            "What follows -- goes to gdb: incidentctl gdb latest -- -batch -ex bt\n"
            "The core is decompressed to a private directory in $TMPDIR (else /var/tmp), removed afterwards.\n"
            "In gdb: incident summary | timeline | threads | files | signals | quality");
    }

    Result<int> run(Session &session) override {
        if (session.json) {
            session.say("gdb has no JSON output; 'incidentctl --json info' tells about the core");
            return exit_usage;
        }
        const auto opened = open_bundle(session, id_);
        if (!opened)
            return fail(opened.error());
        const auto incident = Incident::read(opened->bundle);
        if (!incident)
            return fail(incident.error());
        SignalScope signals; // outlives the temporary directory, which must not survive us
        const LocatedCore located = await_core(*incident, session, std::chrono::nanoseconds(patience_ns_),
                                               [&signals] { return signals.interrupted(); });
        if (!located.usable()) {
            print_incident({*incident, opened->bundle, opened->path, located}, session.out);
            return fail(fmt::format("no core to open: {}{}", located.why_not(),
                                    located.unreachable.empty() ? "" : " (" + located.unreachable + ")"));
        }
        return debug(*incident, opened->path, located, session, signals);
    }

private:
    Result<int> debug(const Incident &incident, const std::string &bundle_path, const LocatedCore &located,
                      Session &session, SignalScope &signals) const {
        const auto temporary = TempDir::make();
        if (!temporary)
            return fail(temporary.error());
        const std::string core = temporary->path() + "/core", script = temporary->path() + "/incident.py";
        if (const Status written = write_file(script, gdb_script); !written)
            return fail(written.error());
        {
            const UniqueFd fd(open(core.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
            if (!fd)
                return fail(Error::system("cannot create " + core));
            const auto copied = fetch_core(located, fd.get(), false,
                                           temporary->path() + " (TMPDIR names another place)", session, signals);
            if (!copied)
                return fail(copied.error());
        }
        const Executable executable = find_executable(incident);
        if (!executable.warning.empty())
            session.say(executable.warning);
        return run_gdb(command_line(executable.path, core, script), bundle_path, located, session, signals);
    }

    std::vector<std::string> command_line(const std::string &executable, const std::string &core,
                                          const std::string &script) const {
        std::vector<std::string> command{"gdb", "-q"};
        if (!executable.empty())
            command.insert(command.end(), {"-se", executable});
        command.insert(command.end(), {"-c", core, "-x", script});
        command.insert(command.end(), arguments_.begin(), arguments_.end());
        return command;
    }

    static Result<int> run_gdb(const std::vector<std::string> &command, const std::string &bundle_path,
                               const LocatedCore &located, Session &session, SignalScope &signals) {
        session.out.flush();
        char *absolute = realpath(bundle_path.c_str(), nullptr);
        const std::string path = absolute ? absolute : bundle_path;
        free(absolute);
        const auto child = spawn(command, {.environment = {{"INCIDENT_BUNDLE", path},
                                                           {"INCIDENT_CORE", located.link.file},
                                                           {"INCIDENT_CORE_JOIN", join_name(located.link.join)}}});
        if (!child && child.error().code == ENOENT)
            return fail("gdb is not installed (Debian: apt install gdb)");
        if (!child)
            return fail(child.error());
        const auto status = signals.wait(*child);
        if (!status)
            return fail(status.error());
        return WIFEXITED(*status) && WEXITSTATUS(*status) == 0 ? exit_done : exit_failed;
    }

    std::string id_;
    std::vector<std::string> arguments_;
    std::int64_t patience_ns_ = 30'000'000'000;
};

} // namespace

std::unique_ptr<Verb> make_gdb() {
    return std::make_unique<Gdb>();
}

} // namespace incident::postmortem
