// Finds the places in an ELF file where uprobes can be put, by the name of a function or of a static probe.  It only
// reads; the file is hostile.  An Error tells the author of the rule why the name cannot be probed; it does not name
// the file.
#pragma once

#include "capture/os/address.h"
#include "capture/os/result.h"
#include "daemon/probe/probe_price.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace incident::daemon {

using capture::FileOffset;

struct ProbeSite {
    FileOffset offset;    // where the uprobe goes
    FileOffset semaphore; // USDT: of its counter; 0: none
    ProbePrice price = ProbePrice::Unknown;
    // The function's ret instructions, if its return is wanted and the program can throw exceptions,
    // switches stacks or is written in Go.  There a return probe would turn an exception that passes through the
    // function into std::terminate, and a return on another stack into SIGILL.  Empty: a return probe is safe.
    std::vector<FileOffset> returns;
    std::string arguments; // USDT: argument specifications as the compiler left them ("8@%rdi -4@$5")
    std::string function;  // demangled name of the symbol it is in; "" unknown
    std::string warning;   // "" : none
    std::string note;      // worth knowing, no drawback; "" : none
    // What shows that a beginning and an end belong to the same call: the thread and its stack pointer; in Go the
    // goroutine; in a program that switches stacks the stack pointer alone.
    enum class Calls { OfThread, OfGoroutine, OfStack } calls = Calls::OfThread;
};

struct FunctionSpec {
    std::string symbol;       // see symbol_name.h
    std::uint64_t offset = 0; // bytes from its entry
    bool wants_return = false;
    // Why a return probe would harm a process that maps the file, although nothing in the file shows it: "FILE switches
    // stacks"; "" if no reason is known.
    std::string no_return_probe;
};

// The directories of debug files: DIR/.build-id/xx/yyyy.debug.
struct DebugRoots {
    std::vector<std::string> directories = {"/usr/lib/debug"};
};

// Where to probe the function.  With offset 0 the place may be a few bytes behind the entry (after an endbr64, with the
// stack pointer unchanged) if the kernel would have to single-step the entry itself.
// The first place is that of the function.  Then come the copies that the compiler made for some of its callers
// (f.isra.0, f.constprop.0), because these call a copy instead.  If there are only copies, the result has only these.
// fd: open for reading, not owned.
Result<std::vector<ProbeSite>> find_function(int fd, const FunctionSpec &spec, const UprobeAbilities &abilities,
                                             const DebugRoots &debug = {});

// Every place of the static probe; at least one, and several if the code was inlined.  A dash in `name` also matches
// two underscores.
Result<std::vector<ProbeSite>> find_usdt(int fd, std::string_view provider, std::string_view name,
                                         const UprobeAbilities &abilities);

} // namespace incident::daemon
