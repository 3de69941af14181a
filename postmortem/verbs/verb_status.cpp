// incidentctl status: what the running daemon does, on one screen.
#include "capture/os/dir_at.h"
#include "postmortem/core/new_file.h"
#include "postmortem/read/control_client.h"
#include "postmortem/terminal/escape.h"
#include "postmortem/terminal/times.h"
#include "postmortem/verbs/openmetrics.h"
#include "postmortem/verbs/verbs.h"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <span>
#include <sys/stat.h>

namespace incident::postmortem {

namespace {

std::string shown(JsonView view) {
    return printable(view.shown());
}

Tone tone_of(std::string_view state) {
    if (state == "active")
        return Tone::Good;
    return state == "disabled" ? Tone::Dim : state == "degraded" ? Tone::Warn : Tone::Bad;
}

class Table {
public:
    explicit Table(std::vector<std::string> titles) : rows_{std::move(titles)} {}
    void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

    // state_column is coloured by what it says.
    void print(Output &out, std::size_t state_column) const {
        std::vector<std::size_t> widths(rows_[0].size());
        for (const auto &row : rows_)
            for (std::size_t i = 0; i < row.size(); ++i)
                widths[i] = std::max(widths[i], columns(row[i]));
        for (std::size_t r = 0; r < rows_.size(); ++r) {
            std::string text = "  ";
            for (std::size_t i = 0; i < rows_[r].size(); ++i) {
                const bool last = i + 1 == rows_[r].size();
                const std::string cell = last ? rows_[r][i] : padded(rows_[r][i], widths[i]) + "  ";
                const Tone tone = r == 0 ? Tone::Dim : i == state_column ? tone_of(rows_[r][i]) : Tone::Plain;
                text += out.tone(tone, cell);
            }
            out.line(text.substr(0, text.find_last_not_of(' ') + 1));
        }
    }

private:
    std::vector<std::vector<std::string>> rows_;
};

class StatusPage {
public:
    StatusPage(const Json &reply, Output &out) : top_(reply), out_(out) {}

