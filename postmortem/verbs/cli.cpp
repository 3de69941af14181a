#include "postmortem/verbs/cli.h"

#include "rules/text/suggest.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>
#include <fmt/format.h>

namespace incident::postmortem {

namespace {

// What a verb declared, told to CLI11.
class CliOptions : public Options {
public:
    explicit CliOptions(CLI::App &app) : app_(app) {}

    void flag(const std::string &names, bool &target, const std::string &help) override {
        app_.add_flag(names, target, help);
    }
    void value(const std::string &names, const std::string &placeholder, const std::string &help,
               std::function<Status(const std::string &)> take) override {
        const auto checked = [names, take = std::move(take)](const std::string &given) {
            if (const Status status = take(given); !status)
                throw CLI::ValidationError(names.substr(names.rfind(',') + 1), status.error().what);
        };
        app_.add_option_function<std::string>(names, checked, help)->type_name(placeholder)->take_last();
    }
    void positional(const std::string &name, std::string &target, const std::string &help) override {
        app_.add_option(name, target, help)->type_name("");
    }
    void list(const std::string &name, std::vector<std::string> &target, const std::string &help) override {
        app_.add_option(name, target, help)->type_name("");
    }
    void rest(const std::string &name, std::vector<std::string> &target) override {
        rest_ = &target;
        rest_name_ = name;
    }
    void notes(const std::string &text) override { app_.footer(text); }

    CLI::App &app() const { return app_; }
    std::vector<std::string> *rest_target() const { return rest_; }
    const std::string &rest_name() const { return rest_name_; }
    std::string usage() const { return rest_ ? " [-- " + rest_name_ + "...]" : ""; }

private:
    CLI::App &app_;
    std::vector<std::string> *rest_ = nullptr;
    std::string rest_name_;
};

// "; did you mean 'list'?" where something near enough exists.
std::string suggestion(std::string_view word, const std::vector<std::string> &known) {
    const std::string near = rules::nearest(word, known);
    return near.empty() ? "" : fmt::format("; did you mean '{}'?", near);
}

std::vector<std::string> option_names(const CLI::App &app) {
    std::vector<std::string> names;
    for (const CLI::Option *option : app.get_options())
        for (const std::string &name : option->get_lnames())
            names.push_back("--" + name);
    return names;
}

std::vector<KnownOption> known_options(const CLI::App &app) {
    std::vector<KnownOption> known;
    for (const CLI::Option *option : app.get_options()) {
        if (option->get_positional())
            continue;
        KnownOption one{.help = option->get_description()};
        for (const std::string &name : option->get_snames())
            one.names.push_back("-" + name);
        for (const std::string &name : option->get_lnames())
            one.names.push_back("--" + name);
        if (option->get_expected_max() > 0)
            one.placeholder = option->get_type_name();
        known.push_back(std::move(one));
    }
    return known;
}

class CommandLine {
public:
    explicit CommandLine(Session &session) : session_(session), verbs_(all_verbs()) {
        app_.name("incidentctl");
        app_.set_help_flag("-h,--help", "print this help, or a verb's with VERB --help");
        app_.set_version_flag("--version", "incidentctl " INCIDENTD_VERSION, "print the version");
        app_.add_option("--state", session.state, "state directory")
            ->type_name("DIR")
            ->capture_default_str()
            ->take_last();
        app_.add_flag("--json", session.json, "print JSON: one document, or one a line (list, timeline)");
        app_.get_formatter()->label("SUBCOMMAND", "VERB");
        app_.get_formatter()->column_width(26);
        app_.footer("Exit codes: 0 done, 1 not found or a failed check, 2 usage.");
        app_.allow_extras();
        for (const auto &verb : verbs_) {
            CLI::App *sub = app_.add_subcommand(std::string(verb->name()), std::string(verb->summary()));
            sub->group(verb->hidden() ? "" : "Verbs");
            sub->set_help_flag("-h,--help", "print this help");
            sub->fallthrough(); // --state and --json after the verb too
            sub->allow_extras();
            CliOptions &options = options_.emplace_back(*sub);
            verb->declare(options);
        }
    }

    KnownWords known() const {
        KnownWords words{.options = known_options(app_)};
        for (std::size_t i = 0; i < verbs_.size(); ++i) {
            if (verbs_[i]->hidden())
                continue;
            const CLI::App &app = options_[i].app();
            KnownVerb verb{.name = app.get_name(), .summary = app.get_description(), .options = known_options(app)};
            for (const CLI::Option *option : app.get_options())
                if (option->get_positional()) {
                    verb.positional = option->get_name(true);
                    verb.many = option->get_expected_max() > 1;
                }
            verb.rest = options_[i].rest_name();
            words.verbs.push_back(std::move(verb));
        }
        return words;
    }

