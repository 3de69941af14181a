// incidentctl analyse: unwinds, names and explains an incident with what is installed now.
#include "capture/os/environment.h"
#include "postmortem/show/threads_view.h"
#include "postmortem/show/verdict_view.h"
#include "postmortem/terminal/escape.h"
#include "postmortem/verbs/examine.h"
#include "postmortem/verbs/verbs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <set>

namespace incident::postmortem {

namespace {

constexpr std::size_t shown_frames_max = 256;

class Analyse : public Verb {
public:
    std::string_view name() const override { return "analyse"; }
    std::string_view summary() const override {
        return "Explain an incident anew, with the debug information that is here now";
    }

    void declare(Options &options) override {
        options.id(id_);
        options.flag("--stream", stream_, "for incidentd: the whole of it, mini.core included, for the bundle");
        options.notes("The daemon has each bundle analysed when it is written; this is for when debug symbols\n"
                      "were installed since, or on another machine.  With DEBUGINFOD_URLS set the servers are asked.\n"
                      "The bundle stays as it is.");
    }

    Result<int> run(Session &session) override {
        const auto opened = open_bundle(session, id_);
        if (!opened)
            return fail(opened.error());
        const auto incident = Incident::read(opened->bundle);
        if (!incident)
            return fail(incident.error());
        const auto examination = examine(opened->bundle, *incident,
                                         {.mini_core = stream_,
                                          .debuginfod = !stream_ && capture::environment("DEBUGINFOD_URLS") != nullptr,
                                          .install_hints = true,
                                          .kept_modules = kept_modules_of(session)});
        if (!examination)
            return fail(examination.error());
        if (stream_)
            return write_stream(*examination);
        if (session.json) {
            session.print(bundle_analysis(*examination).document);
            return exit_done;
        }
        session.out.page();
        print(*examination, session.out);
        return exit_done;
    }

private:
    static Result<int> write_stream(const Examination &examination) {
        const auto analysis = bundle_analysis(examination);
        const std::string stream = capture::analysis_stream(analysis.document, analysis.files);
        for (std::string_view rest(stream); !rest.empty();) {
            const ssize_t count = ::write(STDOUT_FILENO, rest.data(), rest.size());
            if (count < 0 && errno != EINTR)
                return fail(Error::system("standard output"));
            rest.remove_prefix(count > 0 ? static_cast<std::size_t>(count) : 0);
        }
        return exit_done;
    }

    static void print(const Examination &examination, Output &out) {
        const Json verdict = to_json(examination.verdict);
        for (const std::string &line : verdict_lines(verdict))
            out.line(line);
        if (!examination.verdict.claims.empty())
            out.line("");
        for (const ThreadStack &stack : examination.analysis.threads) {
            const Json json = {{"tid", stack.tid}, {"stack", to_json(stack)}};
            out.line(out.tone(Tone::Bold, fmt::format("thread {}", stack.tid)));
            for (const std::string &line : stack_lines(json, shown_frames_max))
                out.line("    " + line);
            out.line("");
        }
        print_missing(examination.analysis, out);
        for (const std::string &note : examination.analysis.notes)
            out.line("note: " + printable(note));
    }

    // Says which debug information would improve the stacks, and how to get it.
    static void print_missing(const Analysis &analysis, Output &out) {
        std::set<std::string> commands;
        for (const ModuleState &module : analysis.modules) {
            const bool has_file = module.file == "used" || module.file == "kept copy" || module.file == "debuginfod";
            if (!module.on_a_stack || (has_file && module.debug != "none"))
                continue;
            out.line(fmt::format(
                "no {} for {} (build-id {})", has_file ? "debug information" : "file: " + printable(module.file),
                printable(module.path), module.build_id.empty() ? "unknown" : printable(module.build_id)));
            if (!module.install.empty() && commands.insert(module.install).second)
                out.line("    " + printable(module.install));
        }
    }

    std::string id_;
    bool stream_ = false;
};

} // namespace

std::unique_ptr<Verb> make_analyse() {
    return std::make_unique<Analyse>();
}

} // namespace incident::postmortem
