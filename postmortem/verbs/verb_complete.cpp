// incidentctl complete: what could come next on a command line. The shells' completion scripts call it, because they
// know nothing themselves.
//
//   incidentctl complete [--describe] -- WORD…    the words after "incidentctl", up to and
//                                                 with the one being typed, "" for a new one
// It prints one candidate on each line; with --describe a tab and a description follow. It prints ":files" or
// ":directories" if the shell should complete these. If something cannot be read (no permission, no state directory,
// broken rules), there are no candidates and no messages, because messages would disturb the command line.
#include "capture/os/config_files.h"
#include "postmortem/read/incident.h"
#include "postmortem/read/json_skim.h"
#include "postmortem/terminal/escape.h"
#include "postmortem/verbs/cli.h"
#include "postmortem/verbs/verbs.h"
#include "rules/files/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace incident::postmortem {

namespace {

constexpr std::size_t description_columns = 100;

// The part of the typed words that completion needs to understand.
struct Typed {
    const KnownVerb *verb = nullptr;
    const KnownOption *wants_value = nullptr; // the word being typed is its value
    std::string state;                        // --state DIR, if it was given
    std::set<std::string> options;            // given already
    std::size_t positionals = 0;
    bool rest = false; // behind a lone "--"
    std::string prefix;
};

class Reader {
public:
    explicit Reader(const KnownWords &known) : known_(known) {}

    Typed read(std::vector<std::string> words) {
        if (words.empty())
            words.emplace_back();
        join_equal_signs(words);
        for (std::size_t i = 0; i + 1 < words.size(); ++i)
            take(words[i]);
        typed_.prefix = words.back();
        // --rule=cra: what follows the sign is completed
        const std::size_t sign = typed_.prefix.find('=');
        if (!typed_.rest && typed_.prefix.starts_with("--") && sign != std::string::npos) {
            typed_.wants_value = option(typed_.prefix.substr(0, sign));
            typed_.prefix.erase(0, sign + 1);
        }
        return typed_;
    }

private:
    // bash takes "--rule=x" apart into three words.
    static void join_equal_signs(std::vector<std::string> &words) {
        for (std::size_t i = 1; i < words.size(); ++i)
            if (words[i] == "=" && words[i - 1].starts_with("--") && words[i - 1] != "--") {
                words[i - 1] += "=" + (i + 1 < words.size() ? words[i + 1] : "");
                const auto sign = words.begin() + static_cast<std::ptrdiff_t>(i);
                words.erase(sign, std::min(sign + 2, words.end()));
            }
    }

    void take(const std::string &word) {
        if (typed_.rest)
            return;
        if (typed_.wants_value) {
            value(*typed_.wants_value, word);
            typed_.wants_value = nullptr;
        } else if (word == "--") {
            typed_.rest = true;
        } else if (word.starts_with('-')) {
            const std::size_t sign = word.find('=');
            const KnownOption *known = option(word.substr(0, sign));
            if (!known)
                return;
            typed_.options.insert(known->names.begin(), known->names.end());
            if (known->takes_value() && sign == std::string::npos)
                typed_.wants_value = known;
            else if (known->takes_value())
                value(*known, word.substr(sign + 1));
        } else if (typed_.verb) {
            ++typed_.positionals;
        } else {
            const auto found = std::ranges::find(known_.verbs, word, &KnownVerb::name);
            if (found != known_.verbs.end())
                typed_.verb = &*found;
        }
    }

    void value(const KnownOption &known, const std::string &given) {
        if (std::ranges::find(known.names, "--state") != known.names.end())
            typed_.state = given;
    }

    const KnownOption *option(const std::string &name) const {
        for (const auto *options : {typed_.verb ? &typed_.verb->options : nullptr, &known_.options}) {
            if (!options)
                continue;
            for (const KnownOption &one : *options)
                if (std::ranges::find(one.names, name) != one.names.end())
                    return &one;
        }
        return nullptr;
    }

    const KnownWords &known_;
    Typed typed_;
};

class Complete : public Verb {
public:
    std::string_view name() const override { return "complete"; }
    std::string_view summary() const override { return "What could come next, for the shells' completion"; }
    bool hidden() const override { return true; }

    void declare(Options &options) override {
        options.flag("--describe", describe_, "with a description of each, behind a tab");
        options.rest("WORD", words_);
    }

