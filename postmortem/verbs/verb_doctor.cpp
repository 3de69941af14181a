// incidentctl doctor: finds what would prevent good incidents on this host.
#include "postmortem/doctor/host.h"
#include "postmortem/doctor/view.h"
#include "postmortem/verbs/verbs.h"

namespace incident::postmortem {

namespace {

class Doctor : public Verb {
public:
    std::string_view name() const override { return "doctor"; }
    std::string_view summary() const override { return "Say what would keep this host from giving good incidents"; }

    void declare(Options &options) override {
        options.text("--config", "FILE", questions_.config, "incidentd's configuration, as given to incidentd");
        options.value("--rules", "DIR", "directory of rule files, as given to incidentd; may be given again",
                      [this](const std::string &given) -> Status {
                          questions_.rules.push_back(given);
                          return {};
                      });
        options.notes(
            "Each line is OK, a note, a warning (warn), BAD, or could not be seen (?); below it what it means\n"
            "and the command that mends it.  Nothing is changed.  Exit code 1 if anything is bad.");
    }

    Result<int> run(Session &session) override {
        questions_.state = session.state;
        doctor::Host host;
        host.survey(questions_);
        const auto lines = doctor::look_at_everything(host);
        if (session.json) {
            session.print(doctor::to_json(lines));
        } else {
            session.out.page();
            doctor::print(lines, session.out);
        }
        return doctor::anything_bad(lines) ? exit_failed : exit_done;
    }

private:
    doctor::Questions questions_;
};

} // namespace

std::unique_ptr<Verb> make_doctor() {
    return std::make_unique<Doctor>();
}

} // namespace incident::postmortem
