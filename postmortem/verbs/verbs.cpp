#include "postmortem/verbs/verbs.h"

namespace incident::postmortem {

std::vector<std::unique_ptr<Verb>> all_verbs() {
    std::vector<std::unique_ptr<Verb>> verbs;
    for (const auto make : {make_status, make_list, make_info, make_timeline, make_threads, make_gdb, make_core,
                            make_analyse, make_replay, make_verify, make_pin, make_wait, make_doctor, make_complete})
        verbs.push_back(make());
    return verbs;
}

} // namespace incident::postmortem
