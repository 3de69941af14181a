// incidentctl threads: shows every thread as it was; the one that the incident happened in comes first.
#include "capture/os/environment.h"
#include "postmortem/heap/view.h"
#include "postmortem/show/threads_view.h"
#include "postmortem/verbs/examine.h"
#include "postmortem/verbs/verbs.h"

#include <fmt/format.h>

namespace incident::postmortem {

namespace {

constexpr std::size_t frames_max = 128;

class Threads : public Verb {
public:
    std::string_view name() const override { return "threads"; }
    std::string_view summary() const override { return "Show every thread: what it did, its stacks, its registers"; }

    void declare(Options &options) override {
        options.id(id_);
        options.flag("--registers", registers_, "with all registers");
        options.flag("--fresh", anew_, "unwound and named anew, with the debug information that is here now");
        options.count("--tid", "TID", tid_, "only this thread");
    }

    Result<int> run(Session &session) override {
        const auto opened = open_bundle(session, id_);
        if (!opened)
            return fail(opened.error());
        const bool servers = anew_ && capture::environment("DEBUGINFOD_URLS") != nullptr;
        const auto explained = read_explained(session, opened->bundle, anew_, servers);
        if (!explained)
            return fail(explained.error());
        const JsonView threads = explained->threads;
        if (!threads.is_array())
            return fail("corrupt bundle " + opened->bundle.name() + ": threads.json: not a list of threads");
        auto chosen = nlohmann::json::array();
        std::size_t shown = 0;
        session.out.page();
        threads.each([&](JsonView thread) {
            if (tid_ && thread["tid"].natural() != tid_)
                return;
            ++shown;
            const JsonView heap = explained->incident.view()["heap"];
            if (session.json) {
                chosen.push_back(*thread.raw());
                if (is_triggers_thread(explained->incident.view(), thread) && heap["pointers"].is_array())
                    chosen.back()["pointers"] = *heap["pointers"].raw();
            } else if (!session.out.closed()) {
                print(thread, explained->incident.view(), session.out);
            }
        });
        if (tid_ && shown == 0)
            return fail(fmt::format("no thread {} in {}", *tid_, opened->bundle.name()));
        if (session.json)
            session.print(chosen);
        else
            print_missing(opened->bundle, shown, session.out);
        return exit_done;
    }

private:
    void print(JsonView thread, JsonView incident, Output &out) const {
        const bool triggers = is_triggers_thread(incident, thread);
        const std::string_view role = thread_role(incident, thread);
        const std::string title = fmt::format("{} {}{}{}", triggers ? "*" : " ", thread_title(thread),
                                              role == "thread" ? "" : "  ", role == "thread" ? "" : role);
        out.line(out.tone(triggers ? Tone::Bad : Tone::Bold, title));
        if (const std::string call = thread_call(thread); !call.empty())
            out.line("    " + call);
        if (const std::string requests = thread_requests(thread); !requests.empty())
            out.line("    " + requests);
        for (const std::string &line : stack_lines(thread, frames_max, panic_frames(incident, thread)))
            out.line("    " + line);
        if (const auto kernel = kernel_stack_lines(thread); !kernel.empty()) {
            out.line(out.tone(Tone::Dim, "    kernel stack:"));
            for (const std::string &line : kernel)
                out.line("      " + line);
        }
        if (registers_)
            for (const std::string &line : register_lines(thread))
                out.line("    " + line);
        if (const auto pointers = heap_register_lines(incident["heap"]); triggers && !pointers.empty()) {
            out.line(out.tone(Tone::Dim, "    pointers into the heap:"));
            for (const std::string &line : pointers)
                out.line("      " + line);
        }
        out.line("");
    }

    // threads.json holds what was captured; incident.json knows how many there were.
    void print_missing(const capture::Bundle &bundle, std::size_t shown, Output &out) const {
        const auto incident = Incident::read(bundle);
        const std::uint64_t existed = incident ? incident->view()["quality"]["threads"].count() : 0;
        if (!tid_ && existed > shown)
            out.line(out.tone(Tone::Warn,
                              fmt::format("{} of {} threads are missing from the bundle (see 'incidentctl info')",
                                          existed - shown, existed)));
    }

    std::string id_;
    std::optional<std::uint64_t> tid_;
    bool registers_ = false, anew_ = false;
};

} // namespace

std::unique_ptr<Verb> make_threads() {
    return std::make_unique<Threads>();
}

} // namespace incident::postmortem