    void print() {
        head();
        rules();
        cost();
        recorder();
        modules();
        heaps();
        probes();
        losses();
        signatures();
        incidents();
    }

private:
    void head() {
        const std::string state = shown(top_["state"]);
        out_.line(fmt::format("{} {}: {}, pid {}, up {} since {}", out_.tone(Tone::Bold, "incidentd"),
                              shown(top_["version"]), out_.tone(state == "running" ? Tone::Good : Tone::Warn, state),
                              shown(top_["pid"]),
                              span_text(std::min<std::uint64_t>(top_["uptime_s"].count(), 1u << 31) * 1'000'000'000),
                              shown(top_["started"])));
        if (const JsonView gap = top_["gap"]; gap.is_object())
            out_.line(out_.tone(Tone::Warn,
                                fmt::format("  not recorded: {} to {}, pid {} was {}", shown(gap["from"]),
                                            shown(gap["until"]), shown(gap["pid"]),
                                            gap["stopped"].flag() ? "stopped" : "killed or the machine went down")));
        const JsonView self = top_["self"];
        if (self.is_object())
            out_.line(fmt::format("  itself: {} of memory, {} of CPU time", size_text(self["rss_bytes"].count()),
                                  span_text(self["cpu_ns"].count())));
    }

    void rules() {
        title(fmt::format("Rules ({})", top_["rules"].size()));
        if (top_["rules"].size() > 0) {
            Table table({"NAME", "KIND", "STATE", "FIRED", "SUPPRESSED", "COST", "SOURCE", "REASON"});
            top_["rules"].each([&](JsonView rule) {
                table.row({shown(rule["name"]), shown(rule["kind"]), shown(rule["state"]), shown(rule["fired"]),
                           shown(rule["suppressed"]), cost(rule["cost"]), shown(rule["source"]),
                           shown(rule["reason"])});
            });
            table.print(out_, 2);
        }
        top_["rule_errors"].each(
            [&](JsonView error) { out_.line("  " + out_.tone(Tone::Bad, printable_lines(error.shown(), 4))); });
    }

    // "350 ns x 1200/s, 0.04 % CPU"; programs are shared by all rules of a kind, probes of functions are a rule's own.
    static std::string cost(JsonView cost) {
        if (!cost.is_object())
            return "-";
        return fmt::format("{} x {}/s, {:.2f} % CPU", span_text(cost["ns_per_event"].count()),
                           cost["events_per_second"].count(), 100 * cost["cpu_share"].real());
    }

    void cost() {
        constexpr double least_shown = 0.001; // of one CPU
        const JsonView cost = top_["cost"];
        if (!cost.is_object() || !cost["measured"].is_text())
            return;
        const auto share = [](JsonView view) { return fmt::format("{:.3g} %", 100 * view.real()); };
        title("Cost");
        out_.line(fmt::format(
            "  {} of each CPU, {}; programs {} and incidentd {} of one CPU; {} of memory", share(cost["total"]),
            cost["budget"].present() ? "budget " + share(cost["budget"]) : "no budget", share(cost["programs"]),
            share(cost["daemon"]), size_text(cost["daemon_rss_bytes"].count())));
        if (const JsonView strangers = cost["strangers"]; strangers["events_per_second"].count() > 0)
            out_.line(fmt::format("  of the programs {} of one CPU for {} calls a second of processes no rule is about",
                                  share(strangers["cpu_share"]), strangers["events_per_second"].count()));
        cost["costliest"].each([&](JsonView process) {
            if (process["cpu_share"].real() >= least_shown)
                out_.line(fmt::format("  {} of one CPU for {} calls a second of pid {} ({}){}",
                                      share(process["cpu_share"]), process["calls_per_second"].count(),
                                      process["pid"].count(), shown(process["comm"]),
                                      process["durations"].flag(true) ? "" : ", without durations"));
        });
        cost["steps"].each([&](JsonView step) {
            out_.line("  " + out_.tone(Tone::Warn, shown(step["what"])) + ", since " + shown(step["since"]) + ": " +
                      shown(step["why"]));
        });
        if (const std::string advice = shown(cost["advice"]); !advice.empty())
            out_.line("  " + out_.tone(Tone::Bad, advice));
    }

    // Signatures of which some incidents were kept light or only counted.
    void signatures() {
        Table table({"SIGNATURE", "SEEN", "FULL", "LIGHT", "COUNTED"});
        bool any = false;
        top_["signatures"].each([&](JsonView line) {
            if (line["light"].count() + line["counted"].count() == 0)
                return;
            any = true;
            table.row({shown(line["signature"]), shown(line["seen"]), shown(line["full"]), shown(line["light"]),
                       shown(line["counted"])});
        });
        if (!any)
            return;
        title("Alike");
        table.print(out_, 4);
    }

    void recorder() {
        const JsonView recorder = top_["recorder"];
        if (!recorder.is_object())
            return;
        title("Recorder");
        out_.line(fmt::format("  watching {} processes; {} of {} thread slots, {} of {} processes used",
                              shown(recorder["watching"]), recorder["threads_used"].count(),
                              recorder["threads_max"].count(), recorder["processes_used"].count(),
                              recorder["processes_max"].count()));
        out_.line(fmt::format(
            "  {} of {} for calls used{}; {} of memory", size_text(recorder["calls_bytes_used"].count()),
            size_text(recorder["calls_bytes"].count()), recorder["durations"].flag(true) ? "" : ", without durations",
            size_text(recorder["memory_bytes"].count())));
        if (recorder["cost"].is_object())
            out_.line(fmt::format("  {} a syscall, {} syscalls/s, {:.2f} % of a CPU",
                                  span_text(recorder["cost"]["ns_per_syscall"].count()),
                                  recorder["cost"]["syscalls_per_second"].count(),
                                  100 * recorder["cost"]["cpu_share"].real()));
    }

    // Copies of files whose code processes have mapped.
    void modules() {
        const JsonView modules = top_["modules"];
        if (!modules["copies"].present())
            return;
        std::string line = fmt::format("  {} copies of mapped files, {}", modules["copies"].count(),
                                       size_text(modules["bytes"].count()));
        if (const auto waiting = modules["waiting"].count())
            line += fmt::format("; {} processes are still to be looked at", waiting);
        if (const auto removed = modules["removed"].count())
            line += fmt::format("; {} removed for room", removed);
        if (const auto lost = modules["not_kept"].count() + modules["missed"].count())
            line += fmt::format("; {} not kept", lost);
        out_.line(line);
        if (const std::string problem = shown(modules["problem"]); !problem.empty())
            out_.line("  not kept: " + problem);
    }

    // Processes whose rules ask for allocations = "sizes" or "history".
    void heaps() {
        const JsonView heaps = top_["heaps"], processes = heaps["processes"];
        if (processes.size() == 0)
            return;
        title(fmt::format("Heaps ({})", processes.size()));
        out_.line(fmt::format("  {} of {} of memory taken, at worst", size_text(heaps["memory_bytes"].count()),
                              size_text(heaps["memory_max"].count())));
        for (const char *level : {"sizes", "history"})
            if (const JsonView cost = heaps["cost"][level]; cost.is_object())
                out_.line(fmt::format("  at level {} an allocation costs {} more, a free {}, as measured here", level,
                                      span_text(cost["allocation_ns"].count()), span_text(cost["free_ns"].count())));
        Table table({"PID", "COMM", "LEVEL", "STATE", "CALLS", "LOST", "REASON"});
        processes.each([&](JsonView process) {
            const bool records = process["since_ns"].count() != 0;
            table.row({shown(process["pid"]), shown(process["comm"]), shown(process["level"]),
                       records ? "active" : "unavailable", shown(process["calls"]), shown(process["lost"]),
                       shown(process["reason"])});
        });
        table.print(out_, 3);
    }

    void probes() {
        if (top_["probes"].size() == 0)
            return;
        title("Probes");
        Table table({"NAME", "STATE", "RUNS", "MISSED", "PER RUN", "REASON"});
        top_["probes"].each([&](JsonView probe) {
            const std::uint64_t runs = probe["runs"].count();
            // run_ns counts only while kernel.bpf_stats_enabled is set.
            const std::uint64_t per_run = runs ? probe["run_ns"].count() / runs : 0;
            table.row({shown(probe["name"]), shown(probe["state"]), shown(probe["runs"]), shown(probe["missed"]),
                       per_run ? span_text(per_run) : "-", shown(probe["reason"])});
        });
        table.print(out_, 1);
    }

    void losses() {
        title(top_["losses"].size() ? "Losses" : "Losses: none");
        top_["losses"].each([&](JsonView loss) {
            out_.line(out_.tone(Tone::Warn, fmt::format("  {} {}: {}", shown(loss["count"]), shown(loss["where"]),
                                                        shown(loss["reason"]))));
        });
    }

    void incidents() {
        const JsonView incidents = top_["incidents"];
        if (!incidents.is_object())
            return;
        std::string text;
        for (const auto key :
             {"committed", "pending", "failed", "suppressed", "counted", "joined", "recovered", "removed"})
            text += fmt::format("{}{} {}", text.empty() ? "" : ", ", incidents[key].count(), key);
        title("Incidents: " + text);
        if (const JsonView explained = top_["analyses"]; explained.is_object())
            out_.line(fmt::format("  explained: {}, {} pending, {} failed, {} left for the reader",
                                  explained["done"].count(), explained["pending"].count(), explained["failed"].count(),
                                  explained["passed_over"].count()));
        if (const JsonView hook = top_["hook"]; hook.is_object())
            out_.line(fmt::format("  handed to {}: {}, {} failed, {} beyond the hour's number", shown(hook["unit"]),
                                  hook["started"].count(), hook["failed"].count(), hook["suppressed"].count()));
    }

    void title(const std::string &text) {
        out_.line("");
        out_.line(out_.tone(Tone::Bold, text));
    }

    JsonView top_;
    Output &out_;
};

class StatusVerb : public Verb {
public:
    std::string_view name() const override { return "status"; }
    std::string_view summary() const override { return "Show what the running incidentd does and has lost"; }
    void declare(Options &options) override {
        options.flag("--openmetrics", openmetrics_,
                     "print it as OpenMetrics; of an incidentd that does not answer "
                     "incidentd_up 0");
        options.text("-o,--output", "FILE", output_,
                     "with --openmetrics: where to, replaced in one step, for all to read");
    }

