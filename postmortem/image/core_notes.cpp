#include "postmortem/image/core_notes.h"

#include "postmortem/image/elf_layout.h"
#include "postmortem/image/object_bytes.h"
#include "postmortem/terminal/escape.h"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <elf.h>
#include <sys/procfs.h>

namespace incident::postmortem {

namespace {

// The structures of an i386 core: struct compat_elf_prstatus and compat_elf_prpsinfo (include/linux/elfcore-compat.h)
// with user_regs_struct32 (arch/x86/include/asm/user32.h).
struct Prstatus32 {
    std::int32_t signo, code, error;
    std::int16_t cursig, padding;
    std::uint32_t sigpend, sighold;
    std::int32_t pid, ppid, pgrp, sid;
    std::int32_t times[8];
    std::uint32_t registers[17];
    std::int32_t fpvalid;
};
static_assert(sizeof(Prstatus32) == 144 && offsetof(Prstatus32, registers) == 72);

struct Prpsinfo32 {
    char state, sname, zomb, nice;
    std::uint32_t flag;
    std::uint16_t uid, gid;
    std::int32_t pid, ppid, pgrp, sid;
    char fname[16], psargs[ELF_PRARGSZ];
};
static_assert(sizeof(Prpsinfo32) == 124);

// compat_siginfo_t: the union begins right behind the three numbers, as its pointers need no padding
// (include/linux/compat.h).
struct Siginfo32 {
    std::int32_t signo, error, code;
    std::uint32_t words[29];
};
static_assert(sizeof(Siginfo32) == sizeof(siginfo_t));

std::uint32_t half(std::uint64_t value) {
    return static_cast<std::uint32_t>(value);
}

// As copy_siginfo_to_external32() (kernel/signal.c) chooses the member of the union.
Siginfo32 narrow(const siginfo_t &info) {
    Siginfo32 to{info.si_signo, info.si_errno, info.si_code, {}};
    const auto address = [](const void *pointer) { return half(reinterpret_cast<std::uintptr_t>(pointer)); };
    const bool by_kernel = info.si_code > 0 && info.si_code != SI_KERNEL;
    switch (by_kernel ? info.si_signo : 0) {
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
    case SIGTRAP:
        to.words[0] = address(info.si_addr);
        return to;
    case SIGCHLD:
        to.words[0] = static_cast<std::uint32_t>(info.si_pid);
        to.words[1] = info.si_uid;
        to.words[2] = static_cast<std::uint32_t>(info.si_status);
        to.words[3] = half(static_cast<std::uint64_t>(info.si_utime));
        to.words[4] = half(static_cast<std::uint64_t>(info.si_stime));
        return to;
    case SIGSYS:
        to.words[0] = address(info.si_call_addr);
        to.words[1] = static_cast<std::uint32_t>(info.si_syscall);
        to.words[2] = info.si_arch;
        return to;
    default:
        to.words[0] = static_cast<std::uint32_t>(info.si_pid);
        to.words[1] = info.si_uid;
        to.words[2] = address(info.si_value.sival_ptr);
        return to;
    }
}

// As high2lowuid() (include/linux/highuid.h) does where only 16 bits are for an id.
std::uint16_t short_id(std::uint32_t id) {
    constexpr std::uint16_t overflow = 65534; // DEFAULT_OVERFLOWUID
    return id > UINT16_MAX ? overflow : static_cast<std::uint16_t>(id);
}

// Copies what fits and leaves a NUL behind it.
template <std::size_t N> void put_text(char (&to)[N], std::string_view text) {
    std::memcpy(to, text.data(), std::min(text.size(), N - 1));
}

std::string arguments_of(const CrashImage &image) {
    std::string arguments;
    for (const std::string &argument : image.argv) {
        if (!arguments.empty())
            arguments += ' ';
        arguments += argument;
        if (arguments.size() >= ELF_PRARGSZ)
            break;
    }
    return arguments;
}

Prstatus32 prstatus32(const CrashImage &image, const ImageThread &thread) {
    const user_regs_struct &r = *thread.registers;
    Prstatus32 status{};
    status.signo = image.signal;
    status.cursig = static_cast<std::int16_t>(image.signal);
    status.pid = static_cast<std::int32_t>(thread.tid);
    status.ppid = static_cast<std::int32_t>(image.ppid);
    const unsigned long long values[] = {r.rbx, r.rcx, r.rdx,      r.rsi, r.rdi, r.rbp,    r.rax, r.ds, r.es,
                                         r.fs,  r.gs,  r.orig_rax, r.rip, r.cs,  r.eflags, r.rsp, r.ss};
    std::ranges::transform(values, status.registers, half);
    return status;
}

} // namespace

void CoreNotes::add(std::uint32_t type, std::string_view description) {
    static constexpr char owner[] = "CORE";
    constexpr std::string_view name(owner, sizeof owner); // with its NUL
    const Elf64_Nhdr header{name.size(), static_cast<Elf64_Word>(description.size()), type};
    bytes_ += bytes_of(header);
    bytes_ += name;
    bytes_.resize((bytes_.size() + 3) & ~std::size_t{3});
    bytes_ += description;
    bytes_.resize((bytes_.size() + 3) & ~std::size_t{3});
}

void CoreNotes::add_prstatus(const CrashImage &image, const ImageThread &thread) {
    if (isa_ == Isa::i386)
        return add(NT_PRSTATUS, bytes_of(prstatus32(image, thread)));
    elf_prstatus status;
    std::memset(&status, 0, sizeof status); // padding too: the bytes are written
    // every thread's has the signal that killed the process (fill_thread_core_info)
    status.pr_info.si_signo = image.signal;
    status.pr_cursig = static_cast<short>(image.signal);
    status.pr_pid = static_cast<pid_t>(thread.tid);
    status.pr_ppid = static_cast<pid_t>(image.ppid);
    static_assert(sizeof status.pr_reg == sizeof(user_regs_struct)); // one layout, two names: bits/procfs.h
    std::memcpy(&status.pr_reg, &*thread.registers, sizeof status.pr_reg);
    add(NT_PRSTATUS, bytes_of(status));
}

void CoreNotes::add_prpsinfo(const CrashImage &image) {
    const auto fill = [&](auto &info, auto &sname, auto &pid, auto &ppid, auto &name, auto &arguments) {
        sname = 'R'; // a dying thread runs
        pid = static_cast<std::int32_t>(image.pid);
        ppid = static_cast<std::int32_t>(image.ppid);
        // Debuggers print both as they are ("Core was generated by").
        put_text(name, printable(image.comm));
        put_text(arguments, printable(arguments_of(image)));
        add(NT_PRPSINFO, bytes_of(info));
    };
    if (isa_ == Isa::i386) {
        Prpsinfo32 info{};
        info.uid = short_id(image.uid);
        info.gid = short_id(image.gid);
        fill(info, info.sname, info.pid, info.ppid, info.fname, info.psargs);
        return;
    }
    elf_prpsinfo info;
    std::memset(&info, 0, sizeof info);
    info.pr_uid = image.uid;
    info.pr_gid = image.gid;
    fill(info, info.pr_sname, info.pr_pid, info.pr_ppid, info.pr_fname, info.pr_psargs);
}

void CoreNotes::add_siginfo(const CrashImage &image) {
    if (isa_ == Isa::x86_64)
        return add(NT_SIGINFO, {image.siginfo.data(), image.siginfo.size()});
    siginfo_t info;
    std::memcpy(&info, image.siginfo.data(), sizeof info);
    add(NT_SIGINFO, bytes_of(narrow(info)));
}

// count, page size, {start, end, offset in pages} each, then the paths (fill_files_note).
void CoreNotes::add_files(const std::vector<CoreFileMapping> &mappings) {
    std::string rows, paths;
    auto word = [&](std::uint64_t value) { rows += word_of(value, isa_); };
    word(mappings.size());
    word(page_size);
    for (const CoreFileMapping &mapping : mappings) {
        word(mapping.start.value);
        word(mapping.end.value);
        word(mapping.offset.value / page_size);
        paths.append(mapping.path).push_back('\0');
    }
    add(NT_FILE, rows + paths);
}

} // namespace incident::postmortem
