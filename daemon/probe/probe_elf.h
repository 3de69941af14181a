// From the name of a function or of a static probe to places in an ELF file where uprobes
// can be put.  Pure reading; the file is hostile.  An Error says why the name cannot be
// probed, in words for the person who wrote the rule, without naming the file.
#pragma once

#include "capture/os/result.h"
#include "daemon/probe/probe_price.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace incident::daemon {

struct ProbeSite {
    std::uint64_t offset = 0;    // in the file, bytes: where the uprobe goes
    std::uint64_t semaphore = 0; // USDT: file offset of its counter, 0: none
    ProbePrice price = ProbePrice::Unknown;
    // Of a function whose return is wanted, in a program that can throw exceptions, switches
    // stacks or is written in Go: its ret instructions (file offsets).  There a return probe would turn an
    // exception that passes through the function into std::terminate, and a return on another
    // stack into SIGILL.  Empty: a return probe is safe.
    std::vector<std::uint64_t> returns;
    std::string arguments; // USDT: argument specifications as the compiler left them ("8@%rdi -4@$5")
    std::string function;  // symbol it lies in: demangled, "" unknown
    std::string warning;   // "" : none
    std::string note;      // worth knowing, no drawback; "" : none
    // By what a call's beginning and end are known to be of one call: the thread and its stack
    // pointer; in Go the goroutine; where stacks are switched the stack pointer alone.
    enum class Calls { OfThread, OfGoroutine, OfStack } calls = Calls::OfThread;
};

struct FunctionSpec {
    std::string symbol;       // see symbol_name.h
    std::uint64_t offset = 0; // bytes from its entry
    bool wants_return = false;
    // Why a return probe of the kernel's would harm a process that maps the file though nothing in the file says so:
    // "FILE switches stacks"; "": no reason known.
    std::string no_return_probe;
};

// Where debug files are looked for, by build-id: DIR/.build-id/xx/yyyy.debug.
struct DebugRoots {
    std::vector<std::string> directories = {"/usr/lib/debug"};
};

// Where to probe the function.  With offset 0 that may be a few bytes in, where the entry
// itself would be single-stepped: behind an endbr64, with the stack pointer unchanged.
// The first place is the function's own; behind it stand the copies that the compiler made of it for some of its
// callers (f.isra.0, f.constprop.0), which are entered in its stead.  Where only copies are left they are all.
// fd: open for reading, not owned.
Result<std::vector<ProbeSite>> find_function(int fd, const FunctionSpec &spec, const UprobeAbilities &abilities,
                                             const DebugRoots &debug = {});

// Every place where the static probe stands (inlining makes several); at least one.  In
// `name` a dash also stands for two underscores.
Result<std::vector<ProbeSite>> find_usdt(int fd, std::string_view provider, std::string_view name,
                                         const UprobeAbilities &abilities);

} // namespace incident::daemon
