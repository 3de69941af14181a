// The result of analysing a bundle together with the files of its modules: unwound stacks, the faulting instruction,
// arguments, an exception under way. Plain data, which is written to JSON and read from it.
#pragma once

#include "postmortem/read/json_view.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace incident::postmortem {

struct Frame {
    std::uint64_t ip = 0;     // in all frames except the first a return address; an inlined function has its caller's
    std::string module;       // path, "[vdso]", "jit/anon"; "" if it is in no known mapping
    std::string build_id;     // hex; "" unknown
    std::uint64_t offset = 0; // of ip in the file
    // Demangled and without its parameter list, as gdb prints it in a backtrace: "ns::C::f"; "" unknown.
    std::string symbol;
    std::uint64_t symbol_offset = 0; // ip - the function's entry; 0 of an inlined one
    // Of code without a file that has no name: which of the loaded files make such code, "V8", "V8 or PCRE"; "" none
    // that is known.
    std::string made_by;
    bool inlined = false;
    std::string file; // the compiler's name of it, absolute if the directory is known; "" unknown
    unsigned line = 0, column = 0;
    // "registers", "CFI", "frame pointer", "return address at the stack pointer", "signal frame", "inline", "tail call"
    std::string how;
    bool signal_frame = false; // the trampoline a signal handler returns to
};

struct ThreadStack {
    std::uint32_t tid = 0;
    std::string how;        // "CFI", "CFI and frame pointers", "instruction pointer only", "none"
    bool truncated = false; // it ends before the outermost frame
    std::string reason;     // where and why it ends
    std::vector<Frame> frames;
};

// The place of allocations and frees: an unwound HeapStackRecord.
struct CallStack {
    std::uint64_t id = 0;
    bool truncated = false;
    std::string reason;                // where and why it ends
    std::vector<std::uint32_t> frames; // indices in Analysis::call_frames, innermost first
};

struct ModuleState {
    std::string path, build_id;
    std::string file;    // "used", "debuginfod", or why there is none: "missing", "changed since …"
    std::string debug;   // "in the file", "/usr/lib/debug/…", "debuginfod", "none"; "" not looked for
    std::string install; // command that would install the debug info; "" none
    bool on_a_stack = false;
};

// The instruction that the crashed thread was at.
struct Instruction {
    struct Operand {
        bool read = false, write = false;
        std::string base, index, segment; // register names; "" none
        std::uint64_t scale = 0;
        std::int64_t displacement = 0;
        std::uint64_t address = 0; // effective, with the registers as captured
        unsigned bytes = 0;        // accessed; 0 only computed (lea)
    };
    std::uint64_t address = 0;
    std::string text; // AT&T, as gdb shows by default
    std::optional<Operand> memory;
    bool is_call = false, is_jump = false, is_return = false;
    bool base_untouched = false; // since the function was entered, nothing has written to the operand's base
};

// The place where a signal handler interrupted the crashed thread. It comes from the frame that the kernel put on the
// stack (struct rt_sigframe).
struct Interrupted {
    unsigned frame = 0; // index in the thread's frames of the function that was interrupted
    std::map<std::string, std::uint64_t> registers;
    std::optional<Instruction> instruction; // at rip
    int signal = 0, code = 0;               // of its siginfo
    std::uint64_t address = 0;              // si_addr, if the code says that it is valid
};

// The call whose return address is on top of the stack. It is set if the instruction pointer is not at executable
// memory.
struct CallToNowhere {
    std::string text;
    std::optional<std::uint64_t> target; // evaluated with the registers and memory as captured
};

// A formal parameter of a frame. It has a value if DWARF's location of it can be evaluated with the captured data.
struct Argument {
    unsigned number = 0; // from 0
    std::string name, type;
    std::optional<std::uint64_t> value; // its bytes, zero-extended; if not set, `how` says why
    bool is_pointer = false;
    std::string how; // "in rdi", "in memory at 0x…", "constant", "optimized out", …
};

// A C++ exception that nobody caught.
struct Exception {
    std::string type; // "std::runtime_error"
    std::string what; // "" if it is not known where this type keeps its text
};

struct Analysis {
    std::vector<ThreadStack> threads; // as image.threads, in their order
    std::vector<ModuleState> modules; // in the order of image.modules; "[vdso]" is last if it is known
    std::optional<Instruction> instruction;
    std::optional<Interrupted> interrupted;
    std::optional<CallToNowhere> call;
    unsigned argument_frame = 0; // index in the crashed thread's frames of the function that has these arguments
    std::vector<Argument> arguments;
    std::optional<Exception> exception;
    std::string go_fatal_error; // what Go's runtime says it gave up for; "" unknown, or it did not
    std::vector<std::string> notes;
    // Not part of to_json(), because they have their own file.
    std::vector<Frame> call_frames; // each once
    std::vector<CallStack> call_stacks;
};

// Of an Analysis and each of its parts.
template <typename Part> Json to_json(const Part &part);
// Reads JSON that may be hostile. A missing value or one of another type becomes its default; texts and lists are cut
// to their limits.
template <typename Part> Part from_json(JsonView json);

inline constexpr std::size_t analysis_text_max = 4096;     // bytes of one text
inline constexpr std::size_t analysis_frames_max = 4096;   // of one thread
inline constexpr std::size_t analysis_threads_max = 65536; // as many as a bundle may hold
inline constexpr std::size_t analysis_modules_max = 65536;
inline constexpr std::size_t analysis_arguments_max = 256;
inline constexpr std::size_t analysis_notes_max = 256;

} // namespace incident::postmortem
