// Finds the package that has the debug information of a module.
#pragma once

#include "postmortem/unwind/analysis.h"

#include <functional>
#include <string>
#include <vector>

namespace incident::postmortem {

// The output of a program, given its arguments; "" if it could not be run.
using RunProgram = std::function<std::string(const std::vector<std::string> &argv)>;
// Runs it with a deadline and a cap on its output.
std::string run_program(const std::vector<std::string> &argv);

// Sets ModuleState::install for modules on a stack that lack debug info or their file: Debian's package if dpkg knows
// one, otherwise how to ask debuginfod.
void add_install_hints(std::vector<ModuleState> &modules, const RunProgram &run = run_program);

} // namespace incident::postmortem