    Result<int> run(Session &session) override {
        if (!output_.empty() && !openmetrics_)
            return usage(session, "--output goes with --openmetrics");
        if (openmetrics_ && session.json)
            return usage(session, "--openmetrics and --json exclude each other");
        const auto reply = ask_daemon(session.state, "status");
        if (openmetrics_)
            return metrics(session, reply);
        if (!reply)
            return fail(reply.error());
        if (!reply->is_object())
            return fail("incidentd's answer is not a JSON object");
        if (session.json) {
            session.print(*reply);
        } else {
            session.out.page();
            StatusPage(*reply, session.out).print();
        }
        return exit_done;
    }

private:
    Result<int> metrics(Session &session, const Result<Json> &reply) const {
        if (!reply && reply.error().code == EACCES) // whether it runs is not for us to see
            return fail(reply.error());
        const bool answers = reply && reply->is_object();
        const std::string text = openmetrics(answers ? &*reply : nullptr, bundle_use(session.state));
        if (output_.empty())
            session.out.write(text);
        else if (const Status written = write_output(text); !written)
            return fail(written.error());
        if (!reply)
            return fail(reply.error());
        return answers ? Result<int>(exit_done) : fail("incidentd's answer is not a JSON object");
    }

    Status write_output(const std::string &text) const {
        auto file = NewFile::make(output_);
        if (!file)
            return fail(file.error());
        const std::span bytes(reinterpret_cast<const std::uint8_t *>(text.data()), text.size());
        if (const Status written = capture::write_all(file->fd(), bytes); !written)
            return fail(Error(written.error()).in(output_));
        if (fchmod(file->fd(), 0644) != 0)
            return fail(Error::system(output_));
        return file->publish(output_, true);
    }

    static int usage(const Session &session, const std::string &problem) {
        session.say("status: " + problem);
        return exit_usage;
    }

    bool openmetrics_ = false;
    std::string output_;
};

} // namespace

std::unique_ptr<Verb> make_status() {
    return std::make_unique<StatusVerb>();
}

} // namespace incident::postmortem
