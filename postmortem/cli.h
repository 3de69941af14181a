// The command line: which verb, with what, and what a wrong one is told.
#pragma once

#include "postmortem/verb.h"

#include <string>
#include <vector>

namespace incident::postmortem {

// arguments without the program's name.  Returns the exit code; prints every error, once.
int run_command_line(std::vector<std::string> arguments, Session &session);

} // namespace incident::postmortem
