// Parses the command line, runs the verb, and explains a wrong command line.
#pragma once

#include "postmortem/verbs/verb.h"

#include <string>
#include <vector>

namespace incident::postmortem {

// `arguments` do not include the program's name. Returns the exit code, and prints each error once.
int run_command_line(std::vector<std::string> arguments, Session &session);

// What a user may type, for completion. It comes from the parser itself.
struct KnownOption {
    std::vector<std::string> names; // "-o", "--output"
    std::string placeholder;        // the value's placeholder, "FILE"; "": it takes no value
    std::string help;
    bool takes_value() const { return !placeholder.empty(); }
};
struct KnownVerb {
    std::string name, summary;
    std::vector<KnownOption> options;
    std::string positional; // "ID"; "": it takes none
    bool many = false;      // it takes several of them
    std::string rest;       // the placeholder of what follows "--", "GDB ARGS"; "": nothing may follow
};
struct KnownWords {
    std::vector<KnownOption> options; // of every verb
    std::vector<KnownVerb> verbs;
};
KnownWords known_words();

} // namespace incident::postmortem
