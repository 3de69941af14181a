// incidentctl gdb: starts gdb on the core, at the thread that died, with commands that show what led to it.
#include "capture/collect/collect.h"
#include "capture/os/process_files.h"
#include "postmortem/core/core_output.h"
#include "postmortem/core/core_returns.h"
#include "postmortem/core/temp_dir.h"
#include "postmortem/gdb/gdb_script.h"
#include "postmortem/image/debugger_files.h"
#include "postmortem/show/incident_text.h"
#include "postmortem/verbs/examine.h"
#include "postmortem/verbs/verbs.h"

#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
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
    const auto file = capture::open_regular(-1, path);
    if (!file)
        return {"", fmt::format("{} is not there (any more); gdb looks for it by the core's build-id", path)};
    const std::string expected(incident.view()["process"]["build_id"].text());
    const std::string found = capture::build_id_of_file(file->get());
    if (!expected.empty() && found != expected)
        return {path, fmt::format("{} has changed since (build-id {}, it was {}): names and lines may be wrong", path,
                                  found.empty() ? "none" : found, expected)};
    if (expected.empty() && was_deleted)
        return {path, fmt::format("{} had been deleted or replaced when it died: names and lines may be wrong", path)};
    if (expected.empty() && !found.empty()) // a container's, for which another stands here
        return {path,
                fmt::format("{} has a build-id, and of the program that died none is known: names and lines may be "
                            "wrong",
                            path)};
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
        options.flag("--mini", mini_, "the bundle's own mini.core (registers, stacks), even if there is a full one");
        options.notes(
            "What follows -- goes to gdb: incidentctl gdb latest -- -batch -ex bt\n"
            "The core is decompressed to a private directory in $TMPDIR (else /var/tmp), removed afterwards.\n"
            "Where there is none, the bundle's mini.core is opened, if it has one.\n"
            "In gdb: help incident");
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
        const Opening opening{*incident, *opened, session, signals};
        if (mini_) {
            const std::string mini = opening.mini_core();
            return mini.empty() ? fail("the bundle has no mini.core") : debug(opening, {mini, "mini", ""});
        }
        const LocatedCore located = await_core(*incident, session, std::chrono::nanoseconds(patience_ns_),
                                               [&signals] { return signals.interrupted(); });
        if (located.usable())
            return debug_full(opening, located);
        const std::string why =
            fmt::format("{}{}", located.why_not(), located.unreachable.empty() ? "" : " (" + located.unreachable + ")");
        if (const std::string mini = opening.mini_core(); !mini.empty() && !signals.interrupted())
            return debug_mini(opening, mini, "no core to open: " + why);
        print_incident({*incident, opened->bundle, opened->path, located}, session.out);
        return fail("no core to open: " + why);
    }

