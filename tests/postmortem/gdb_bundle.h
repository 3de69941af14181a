// A bundle of a real program of three threads that died of a null pointer, with the core that gdb
// made of it as its mini.core, and gdb run on it.
#pragma once

#include "state.h"

#include <map>
#include <optional>

namespace incident::postmortem::test {

// A word for the shell.
std::string quoted(const std::string &text);
// What a shell command printed on both outputs.
std::string output_of(const std::string &command);

class GdbBundle {
public:
    // nullopt: gdb or a compiler is missing, or gdb cannot run programs here; why says so.
    // environment: of the program, "NAME=value".
    static std::optional<GdbBundle> make(State &state, std::string &why, const std::string &environment = "");

    std::string path;   // of the bundle: mini.core, process/, gdb/ with the commands
    std::string victim; // the program
    std::string core;   // the full core, beside the bundle
    Json incident, threads;

    void write(const std::string &file, std::string_view text) const { write_file(path + "/" + file, text); }
    std::string read(const std::string &file) const { return read_file(path + "/" + file); }
    int tid(std::size_t index) const { return threads.at(index)["tid"]; }

    // `gdb -x BUNDLE/gdb/open.gdb` and these commands, in this directory.
    std::string open(const std::vector<std::string> &commands, const std::string &directory = "/") const;
    // What each of the commands printed alone.
    std::map<std::string, std::string> ask(const std::vector<std::string> &commands) const;
};

// gdb's "$1 = (void *) 0x7ffe" or "$1 = 12": the number.
std::uint64_t printed_number(const std::string &text);
// The lines of `incident explain` with this label, without it: several where the label is left out after the first.
std::vector<std::string> labelled(const std::string &explained, const std::string &label);

} // namespace incident::postmortem::test
