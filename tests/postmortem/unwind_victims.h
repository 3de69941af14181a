// Small programs that crash, each with a stack that is hard in another way.
#pragma once

#include <array>

namespace incident::postmortem::test {

struct Victim {
    const char *name, *source;
    bool linked_variously = false; // worth crashing as every kind of executable
    const char *gdb_before = "";   // a gdb command before it runs
    bool two_stacks = false;       // the main thread's is needed beside the one it crashed on
};

extern const std::array<Victim, 14> victims;

} // namespace incident::postmortem::test
