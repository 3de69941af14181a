#include "full_core.h"

#include "capture/collect/collect.h"
#include "capture/os/elf_headers.h"
#include "capture/os/unique_fd.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <sys/procfs.h>

namespace incident::postmortem::test {

namespace {

template <typename T> T object_at(std::string_view bytes, std::size_t at) {
    T object{};
    if (at <= bytes.size() && sizeof object <= bytes.size() - at)
        std::memcpy(&object, bytes.data() + at, sizeof object);
    return object;
}

template <typename Visit> void each_segment(std::string_view core, Visit visit) {
    const capture::ElfReader read =
        capture::reader_of_head({reinterpret_cast<const std::uint8_t *>(core.data()), core.size()});
    if (const auto header = capture::read_elf_header(read))
        for (const Elf64_Phdr &segment : capture::read_program_headers(read, *header, header->e_phnum))
            visit(segment);
}

// elf_prstatus and elf_prpsinfo of an i386 core: sizes and offsets as gdb's bfd has them (bfd/elf32-i386.c).
constexpr std::size_t prstatus32_size = 144, prpsinfo32_size = 124;

ImageThread thread32(std::string_view text) {
    const auto word = [&](std::size_t i) { return object_at<std::uint32_t>(text, 72 + 4 * i); };
    ImageThread thread;
    thread.tid = object_at<std::uint32_t>(text, 24);
    user_regs_struct &r = thread.registers.emplace();
    r.rbx = word(0), r.rcx = word(1), r.rdx = word(2), r.rsi = word(3), r.rdi = word(4), r.rbp = word(5);
    r.rax = word(6), r.ds = word(7), r.es = word(8), r.fs = word(9), r.gs = word(10), r.orig_rax = word(11);
    r.rip = word(12), r.cs = word(13), r.eflags = word(14), r.rsp = word(15), r.ss = word(16);
    return thread;
}

std::string text_at(std::string_view bytes, std::size_t at, std::size_t most) {
    const std::string_view room = bytes.substr(at, most);
    return std::string(room.substr(0, room.find('\0')));
}

// Its union begins behind three numbers, without padding.
siginfo_t siginfo32(std::string_view text) {
    siginfo_t info{};
    std::memcpy(&info, text.data(), 12);
    const std::uintptr_t address = object_at<std::uint32_t>(text, 12);
    std::memcpy(&info.si_addr, &address, sizeof address);
    return info;
}

void read_note(std::uint32_t type, std::string_view text, CrashImage &image) {
    if (type == NT_PRSTATUS && text.size() == prstatus32_size) {
        ImageThread thread = thread32(text);
        thread.is_triggers = image.threads.empty();
        if (thread.is_triggers)
            image.signal = object_at<std::int16_t>(text, 12);
        image.isa = Isa::i386;
        image.threads.push_back(thread);
    } else if (type == NT_PRPSINFO && text.size() == prpsinfo32_size) {
        image.pid = object_at<std::uint32_t>(text, 12);
        image.ppid = object_at<std::uint32_t>(text, 16);
        image.comm = text_at(text, 28, 16);
        image.argv = {text_at(text, 44, 80)};
    } else if (type == NT_SIGINFO && image.isa == Isa::i386) {
        const siginfo_t info = siginfo32(text);
        if (!image.has_siginfo)
            std::memcpy(image.siginfo.data(), &info, sizeof info);
        image.has_siginfo = true;
    } else if (type == NT_PRSTATUS) {
        const auto status = object_at<elf_prstatus>(text, 0);
        ImageThread thread;
        thread.tid = static_cast<std::uint32_t>(status.pr_pid);
        thread.is_triggers = image.threads.empty();
        thread.registers.emplace();
        std::memcpy(&*thread.registers, &status.pr_reg, sizeof status.pr_reg);
        if (thread.is_triggers)
            image.signal = status.pr_cursig;
        image.threads.push_back(thread);
    } else if (type == NT_PRPSINFO) {
        const auto info = object_at<elf_prpsinfo>(text, 0);
        image.pid = static_cast<std::uint32_t>(info.pr_pid);
        image.ppid = static_cast<std::uint32_t>(info.pr_ppid);
        image.comm.assign(info.pr_fname, strnlen(info.pr_fname, sizeof info.pr_fname));
        image.argv = {std::string(info.pr_psargs, strnlen(info.pr_psargs, sizeof info.pr_psargs))};
    } else if (type == NT_SIGINFO && !image.has_siginfo) { // gdb writes one for each thread
        std::memcpy(image.siginfo.data(), text.data(), std::min(text.size(), image.siginfo.size()));
        image.has_siginfo = true;
    } else if (type == NT_AUXV) {
        image.auxv = text;
    }
}

void read_notes(std::string_view notes, CrashImage &image) {
    auto aligned = [](std::size_t size) { return (size + 3) & ~std::size_t{3}; };
    for (std::size_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
        const auto note = object_at<Elf64_Nhdr>(notes, at);
        const std::size_t text = at + sizeof note + aligned(note.n_namesz);
        read_note(note.n_type, notes.substr(text, note.n_descsz), image);
        at = text + aligned(note.n_descsz);
    }
}

ImageModule module_of(const capture::Mapping &mapping) {
    ImageModule module;
    module.path = mapping.path;
    module.start = mapping.start;
    module.first_offset = mapping.offset;
    module.inode = mapping.inode;
    module.major = mapping.major;
    module.minor = mapping.minor;
    const UniqueFd file(::open(mapping.path.c_str(), O_RDONLY | O_CLOEXEC));
    module.build_id = capture::build_id_of_file(file.get());
    return module;
}

} // namespace

std::string core_memory(std::string_view core, std::uint64_t address, std::size_t length) {
    std::string bytes;
    each_segment(core, [&](const Elf64_Phdr &segment) {
        const std::uint64_t at = address + bytes.size();
        if (segment.p_type == PT_LOAD && bytes.size() < length && at >= segment.p_vaddr &&
            at - segment.p_vaddr < segment.p_filesz)
            bytes += core.substr(segment.p_offset + (at - segment.p_vaddr),
                                 std::min(length - bytes.size(), segment.p_filesz - (at - segment.p_vaddr)));
    });
    return bytes;
}

CrashImage image_of_core(std::string_view core, std::string_view maps) {
    CrashImage image;
    each_segment(core, [&](const Elf64_Phdr &segment) {
        if (segment.p_type == PT_NOTE)
            read_notes(core.substr(segment.p_offset, segment.p_filesz), image);
    });
    image.maps = capture::Maps::parse(maps);
    image.maps_whole = true;
    for (const capture::Mapping &mapping : image.maps.all()) {
        if (!mapping.is_file())
            continue;
        if (image.modules.empty() || image.modules.back().path != mapping.path)
            image.modules.push_back(module_of(mapping));
        image.modules.back().end = mapping.end;
    }
    if (!image.modules.empty())
        image.exe = image.modules.front().path;
    auto keep = [&](std::uint64_t address, std::uint64_t length) {
        image.memory.add(address, core_memory(core, address, length));
    };
    for (const ImageThread &thread : image.threads) {
        const UserAddress below((thread.registers->rsp - 128) & ~std::uint64_t{4095});
        if (const capture::Mapping *stack = image.maps.find(below))
            keep(below.value, std::min(captured_stack, stack->end - below));
        keep(thread.registers->rip - 128, 256);
    }
    if (const auto vdso = image.aux(AT_SYSINFO_EHDR))
        if (const capture::Mapping *mapping = image.maps.find(UserAddress(*vdso)))
            keep(mapping->start.value, mapping->end - mapping->start);
    return image;
}

} // namespace incident::postmortem::test
