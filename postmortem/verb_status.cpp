// incidentctl status: what the running daemon does, on one screen.
#include "postmortem/control_client.h"
#include "postmortem/escape.h"
#include "postmortem/times.h"
#include "postmortem/verbs.h"

#include <algorithm>
#include <fmt/format.h>

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
        recorder();
        probes();
        losses();
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
        const JsonView self = top_["self"];
        if (self.is_object())
            out_.line(fmt::format("  itself: {} of memory, {} of CPU time", size_text(self["rss_bytes"].count()),
                                  span_text(self["cpu_ns"].count())));
    }

    void rules() {
        title(fmt::format("Rules ({})", top_["rules"].size()));
        if (top_["rules"].size() > 0) {
            Table table({"NAME", "KIND", "STATE", "FIRED", "SUPPRESSED", "SOURCE", "REASON"});
            top_["rules"].each([&](JsonView rule) {
                table.row({shown(rule["name"]), shown(rule["kind"]), shown(rule["state"]), shown(rule["fired"]),
                           shown(rule["suppressed"]), shown(rule["source"]), shown(rule["reason"])});
            });
            table.print(out_, 2);
        }
        top_["rule_errors"].each([&](JsonView error) { out_.line("  " + out_.tone(Tone::Bad, shown(error))); });
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
        out_.line(fmt::format("  {} syscalls a thread, {} of memory", recorder["syscalls_per_thread"].count(),
                              size_text(recorder["memory_bytes"].count())));
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
        for (const auto key : {"committed", "pending", "failed", "suppressed", "recovered"})
            text += fmt::format("{}{} {}", text.empty() ? "" : ", ", incidents[key].count(), key);
        title("Incidents: " + text);
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
    void declare(Options &) override {}

    Result<int> run(Session &session) override {
        const auto reply = ask_daemon(session.state, "status");
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
};

} // namespace

std::unique_ptr<Verb> make_status() {
    return std::make_unique<StatusVerb>();
}

} // namespace incident::postmortem
