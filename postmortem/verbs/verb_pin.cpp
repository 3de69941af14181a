// incidentctl pin: marks an incident that is not to be removed for space.
#include "postmortem/read/incident.h"
#include "postmortem/terminal/escape.h"
#include "postmortem/verbs/verbs.h"

namespace incident::postmortem {

namespace {

class Pin : public Verb {
public:
    std::string_view name() const override { return "pin"; }
    std::string_view summary() const override { return "Keep an incident whatever space is needed"; }

    void declare(Options &options) override {
        options.id(id_);
        options.flag("--remove", remove_, "let it go again when space is needed");
        options.notes("Needs the right to write to the state directory. \"incidentctl list\" shows what is pinned.");
    }

    Result<int> run(Session &session) override {
        const auto opened = open_bundle(session, id_);
        if (!opened)
            return fail(opened.error());
        const std::string &name = opened->bundle.name();
        auto dir = capture::IncidentsDir::at(opened->path.substr(0, opened->path.size() - name.size()) + ".");
        if (auto marked = dir ? dir->set_pinned(name, !remove_) : fail(dir.error()); !marked)
            return fail(marked.error());
        if (session.json)
            session.print(nlohmann::ordered_json{{"id", name}, {"pinned", !remove_}});
        else
            session.out.line(printable(name) + (remove_ ? " is not pinned any more" : " is pinned"));
        return exit_done;
    }

private:
    std::string id_;
    bool remove_ = false;
};

} // namespace

std::unique_ptr<Verb> make_pin() {
    return std::make_unique<Pin>();
}

} // namespace incident::postmortem
