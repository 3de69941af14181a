// incidentctl verify: checks that a bundle has not changed since it was written.
#include "postmortem/read/incident.h"
#include "postmortem/terminal/escape.h"
#include "postmortem/verbs/verbs.h"

#include <fmt/format.h>

namespace incident::postmortem {

namespace {

class Verify : public Verb {
public:
    std::string_view name() const override { return "verify"; }
    std::string_view summary() const override { return "Check a bundle against its MANIFEST"; }

    void declare(Options &options) override {
        options.id(id_);
        options.flag("--all", all_, "check every bundle");
        options.notes("Prints each problem found; exit code 1 if there is any.");
    }

    Result<int> run(Session &session) override {
        if (!all_) {
            const auto opened = open_bundle(session, id_);
            if (!opened)
                return fail(opened.error());
            const auto problems = opened->bundle.verify();
            if (!problems)
                return fail(problems.error());
            if (session.json)
                session.print(document(opened->bundle.name(), *problems));
            else
                print(opened->bundle.name(), *problems, session.out);
            return problems->empty() ? exit_done : exit_failed;
        }
        return check_all(session);
    }

private:
    static nlohmann::ordered_json document(const std::string &id, const std::vector<std::string> &problems) {
        return {{"id", id}, {"ok", problems.empty()}, {"problems", problems}};
    }

    static void print(const std::string &id, const std::vector<std::string> &problems, Output &out) {
        for (const std::string &problem : problems)
            out.line(fmt::format("{}: {}", printable(id), printable(problem)));
        if (problems.empty())
            out.line(fmt::format("{}: {}", printable(id), out.tone(Tone::Good, "ok")));
    }

    static Result<int> check_all(Session &session) {
        const auto dir = open_incidents(session);
        if (!dir)
            return fail(dir.error());
        const auto names = dir->names();
        if (!names)
            return fail(names.error());
        std::size_t bad = 0, done = 0;
        auto documents = nlohmann::ordered_json::array();
        for (const std::string &name : *names) {
            if (session.out.closed())
                break;
            if (session.err.terminal() && !session.out.terminal() && ++done % 64 == 0) {
                session.err.write(fmt::format("\rverifying {} of {} ", done, names->size()));
                session.err.flush();
            }
            const auto bundle = dir->bundle(name);
            auto problems = bundle ? bundle->verify() : fail(bundle.error());
            // What cannot even be opened is a problem of this bundle, not the end of the check.
            const std::vector<std::string> found = problems ? *problems : std::vector{problems.error().what};
            bad += !found.empty();
            if (session.json)
                documents.push_back(document(name, found));
            else
                print(name, found, session.out);
        }
        if (session.json)
            session.print(documents);
        else
            session.out.line(fmt::format("{} bundles, {} with problems", names->size(), bad));
        return bad ? exit_failed : exit_done;
    }

    std::string id_;
    bool all_ = false;
};

} // namespace

std::unique_ptr<Verb> make_verify() {
    return std::make_unique<Verify>();
}

} // namespace incident::postmortem
