// One factory for each verb, in the file with the verb's name.
#pragma once

#include "postmortem/verbs/verb.h"

namespace incident::postmortem {

std::unique_ptr<Verb> make_status();
std::unique_ptr<Verb> make_list();
std::unique_ptr<Verb> make_info();
std::unique_ptr<Verb> make_timeline();
std::unique_ptr<Verb> make_threads();
std::unique_ptr<Verb> make_analyse();
std::unique_ptr<Verb> make_gdb();
std::unique_ptr<Verb> make_core();
std::unique_ptr<Verb> make_replay();
std::unique_ptr<Verb> make_verify();
std::unique_ptr<Verb> make_pin();
std::unique_ptr<Verb> make_wait();
std::unique_ptr<Verb> make_complete();
std::unique_ptr<Verb> make_doctor();

} // namespace incident::postmortem