    int run(std::vector<std::string> arguments) {
        const auto dashes = std::ranges::find(arguments, "--");
        const bool has_rest = dashes != arguments.end();
        std::vector<std::string> rest(has_rest ? dashes + 1 : dashes, arguments.end());
        arguments.erase(dashes, arguments.end());
        std::ranges::reverse(arguments); // the order CLI11's vector overload wants
        try {
            app_.parse(arguments);
        } catch (const CLI::CallForHelp &) {
            print_help();
            return exit_done;
        } catch (const CLI::CallForVersion &version) {
            session_.out.line(version.what());
            return exit_done;
        } catch (const CLI::ArgumentMismatch &error) {
            return usage(mismatch(error));
        } catch (const CLI::ParseError &error) {
            return usage(error.what());
        }
        const std::size_t chosen = this->chosen();
        const std::vector<std::string> extras = app_.remaining(true);
        if (chosen == verbs_.size())
            return extras.empty() ? usage("no verb given") : usage(unknown(extras.front(), nullptr));
        if (!extras.empty())
            return usage(unknown(extras.front(), &options_[chosen].app()));
        if (has_rest && !options_[chosen].rest_target())
            return usage(fmt::format("{} takes nothing after '--'", verbs_[chosen]->name()));
        if (has_rest)
            *options_[chosen].rest_target() = std::move(rest);
        return act(*verbs_[chosen]);
    }

private:
    std::size_t chosen() const {
        std::size_t i = 0;
        while (i < verbs_.size() && !options_[i].app().parsed())
            ++i;
        return i;
    }

    std::string unknown(const std::string &word, const CLI::App *sub) const {
        if (word.starts_with('-')) {
            std::vector<std::string> known = option_names(app_);
            if (sub)
                std::ranges::copy(option_names(*sub), std::back_inserter(known));
            const std::string name = word.substr(0, word.find('='));
            return fmt::format("unknown option '{}'{}", name, suggestion(name, known));
        }
        if (sub)
            return fmt::format("'{}' is one argument too many", word);
        std::vector<std::string> known;
        for (const auto &verb : verbs_)
            if (!verb->hidden())
                known.emplace_back(verb->name());
        return fmt::format("unknown verb '{}'{}", word, suggestion(word, known));
    }

    // CLI11 says "--rule: 1 required NAME missing".
    static std::string mismatch(const CLI::ArgumentMismatch &error) {
        const std::string text = error.what();
        const std::size_t colon = text.find(':');
        return text.ends_with(" missing") ? fmt::format("option '{}' needs a value", text.substr(0, colon)) : text;
    }

    int usage(const std::string &problem) const {
        const std::size_t index = chosen();
        const std::string verb = index < verbs_.size() ? " " + std::string(verbs_[index]->name()) : "";
        session_.say(fmt::format("{} (see 'incidentctl{} --help')", problem, verb));
        return exit_usage;
    }

    void print_help() {
        const std::size_t index = chosen();
        std::string help = app_.help();
        if (index < verbs_.size()) {
            help = options_[index].app().help("incidentctl");
            // CLI11 knows nothing of what comes after "--": it is ours.
            if (const std::size_t end = help.find('\n', help.find("Usage:")); end != std::string::npos)
                help.insert(end, options_[index].usage());
        }
        session_.out.write(help);
    }

    int act(Verb &verb) {
        std::string failure;
        try {
            const Result<int> result = verb.run(session_);
            if (result)
                return *result;
            failure = result.error().what;
        } catch (const std::exception &error) { // a verb throws nothing of its own: memory ran out
            failure = fmt::format("{}: {}", verb.name(), error.what());
        }
        session_.say(failure);
        return exit_failed;
    }

    Session &session_;
    CLI::App app_{"Reads the incident bundles that incidentd wrote.", "incidentctl"};
    std::vector<std::unique_ptr<Verb>> verbs_;
    std::deque<CliOptions> options_;
};

} // namespace

KnownWords known_words() {
    FdOutput nowhere(-1);
    Session session{.out = nowhere, .err = nowhere};
    return CommandLine(session).known();
}

int run_command_line(std::vector<std::string> arguments, Session &session) {
    return CommandLine(session).run(std::move(arguments));
}

} // namespace incident::postmortem
