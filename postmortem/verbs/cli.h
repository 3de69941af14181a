// The command line: which verb, with what, and what a wrong one is told.
#pragma once

#include "postmortem/verbs/verb.h"

#include <string>
#include <vector>

namespace incident::postmortem {

// arguments without the program's name.  Returns the exit code; prints every error, once.
int run_command_line(std::vector<std::string> arguments, Session &session);

// What may be typed, as the parser itself knows it: for completion.
struct KnownOption {
    std::vector<std::string> names; // "-o", "--output"
    std::string placeholder;        // of its value: "FILE"; "" takes none
    std::string help;
    bool takes_value() const { return !placeholder.empty(); }
};
struct KnownVerb {
    std::string name, summary;
    std::vector<KnownOption> options;
    std::string positional; // "ID"; "" takes none
    bool many = false;      // of those
    std::string rest;       // of what follows "--": "GDB ARGS"; "" takes nothing
};
struct KnownWords {
    std::vector<KnownOption> options; // of every verb
    std::vector<KnownVerb> verbs;
};
KnownWords known_words();

} // namespace incident::postmortem
