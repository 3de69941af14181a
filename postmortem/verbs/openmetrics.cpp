#include "postmortem/verbs/openmetrics.h"

#include "capture/bundle/bundle.h"
#include "postmortem/terminal/escape.h"
#include "postmortem/terminal/times.h"

#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <sys/stat.h>
#include <sys/statvfs.h>

namespace incident::postmortem {

namespace {

using Labels = std::vector<std::pair<std::string_view, std::string>>;

// Escapes a label's value or a HELP text.
std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : printable(text)) {
        if (c == '\\' || c == '"')
            out += '\\';
        out += c;
    }
    return out;
}

std::string label_text(const Labels &labels) {
    std::string text;
    for (const auto &[name, value] : labels)
        text += fmt::format("{}{}=\"{}\"", text.empty() ? "{" : ",", name, escaped(value));
    return text.empty() ? text : text + "}";
}

// The samples of one family, all after each other; the same labels twice are one sample.
template <typename Value> class Family {
public:
    // unit: "", or what the name ends in, before _total.
    Family(std::string &out, std::string_view type, std::string_view name, std::string_view unit, std::string_view help)
        : out_(out), name_(name), suffix_(type == "counter" ? "_total" : "") {
        out_ += fmt::format("# TYPE {} {}\n", name, type);
        if (!unit.empty())
            out_ += fmt::format("# UNIT {} {}\n", name, unit);
        out_ += fmt::format("# HELP {} {}\n", name, escaped(help));
    }
    Family(const Family &) = delete;
    Family &operator=(const Family &) = delete;
    ~Family() {
        for (const auto &[labels, value] : samples_)
            out_ += fmt::format("{}{}{} {}\n", name_, suffix_, labels, value);
    }
    void add(const Labels &labels, Value value) { samples_[label_text(labels)] += value; }
    // One sample for each of these members, which the label names.
    void add_counts(std::string_view label, JsonView object, std::initializer_list<const char *> names) {
        for (const char *name : names)
            add({{label, name}}, object[name].count());
    }

private:
    std::string &out_;
    std::string name_, suffix_;
    std::map<std::string, Value> samples_;
};

using Whole = Family<std::uint64_t>;
using Real = Family<double>;

double seconds(std::uint64_t ns) {
    return static_cast<double>(ns) / 1e9;
}

class StatusMetrics {
public:
    StatusMetrics(JsonView status, std::string &out) : top_(status), out_(out) {}

    void write() {
        itself();
        rules();
        cost();
        incidents();
        hook();
        recorder();
        probes();
        Whole losses(out_, "counter", "incidentd_losses", "", "What could not be recorded or captured, by place.");
        top_["losses"].each([&](JsonView loss) {
            losses.add({{"where", loss["where"].shown()}, {"reason", loss["reason"].shown()}}, loss["count"].count());
        });
    }

private:
    void itself() {
        Whole(out_, "gauge", "incidentd_build_info", "", "Always 1; the version is the label's.")
            .add({{"version", top_["version"].shown()}}, 1);
        if (const auto started = parse_iso_time(top_["started"].text()))
            Real(out_, "gauge", "incidentd_start_time_seconds", "seconds", "When incidentd started, since the epoch.")
                .add({}, seconds(static_cast<std::uint64_t>(std::max<std::int64_t>(*started, 0))));
        const JsonView self = top_["self"];
        Real(out_, "counter", "incidentd_cpu_seconds", "seconds", "CPU time of the daemon itself.")
            .add({}, seconds(self["cpu_ns"].count()));
        Whole(out_, "gauge", "incidentd_resident_memory_bytes", "bytes", "Memory of the daemon itself.")
            .add({}, self["rss_bytes"].count());
    }

    void rules() {
        states("incidentd_rules", "Rules by whether they can do what they say.", top_["rules"],
               {"active", "degraded", "unavailable", "disabled"});
        Whole(out_, "gauge", "incidentd_rule_errors", "", "Errors in rule files; what they say is not in force.")
            .add({}, top_["rule_errors"].size());
        each_rule("incidentd_rule_matches", "matched", "Events that met a rule's condition.");
        each_rule("incidentd_rule_firings", "fired", "Incidents a rule has asked for.");
        each_rule("incidentd_rule_suppressions", "suppressed", "Firings a rule's limit held back.");
        Real share(
            out_, "gauge", "incidentd_rule_cpu_ratio", "ratio",
            "CPUs taken by the programs a rule needs, for the processes it is about; measured for a quarter of a "
            "second every minute.");
        top_["rules"].each([&](JsonView rule) {
            if (rule["cost"].is_object())
                share.add({{"rule", rule["name"].shown()}}, rule["cost"]["cpu_share"].real());
        });
    }

    // All these states are there, also those that nothing is in.
    void states(std::string_view name, std::string_view help, JsonView list, std::initializer_list<const char *> all) {
        Whole states(out_, "gauge", name, "", help);
        for (const char *state : all)
            states.add({{"state", state}}, 0);
        list.each([&](JsonView one) { states.add({{"state", one["state"].shown()}}, 1); });
    }

    void cost() {
        const JsonView cost = top_["cost"];
        if (!cost["measured"].is_text())
            return; // not yet
        {
            Real taken(out_, "gauge", "incidentd_cost_ratio", "ratio",
                       "CPUs taken by incidentd: by its programs in the kernel, and by itself.");
            for (const char *by : {"programs", "daemon"})
                taken.add({{"by", by}}, cost[by].real());
        }
        if (cost["budget"].present())
            Real(out_, "gauge", "incidentd_cost_budget_ratio", "ratio", "What it may take of each CPU.")
                .add({}, cost["budget"].real());
        Whole(out_, "gauge", "incidentd_cost_steps", "", "Parts left out to stay within that.")
            .add({}, cost["steps"].size());
    }