    Result<int> run(Session &session) override {
        const KnownWords known = known_words();
        const Typed typed = Reader(known).read(words_);
        Session asked = session;
        if (!typed.state.empty())
            asked.state = typed.state;
        if (typed.rest)
            offer_rest(typed, asked);
        else if (typed.wants_value)
            offer_value(typed, asked);
        else if (typed.prefix.starts_with('-'))
            offer_options(known, typed, asked);
        else if (!typed.verb)
            offer_verbs(known, typed, asked);
        else if (typed.verb->positional == "ID" && (typed.verb->many || typed.positionals == 0))
            offer_incidents(typed, asked);
        return exit_done;
    }

private:
    void offer(const Typed &typed, Session &session, std::string_view candidate, std::string_view description) const {
        if (!candidate.starts_with(typed.prefix))
            return;
        std::string line(candidate);
        if (describe_ && !description.empty())
            line += "\t" + clipped(printable(description), description_columns);
        session.out.line(line);
    }

    static void offer_rest(const Typed &typed, Session &session) {
        if (typed.verb && !typed.verb->rest.empty())
            session.out.line(":files");
    }

    void offer_verbs(const KnownWords &known, const Typed &typed, Session &session) const {
        for (const KnownVerb &verb : known.verbs)
            offer(typed, session, verb.name, verb.summary);
    }

    void offer_options(const KnownWords &known, const Typed &typed, Session &session) const {
        std::vector<KnownOption> options = typed.verb ? typed.verb->options : std::vector<KnownOption>();
        for (const KnownOption &common : known.options) {
            const bool has = std::ranges::any_of(options, [&](const auto &o) { return o.names == common.names; });
            // --version stands alone
            if (!has && !(typed.verb && common.names == std::vector<std::string>{"--version"}))
                options.push_back(common);
        }
        for (const KnownOption &option : options)
            for (const std::string &name : option.names)
                if (!typed.options.contains(name) || option.names == std::vector<std::string>{"--rules"})
                    offer(typed, session, name, option.help);
    }

    void offer_value(const Typed &typed, Session &session) const {
        const std::string &what = typed.wants_value->placeholder;
        if (what == "DIR")
            session.out.line(":directories");
        else if (what == "FILE")
            session.out.line(":files");
        else if (what == "NAME")
            offer_rules(typed, session);
    }

    // Those that are loaded from where rules are by default, and those of the incidents.
    void offer_rules(const Typed &typed, Session &session) const {
        std::map<std::string, std::string> rules;
        if (const auto dir = open_incidents(session))
            if (const auto names = dir->names())
                for (const std::string &name : *names)
                    if (const auto rule = skimmed(*dir, name)[0]; is_rule_name(rule))
                        rules.try_emplace(rule, "has recorded incidents");
        if (const auto files = capture::read_config_files(session.rules, false)) {
            std::vector<incident::rules::Source> sources;
            for (const auto &file : files->files)
                sources.push_back({file.path, file.text});
            for (const auto &rule : incident::rules::parse_rules(sources, {}).rules)
                rules[rule.name] = fmt::format("on {}{}", rule.kind, rule.enabled ? "" : ", not enabled");
        }
        for (const auto &[rule, description] : rules)
            offer(typed, session, rule, description);
    }

    void offer_incidents(const Typed &typed, Session &session) const {
        const auto dir = open_incidents(session);
        const auto names = dir ? dir->names() : fail(dir.error());
        if (!names || names->empty())
            return;
        offer(typed, session, "latest", "the newest incident");
        for (auto name = names->rbegin(); name != names->rend() && !session.out.closed(); ++name)
            if (name->starts_with(typed.prefix))
                offer(typed, session, *name, describe_ ? skimmed(*dir, *name)[1] : "");
    }

    // Rule and summary of an incident; "" where it cannot be read.
    static std::vector<std::string> skimmed(const capture::IncidentsDir &dir, const std::string &name) {
        constexpr std::array<std::string_view, 2> wanted{"rule", "summary"};
        std::vector<std::string> values;
        const auto bundle = dir.bundle(name);
        const auto text = bundle ? bundle->read("incident.json", incident_json_max) : fail(bundle.error());
        if (!text || !skim_json(*text, wanted, values))
            values.clear();
        values.resize(wanted.size());
        return values;
    }

    static bool is_rule_name(const std::string &rule) {
        return !rule.empty() && std::ranges::all_of(rule, [](char c) {
            return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
        });
    }

    bool describe_ = false;
    std::vector<std::string> words_;
};

} // namespace

std::unique_ptr<Verb> make_complete() {
    return std::make_unique<Complete>();
}

} // namespace incident::postmortem
