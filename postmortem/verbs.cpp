#include "postmortem/verbs.h"

#include "postmortem/escape.h"

namespace incident::postmortem {

void Session::say(std::string_view text) const {
    out.flush(); // what was printed before is read before
    err.line("incidentctl: " + printable_lines(text, 2));
    err.flush();
}

std::vector<std::unique_ptr<Verb>> all_verbs() {
    std::vector<std::unique_ptr<Verb>> verbs;
    for (const auto make : {make_status, make_list, make_info, make_timeline, make_threads, make_gdb, make_core,
                            make_analyse, make_replay, make_verify, make_wait, make_doctor, make_complete})
        verbs.push_back(make());
    return verbs;
}

} // namespace incident::postmortem
