// A bundle as a debugger would see its process: threads with registers, memory, mappings and the files they came from.
// mini.core is written from it, and stacks are unwound with it. Everything in it may be hostile, because it came from
// the process or with the bundle.
#pragma once

#include "capture/bundle/bundle.h"
#include "capture/os/address.h"
#include "capture/os/isa.h"
#include "capture/os/maps.h"
#include "postmortem/image/image_memory.h"
#include "postmortem/read/incident.h"

#include <sys/user.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace incident::postmortem {

using capture::FileOffset;
using capture::Isa;
using capture::LinkAddress;
using capture::LoadBias;
using capture::UserAddress;

struct ImageThread {
    std::uint32_t tid = 0;
    std::string comm;
    bool is_triggers = false; // the incident happened in this thread
    // In ptrace(2)'s order, of a 32-bit process too: eax is rax's lower half. Not set: not captured.
    std::optional<user_regs_struct> registers;
    std::string in_call; // name of the system call it was in; "" none
};

// A file whose code is mapped.
struct ImageModule {
    std::string path;     // as the process saw it, without " (deleted)"; if `deleted`, it is another file now
    std::string build_id; // hex; "" unknown
    std::string kept;     // name of the copy that the daemon keeps of it (capture/modules); "" none, or any text
    std::string on_host;  // where it lay on the host, of a process with a root of its own; "" at path, or any text
    bool deleted = false;
    UserAddress start, end;  // from its first mapping to the end of its last
    FileOffset first_offset; // of start
    std::uint64_t inode = 0;
    std::uint32_t major = 0, minor = 0;
};

struct CrashImage {
    Isa isa = Isa::x86_64; // of the program, as the kernel has started it
    std::uint32_t pid = 0, ppid = 0, uid = 0, gid = 0;
    std::string comm, exe;           // exe: as readlink(/proc/PID/exe), may end in " (deleted)"
    std::vector<std::string> argv;   // "" where unknown
    int signal = 0;                  // the signal that killed it or made the rule fire; 0: none
    std::array<char, 128> siginfo{}; // the kernel's siginfo_t (sigaction(2)); unknown parts are zero
    bool has_siginfo = false;
    std::string auxv; // pairs of words as wide as the program's; "" unknown
    capture::Maps maps;
    bool maps_whole = false; // every mapping is known; false: only those around the crash
    std::vector<ImageModule> modules;
    std::vector<ImageThread> threads; // the first is the one the incident happened in
    ImageMemory memory;
    std::string abort_message; // the message that glibc left in memory before abort(3); "" none found
    std::string perf_map;      // /tmp/perf-PID.map; "" none
    bool living = false;       // it was not dying; its registers are those of the last entry to the kernel

    // The value of an auxiliary vector entry (AT_PHDR …, getauxval(3)).
    std::optional<std::uint64_t> aux(std::uint64_t type) const;
    const ImageModule *module_at(UserAddress address) const;
    // exe without " (deleted)".
    std::string program_path() const;
};

// By the auxiliary vector and the code that its threads were in.
Isa isa_of(const CrashImage &image);

Result<CrashImage> read_crash_image(const capture::Bundle &bundle, const Incident &incident);

} // namespace incident::postmortem
