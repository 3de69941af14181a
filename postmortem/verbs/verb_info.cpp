// incidentctl info: the incident on one screen.
#include "postmortem/show/incident_text.h"
#include "postmortem/verbs/examine.h"
#include "postmortem/verbs/verbs.h"

namespace incident::postmortem {

namespace {

class Info : public Verb {
public:
    std::string_view name() const override { return "info"; }
    std::string_view summary() const override { return "Show an incident on one screen"; }

    void declare(Options &options) override {
        options.id(id_);
        options.notes("The core is looked up anew in the journal if the bundle names none that still exists.");
    }

    Result<int> run(Session &session) override {
        const auto opened = open_bundle(session, id_);
        if (!opened)
            return fail(opened.error());
        const auto explained = read_explained(session, opened->bundle);
        if (!explained)
            return fail(explained.error());
        const IncidentPage page{explained->incident, opened->bundle, opened->path,
                                locate_core(explained->incident, session), &explained->threads};
        if (session.json) {
            session.print(incident_document(page));
        } else {
            session.out.page();
            print_incident(page, session.out);
        }
        return exit_done;
    }

private:
    std::string id_;
};

} // namespace

std::unique_ptr<Verb> make_info() {
    return std::make_unique<Info>();
}

} // namespace incident::postmortem