private:
    struct Opening {
        const Incident &incident;
        const OpenedBundle &bundle;
        Session &session;
        SignalScope &signals;

        // "" the bundle has none.  As it stands now: the analysis may add it while the core is waited for.
        std::string mini_core() const {
            return bundle.bundle.size("mini.core").value_or(0) ? absolute(bundle.path) + "/mini.core" : "";
        }
    };
    struct OpenCore {
        std::string file;
        std::string join;   // "exact", "window"; "mini"
        std::string source; // the file it was copied from; "" itself
        const std::string &shown() const { return source.empty() ? file : source; }
    };

    static std::string absolute(const std::string &path) {
        char *resolved = realpath(path.c_str(), nullptr);
        std::string result = resolved ? resolved : path;
        free(resolved);
        return result;
    }

    Result<int> debug_mini(const Opening &opening, const std::string &mini, const std::string &why) const {
        opening.session.say(why + "; using the bundle's mini.core: registers, stacks, what registers point at");
        return debug(opening, {mini, "mini", ""});
    }

    Result<int> debug_full(const Opening &opening, const LocatedCore &located) const {
        const auto temporary = TempDir::make();
        if (!temporary)
            return fail(temporary.error());
        const std::string core = temporary->path() + "/core";
        Result<CopiedCore> copied = fail("");
        {
            const UniqueFd fd(open(core.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
            if (!fd)
                return fail(Error::system("cannot create " + core));
            copied = fetch_core(opening.incident, located, fd.get(), false,
                                temporary->path() + " (TMPDIR names another place)", opening.session, opening.signals);
            if (copied)
                put_returns_right(opening, fd.get());
        }
        if (!copied) {
            const std::string mini = opening.mini_core();
            if (mini.empty() || opening.signals.interrupted())
                return fail(copied.error());
            unlink(core.c_str()); // what there is of it
            return debug_mini(opening, mini, copied.error().what);
        }
        if ((copied->truncated || located.link.truncated) && !opening.mini_core().empty())
            opening.session.say("--mini opens the bundle's mini.core instead: registers and stacks as captured");
        return debug(opening, {core, join_name(located.link.join), located.link.file});
    }

    // Restores return addresses that probes had replaced, in gdb's copy of the core.
    static void put_returns_right(const Opening &opening, int core) {
        const auto threads = read_json(opening.bundle.bundle, "threads.json", threads_json_max);
        if (!threads)
            return; // gdb's commands will say so
        const std::vector<ReplacedReturn> returns = replaced_returns(*threads);
        if (const auto put = postmortem::put_returns_right(core, returns); !put)
            opening.session.say("stacks end at functions whose return was probed: " + put.error().what);
    }

    // Scripts of its own, not those the bundle has: it may come from elsewhere, and they are programs.
    Result<int> debug(const Opening &opening, const OpenCore &core) const {
        const auto scripts = TempDir::make();
        if (!scripts)
            return fail(scripts.error());
        for (const GdbFile &file : gdb_files)
            if (const Status written = write_file(fmt::format("{}/{}", scripts->path(), file.name), file.text);
                !written)
                return fail(written.error());
        DebuggerFiles files;
        if (const auto image = read_crash_image(opening.bundle.bundle, opening.incident)) {
            auto found = debugger_files(*image, open_module_files(*image, "", kept_modules_of(opening.session)),
                                        scripts->path());
            if (!found)
                return fail(found.error());
            files = std::move(*found);
        } // else gdb finds what it can
        Executable executable{files.executable, files.warning};
        if (executable.path.empty() && executable.warning.empty())
            executable = find_executable(opening.incident);
        if (!executable.warning.empty())
            opening.session.say(executable.warning);
        return run_gdb(executable.path, core, files, scripts->path() + "/incident.py", opening);
    }

    // The script loads the program and the core: gdb itself would show what they hold as it is, also what a terminal
    // acts upon.
    Result<int> run_gdb(const std::string &executable, const OpenCore &core, const DebuggerFiles &files,
                        const std::string &script, const Opening &opening) const {
        std::vector<std::string> command{"gdb", "-q", "-x", script};
        command.insert(command.end(), arguments_.begin(), arguments_.end());
        opening.session.out.flush();
        const auto child = spawn(command, {.environment = {{"INCIDENT_BUNDLE", absolute(opening.bundle.path)},
                                                           {"INCIDENT_CORE", core.shown()},
                                                           {"INCIDENT_CORE_JOIN", core.join},
                                                           {"INCIDENT_OPEN_SYSROOT", files.sysroot},
                                                           {"INCIDENT_OPEN_LIBRARIES", files.libraries},
                                                           {"INCIDENT_OPEN_MODULES", files.list},
                                                           {"INCIDENT_OPEN_PROGRAM", executable},
                                                           {"INCIDENT_OPEN_CORE", core.file}}});
        if (!child && child.error().code == ENOENT)
            return fail("gdb is not installed (Debian: apt install gdb)");
        if (!child)
            return fail(child.error());
        const auto status = opening.signals.wait(*child);
        if (!status)
            return fail(status.error());
        return WIFEXITED(*status) && WEXITSTATUS(*status) == 0 ? exit_done : exit_failed;
    }

    std::string id_;
    std::vector<std::string> arguments_;
    bool mini_ = false;
    std::int64_t patience_ns_ = 30'000'000'000;
};

} // namespace

std::unique_ptr<Verb> make_gdb() {
    return std::make_unique<Gdb>();
}

} // namespace incident::postmortem