    void each_rule(std::string_view name, std::string_view key, std::string_view help) {
        Whole counts(out_, "counter", name, "", help);
        top_["rules"].each([&](JsonView rule) {
            counts.add({{"rule", rule["name"].shown()}, {"kind", rule["kind"].shown()}}, rule[key].count());
        });
    }

    void incidents() {
        const JsonView incidents = top_["incidents"], analyses = top_["analyses"];
        Whole(out_, "counter", "incidentd_incidents", "",
              "Incidents by what became of them: counted is not written because many are alike, joined has its place "
              "in another one.")
            .add_counts("outcome", incidents, {"committed", "failed", "suppressed", "counted", "joined", "recovered"});
        Whole(out_, "counter", "incidentd_incidents_removed", "", "Incidents removed to make room for newer ones.")
            .add({}, incidents["removed"].count());
        Whole(out_, "gauge", "incidentd_incidents_pending", "", "Incidents being captured or written.")
            .add({}, incidents["pending"].count());
        Whole(out_, "counter", "incidentd_analyses", "",
              "Explanations of incidents by outcome: passed_over is left for the reader to make.")
            .add_counts("outcome", analyses, {"done", "failed", "passed_over"});
        Whole(out_, "gauge", "incidentd_analyses_pending", "", "Incidents waiting to be explained.")
            .add({}, analyses["pending"].count());
    }

    void hook() {
        const JsonView hook = top_["hook"];
        if (!hook.is_object())
            return; // off
        Whole(out_, "counter", "incidentd_hooks", "", "Incidents handed to [hook] unit, by outcome.")
            .add_counts("outcome", hook, {"started", "failed", "suppressed"});
    }

    void slots(std::string_view name, std::string_view help, const std::string &which) {
        Whole slots(out_, "gauge", name, "", help);
        for (const std::string what : {"threads", "processes"})
            slots.add({{"of", what}}, top_["recorder"][what + which].count());
    }

    void recorder() {
        const JsonView recorder = top_["recorder"];
        slots("incidentd_recorder_slots", "Room for what is recorded at one time.", "_max");
        slots("incidentd_recorder_slots_used", "Of that, in use.", "_used");
        Whole(out_, "gauge", "incidentd_recorder_memory_bytes", "bytes", "Kernel memory of the recorder.")
            .add({}, recorder["memory_bytes"].count());
        const JsonView cost = recorder["cost"];
        if (!cost.is_object())
            return; // not measured yet
        Real(out_, "gauge", "incidentd_recorder_syscall_seconds", "seconds",
             "What recording adds to a system call; measured for a quarter of a second every minute.")
            .add({}, seconds(cost["ns_per_syscall"].count()));
        Real(out_, "gauge", "incidentd_recorder_cpu_ratio", "ratio", "CPUs taken by recording, measured likewise.")
            .add({}, cost["cpu_share"].real());
    }

    void each_probe(std::string_view name, std::string_view key, std::string_view help) {
        Whole counts(out_, "counter", name, "", help);
        top_["probes"].each([&](JsonView probe) {
            counts.add({{"probe", probe["name"].shown()}}, probe[key].count());
        });
    }

    void probes() {
        states("incidentd_probes", "Programs in the kernel by state.", top_["probes"],
               {"active", "degraded", "unavailable"});
        each_probe("incidentd_probe_missed_runs", "missed",
                   "Runs of a program the kernel skipped because one was running on that CPU.");
        each_probe("incidentd_probe_measured_runs", "runs", "Runs of a program while their time was measured.");
        Real time(out_, "counter", "incidentd_probe_measured_seconds", "seconds", "The time those runs took.");
        top_["probes"].each([&](JsonView probe) {
            time.add({{"probe", probe["name"].shown()}}, seconds(probe["run_ns"].count()));
        });
    }

    JsonView top_;
    std::string &out_;
};

} // namespace

std::optional<BundleUse> bundle_use(const std::string &state) {
    namespace fs = std::filesystem;
    const auto incidents = capture::IncidentsDir::open(state, false);
    const auto names = incidents ? incidents->names() : fail(incidents.error());
    if (!names)
        return std::nullopt;
    BundleUse use{.bundles = names->size()};
    std::error_code error;
    // Everything there, also bundles being written; what vanishes meanwhile takes nothing.
    for (fs::recursive_directory_iterator entry(state + "/incidents", error), end; !error && entry != end;
         entry.increment(error)) {
        struct stat st {};
        if (::lstat(entry->path().c_str(), &st) == 0)
            use.bytes += static_cast<std::uint64_t>(st.st_blocks) * 512;
    }
    struct statvfs space {};
    if (::fstatvfs(incidents->fd(), &space) == 0)
        use.free_bytes = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
    return use;
}

std::string openmetrics(const Json *status, const std::optional<BundleUse> &use) {
    std::string out;
    Whole(out, "gauge", "incidentd_up", "", "Whether incidentd answers.").add({}, status != nullptr);
    if (use) {
        Whole(out, "gauge", "incidentd_bundles", "", "Incidents kept.").add({}, use->bundles);
        Whole(out, "gauge", "incidentd_bundles_bytes", "bytes", "Disk space they take.").add({}, use->bytes);
        Whole(out, "gauge", "incidentd_free_bytes", "bytes", "Free space where they are kept.")
            .add({}, use->free_bytes);
    }
    if (status)
        StatusMetrics(*status, out).write();
    return out + "# EOF\n";
}

} // namespace incident::postmortem
