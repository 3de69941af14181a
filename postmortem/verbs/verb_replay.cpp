// incidentctl replay: says what edited rules would have decided about recorded incidents.
#include "capture/decode/syscalls.h"
#include "capture/os/config_files.h"
#include "capture/os/users.h"
#include "postmortem/show/recorded_firing.h"
#include "postmortem/terminal/escape.h"
#include "postmortem/verbs/verbs.h"

#include <fmt/format.h>

#include <algorithm>

namespace incident::postmortem {

namespace {

struct Asked {
    std::string id;
    std::string why_not;   // it cannot be asked about
    std::size_t index = 0; // into the recorded ones
    std::uint64_t t_ns = 0;
};

struct Words {
    const char *key, *text;
    Tone tone;
};

Words words_of(rules::Outcome outcome) {
    switch (outcome) {
    case rules::Outcome::Fire:
        return {"fire", "would fire", Tone::Good};
    case rules::Outcome::Suppressed:
        return {"suppressed", "suppressed", Tone::Warn};
    case rules::Outcome::Counted:
        return {"counted", "counted", Tone::Warn};
    case rules::Outcome::NoMatch:
        break;
    }
    return {"no", "would not fire", Tone::Dim};
}

class Replay : public Verb {
public:
    std::string_view name() const override { return "replay"; }
    std::string_view summary() const override { return "Try edited rules on recorded incidents"; }

    void declare(Options &options) override {
        options.list("ID", ids_, "bundles: names, unique prefixes, PIDs, latest; without any all of them");
        options.value("--rules", "DIR", "rules to try; may be given again, a later one's files override",
                      [this](const std::string &given) -> Status {
                          directories_.push_back(given);
                          return {};
                      });
        options.notes("Says of each rule whether it would have fired, would have been held back by its limit, or not,\n"
                      "and which condition failed.  Exit code 1 if the rules have errors.");
    }

    Result<int> run(Session &session) override {
        if (directories_.empty()) {
            session.say("replay needs --rules DIR (see 'incidentctl replay --help')");
            return exit_usage;
        }
        auto names = bundle_names(session);
        if (!names)
            return fail(names.error());
        if (auto read = read_incidents(session, *names); !read)
            return fail(read.error());
        auto parsed = parse_rules();
        if (!parsed)
            return fail(parsed.error());
        for (const auto &diagnostic : parsed->diagnostics)
            session.err.line(printable_lines(diagnostic.text(), 0));
        if (!parsed->ok())
            return exit_failed;

        std::vector<rules::Recorded> recorded;
        for (Asked &asked : asked_) {
            auto firing = recorded_firing(incidents_[asked.index], lookups_);
            if (!firing) {
                asked.why_not = firing.error().what;
                continue;
            }
            asked.t_ns = firing->event.t_ns;
            asked.index = recorded.size();
            recorded.push_back(std::move(*firing));
        }
        print(session, in_order(recorded, std::move(parsed->rules)));
        return exit_done;
    }

private:
    Result<std::vector<std::string>> bundle_names(Session &session) const {
        if (ids_.empty()) {
            const auto dir = open_incidents(session);
            if (!dir)
                return fail(dir.error());
            return dir->names();
        }
        std::vector<std::string> names;
        for (const std::string &id : ids_) {
            const auto opened = open_bundle(session, id);
            if (!opened)
                return fail(opened.error());
            names.push_back(opened->bundle.name());
        }
        std::ranges::sort(names);
        names.erase(std::ranges::unique(names).begin(), names.end());
        return names;
    }

    Status read_incidents(Session &session, const std::vector<std::string> &names) {
        for (const std::string &name : names) {
            const auto opened = open_bundle(session, name);
            auto incident = opened ? Incident::read(opened->bundle) : fail(opened.error());
            if (!incident) {
                session.say(incident.error().what);
                continue;
            }
            add_format(*incident, formats_);
            asked_.push_back({name, {}, incidents_.size(), 0});
            incidents_.push_back(std::move(*incident));
        }
        return {};
    }

    Result<rules::ParsedRules> parse_rules() {
        auto read = capture::read_config_files(directories_, true);
        if (!read)
            return fail(read.error());
        lookups_.uid_of = capture::uid_of_user;
        lookups_.syscall_names = []() -> const std::vector<std::string> & { return capture::syscall_names(); };
        // The formats the records were made by, not this machine's.
        lookups_.tracepoint_format = [this](const std::string &category, const std::string &name) {
            const auto found = formats_.find(category + ":" + name);
            return found == formats_.end() ? std::nullopt : std::optional(found->second);
        };
        std::vector<rules::Source> sources;
        for (auto &file : read->files)
            sources.push_back({std::move(file.path), std::move(file.text)});
        return rules::parse_rules(sources, lookups_);
    }

    // Bundles' names begin with the time they were made; what counts is the trigger's.
    std::vector<std::vector<rules::Replayed>> in_order(const std::vector<rules::Recorded> &recorded,
                                                       std::vector<rules::Rule> rules) {
        std::ranges::stable_sort(asked_, {}, &Asked::t_ns);
        std::vector<rules::Recorded> ordered;
        for (Asked &asked : asked_)
            if (asked.why_not.empty()) {
                ordered.push_back(recorded[asked.index]);
                asked.index = ordered.size() - 1;
            }
        return rules::replay(std::move(rules), ordered);
    }

    void print(Session &session, const std::vector<std::vector<rules::Replayed>> &answers) const {
        std::size_t fired = 0;
        for (const Asked &asked : asked_) {
            static const std::vector<rules::Replayed> none;
            const auto &rules = asked.why_not.empty() ? answers[asked.index] : none;
            fired += std::ranges::any_of(rules, [](const auto &r) { return r.outcome == rules::Outcome::Fire; });
            if (session.json) {
                auto list = nlohmann::ordered_json::array();
                for (const auto &rule : rules)
                    list.push_back({{"rule", rule.rule}, {"verdict", words_of(rule.outcome).key}, {"why", rule.why}});
                session.print(
                    nlohmann::ordered_json{{"id", asked.id},
                                           {"problem", asked.why_not.empty() ? nlohmann::ordered_json()
                                                                             : nlohmann::ordered_json(asked.why_not)},
                                           {"rules", list}});
                continue;
            }
            session.out.line(printable(asked.id));
            if (!asked.why_not.empty())
                session.out.line("  " +
                                 session.out.tone(Tone::Warn, "cannot be replayed: " + printable(asked.why_not)));
            for (const auto &rule : rules)
                session.out.line(fmt::format("  {:<20} {}{}", printable(rule.rule),
                                             session.out.tone(words_of(rule.outcome).tone, words_of(rule.outcome).text),
                                             rule.why.empty() ? "" : ": " + printable(rule.why)));
        }
        if (!session.json)
            session.out.line(fmt::format("{} of {} incidents would have been made", fired, asked_.size()));
    }

    std::vector<std::string> ids_, directories_;
    std::vector<Incident> incidents_;
    std::vector<Asked> asked_;
    TracepointFormats formats_;
    rules::Lookups lookups_;
};

} // namespace

std::unique_ptr<Verb> make_replay() {
    return std::make_unique<Replay>();
}

} // namespace incident::postmortem
