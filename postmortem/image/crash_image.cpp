#include "postmortem/image/crash_image.h"

#include "capture/decode/syscalls.h"
#include "capture/os/auxv.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <elf.h>
#include <map>
#include <utility>

namespace incident::postmortem {

namespace {

constexpr std::uint64_t memory_max = 256u << 20, maps_max = 64u << 20, perf_map_max = 64u << 20;
constexpr std::size_t threads_max = 65536;
constexpr std::string_view deleted_suffix = " (deleted)"; // as the kernel marks /proc/PID/exe

struct RegisterNames {
    unsigned long long user_regs_struct::*member;
    const char *wide, *narrow; // as capture/render names it, of a thread in 64-bit and in 32-bit code; null: has none
};
constexpr RegisterNames register_names[] = {{&user_regs_struct::r15, "r15", nullptr},
                                            {&user_regs_struct::r14, "r14", nullptr},
                                            {&user_regs_struct::r13, "r13", nullptr},
                                            {&user_regs_struct::r12, "r12", nullptr},
                                            {&user_regs_struct::rbp, "rbp", "ebp"},
                                            {&user_regs_struct::rbx, "rbx", "ebx"},
                                            {&user_regs_struct::r11, "r11", nullptr},
                                            {&user_regs_struct::r10, "r10", nullptr},
                                            {&user_regs_struct::r9, "r9", nullptr},
                                            {&user_regs_struct::r8, "r8", nullptr},
                                            {&user_regs_struct::rax, "rax", "eax"},
                                            {&user_regs_struct::rcx, "rcx", "ecx"},
                                            {&user_regs_struct::rdx, "rdx", "edx"},
                                            {&user_regs_struct::rsi, "rsi", "esi"},
                                            {&user_regs_struct::rdi, "rdi", "edi"},
                                            {&user_regs_struct::rip, "rip", "eip"},
                                            {&user_regs_struct::cs, "cs", "cs"},
                                            {&user_regs_struct::eflags, "eflags", "eflags"},
                                            {&user_regs_struct::rsp, "rsp", "esp"},
                                            {&user_regs_struct::ss, "ss", "ss"},
                                            {&user_regs_struct::fs_base, "fs_base", "fs_base"},
                                            {&user_regs_struct::gs_base, "gs_base", "gs_base"},
                                            {&user_regs_struct::ds, "ds", "ds"},
                                            {&user_regs_struct::es, "es", "es"},
                                            {&user_regs_struct::fs, "fs", "fs"},
                                            {&user_regs_struct::gs, "gs", "gs"}};

user_regs_struct registers_of(JsonView json) {
    const bool narrow = json["eip"].present();
    const std::uint64_t mask = narrow ? UINT32_MAX : UINT64_MAX;
    user_regs_struct regs{};
    for (const auto &[member, wide_name, narrow_name] : register_names)
        if (const char *name = narrow ? narrow_name : wide_name)
            regs.*member = json[name].natural().value_or(0) & mask;
    // -1: in no system call
    const std::uint64_t call = json[narrow ? "orig_eax" : "orig_rax"].natural().value_or(mask);
    regs.orig_rax =
        narrow ? static_cast<std::uint64_t>(std::int64_t{static_cast<std::int32_t>(static_cast<std::uint32_t>(call))})
               : call;
    return regs;
}

ImageThread thread_of(JsonView json) {
    ImageThread thread;
    thread.tid = static_cast<std::uint32_t>(json["tid"].count());
    thread.comm = json["comm"].text();
    if (json["registers"].is_object())
        thread.registers = registers_of(json["registers"]);
    if (json["syscall"]["in_flight"].flag())
        thread.in_call = json["syscall"]["name"].text();
    return thread;
}

std::optional<std::string> bytes_of_hex(std::string_view hex) {
    std::string bytes;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
        auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
        const int high = digit(hex[i]), low = digit(hex[i + 1]);
        if (high < 0 || low < 0)
            return std::nullopt;
        bytes += static_cast<char>(high << 4 | low);
    }
    return bytes;
}

// siginfo_t: as the kernel had it, else put together from what the bundle says of it.
void read_siginfo(JsonView signal, CrashImage &image) {
    if (!signal.is_object())
        return;
    if (const auto raw = bytes_of_hex(signal["siginfo"].text()); raw && !raw->empty()) {
        std::memcpy(image.siginfo.data(), raw->data(), std::min(raw->size(), image.siginfo.size()));
        image.has_siginfo = true;
        return;
    }
    siginfo_t info{};
    info.si_signo = image.signal;
    info.si_code = static_cast<int>(signal["code"].integer().value_or(0));
    if (const auto address = signal["address"].natural()) {
        info.si_addr = reinterpret_cast<void *>(*address); // NOLINT: an address of another process
    } else {
        info.si_pid = static_cast<pid_t>(signal["sender"]["pid"].count());
        info.si_uid = static_cast<uid_t>(signal["sender"]["uid"].count());
    }
    static_assert(sizeof info == sizeof image.siginfo);
    std::memcpy(image.siginfo.data(), &info, sizeof info);
    image.has_siginfo = signal["code"].present();
}

// glibc's struct abort_msg_s {unsigned size; char msg[]}, in a mapping of its own, which `size` is the length of
// (__libc_message() in sysdeps/posix/libc_fatal.c, __assert_fail_base() in assert/assert.c).
std::string abort_message_at(std::uint64_t address, const ImageMemory &memory) {
    constexpr std::size_t page = 4096, size_max = 65536, text_max = 4096;
    std::uint32_t size = 0;
    char head[sizeof size];
    if (address % page || memory.read(address, head) != sizeof head)
        return "";
    std::memcpy(&size, head, sizeof size);
    if (size == 0 || size % page || size > size_max)
        return "";
    std::string text = memory.text(address + sizeof size, text_max).value_or("");
    while (text.ends_with('\n'))
        text.pop_back();
    return text;
}

void read_memory(const capture::Bundle &bundle, CrashImage &image) {
    const auto bytes = bundle.read("memory.bin", memory_max);
    const auto index = read_json(bundle, "memory.json", threads_json_max);
    if (!bytes || !index)
        return; // a light bundle has none
    const std::string_view all(*bytes);
    std::uint64_t left = all.size(); // each piece has its own bytes, so together they are no longer than the file
    std::vector<std::pair<std::uint64_t, std::string_view>> pieces;
    JsonView(*index).each([&](JsonView piece) {
        const auto address = piece["address"].natural();
        const std::uint64_t offset = piece["offset"].count(), length = piece["length"].count();
        if (!address || offset > all.size() || length > all.size() - offset || length > left)
            return;
        pieces.emplace_back(*address, all.substr(offset, length));
        left -= length;
    });
    image.memory.add_all(pieces);
    JsonView(*index).each([&](JsonView piece) {
        if (image.abort_message.empty() && piece["what"].text() == "last mapping")
            image.abort_message = abort_message_at(piece["address"].count(), image.memory);
    });
}

ImageModule module_of(const capture::Mapping &mapping) {
    ImageModule module;
    module.path = mapping.path;
    module.deleted = mapping.deleted;
    module.start = mapping.start;
    module.end = mapping.end;
    module.first_offset = mapping.offset;
    module.inode = mapping.inode;
    module.major = mapping.major;
    module.minor = mapping.minor;
    return module;
}

// How much of the file both have.
std::uint64_t shared_by(const capture::Mapping &one, const capture::Mapping &other) {
    const FileOffset begin = std::max(one.offset, other.offset),
                     end = std::min(one.offset + (one.end - one.start), other.offset + (other.end - other.start));
    return begin < end ? end - begin : 0;
}

// Mappings of one file that follow each other are one module; a gap filled by anonymous memory (.bss,
// PROT_NONE padding) does not part them, another file does, and so does a copy of what is mapped already: V8 maps the
// code of its builtins once more, near to the code that it makes (CodeRange::RemapEmbeddedBuiltins).
std::vector<ImageModule> modules_of(const capture::Maps &maps) {
    std::vector<ImageModule> modules;
    std::vector<bool> code;
    std::vector<const capture::Mapping *> parts; // of the last module
    constexpr std::uint64_t page = 4096;         // which two segments may share, where they meet in the file
    constexpr std::ptrdiff_t looked_at = 64;     // of those before it; a linker makes a handful of segments
    const auto begins_another = [&](const capture::Mapping &mapping) {
        const auto first = parts.end() - std::min(looked_at, std::ssize(parts));
        return mapping.offset == FileOffset() || // no segment is below that with the headers
               std::any_of(first, parts.end(), [&](const capture::Mapping *part) {
                   return part->offset == mapping.offset || shared_by(*part, mapping) > page;
               });
    };
    for (const capture::Mapping &mapping : maps.all()) {
        if (!mapping.is_file())
            continue;
        const bool more = !modules.empty() && modules.back().path == mapping.path &&
                          modules.back().inode == mapping.inode && !begins_another(mapping);
        if (more) {
            modules.back().end = mapping.end;
            code.back() = code.back() || mapping.execute;
        } else {
            modules.push_back(module_of(mapping));
            code.push_back(mapping.execute);
            parts.clear();
        }
        parts.push_back(&mapping);
    }
    std::vector<ImageModule> kept;
    for (std::size_t i = 0; i < modules.size(); ++i)
        if (code[i])
            kept.push_back(std::move(modules[i]));
    return kept;
}

// The program, where its mappings are not among those known: its program headers are where the kernel put
// them, as a rule in the page its file begins with, of which the daemon keeps the beginning.
void add_program(CrashImage &image) {
    const auto headers = image.aux(AT_PHDR);
    if (!headers || image.module_at(UserAddress(*headers)) || !image.exe.starts_with('/'))
        return;
    ImageModule program;
    program.start = UserAddress(*headers & ~std::uint64_t{4095});
    program.end = program.start + 4096; // at least
    char magic[SELFMAG];
    if (program.end.value == 0 || image.memory.read(program.start.value, magic) != SELFMAG ||
        std::memcmp(magic, ELFMAG, SELFMAG) != 0)
        return;
    program.path = image.program_path();
    program.deleted = program.path != image.exe;
    image.modules.insert(std::ranges::upper_bound(image.modules, program.start, {}, &ImageModule::start), program);
}

// modules.json: [{path, inode, build_id, on_host, kept}], what the daemon read out of the files while they were mapped,
// and which copy it keeps.
void read_build_ids(const capture::Bundle &bundle, std::vector<ImageModule> &modules) {
    const auto json = read_json(bundle, "modules.json", threads_json_max);
    if (!json)
        return;
    std::map<std::pair<std::string_view, std::uint64_t>, JsonView> known;
    JsonView(*json).each([&](JsonView module) {
        known.insert_or_assign({module["path"].text(), module["inode"].count()}, module);
    });
    for (ImageModule &module : modules)
        if (const auto found = known.find({module.path, module.inode}); found != known.end()) {
            module.build_id = found->second["build_id"].text();
            module.kept = found->second["kept"].text();
            module.on_host = found->second["on_host"].text();
        }
}

} // namespace

Isa isa_of(const CrashImage &image) {
    const auto in_code = [&](std::uint64_t segment) {
        return std::ranges::any_of(image.threads, [&](const ImageThread &thread) {
            return thread.registers && thread.registers->cs == segment;
        });
    };
    const auto abi =
        capture::abi_name(image.auxv, in_code(capture::code_segment_32bit), in_code(capture::code_segment_64bit));
    return abi == "i386" ? Isa::i386 : Isa::x86_64;
}

std::optional<std::uint64_t> CrashImage::aux(std::uint64_t type) const {
    return capture::auxv_value(auxv, type);
}

std::string CrashImage::program_path() const {
    return exe.ends_with(deleted_suffix) ? exe.substr(0, exe.size() - deleted_suffix.size()) : exe;
}

const ImageModule *CrashImage::module_at(UserAddress address) const {
    auto it = std::ranges::upper_bound(modules, address, {}, &ImageModule::start);
    return it != modules.begin() && address < std::prev(it)->end ? &*std::prev(it) : nullptr;
}

Result<CrashImage> read_crash_image(const capture::Bundle &bundle, const Incident &incident) {
    const JsonView view = incident.view(), process = view["process"];
    CrashImage image;
    image.pid = incident.pid();
    image.ppid = static_cast<std::uint32_t>(process["ppid"].count());
    image.uid = static_cast<std::uint32_t>(process["uid"].count());
    image.gid = static_cast<std::uint32_t>(process["gid"].count());
    image.comm = incident.comm();
    image.exe = incident.exe();
    process["argv"].each([&](JsonView argument) { image.argv.emplace_back(argument.text()); });
    image.signal = incident.signal();
    image.living = !view["signal"]["fatal"].flag() && view["kind"].text() != "oom" && !view["dump"]["sent"].flag();
    read_siginfo(view["signal"], image);

    const auto threads = read_json(bundle, "threads.json", threads_json_max);
    if (!threads)
        return fail(threads.error());
    JsonView(*threads).each([&](JsonView thread) {
        if (image.threads.size() >= threads_max)
            return;
        ImageThread &added = image.threads.emplace_back(thread_of(thread));
        // a bundle that names no thread may still say which died
        added.is_triggers = incident.tid() ? added.tid == incident.tid() : thread["crashed"].flag();
    });
    std::ranges::stable_partition(image.threads, &ImageThread::is_triggers);

    image.auxv = bundle.read("process/auxv", auxv_max).value_or("");
    image.isa = isa_of(image);
    if (const auto maps = bundle.read("process/maps", maps_max))
        image.maps = capture::Maps::parse(*maps);
    image.maps_whole = !image.maps.empty();
    read_memory(bundle, image);
    image.modules = modules_of(image.maps);
    add_program(image);
    read_build_ids(bundle, image.modules);
    for (ImageModule &module : image.modules)
        if (module.build_id.empty() &&
            (module.path == image.exe || module.path + std::string(deleted_suffix) == image.exe))
            module.build_id = process["build_id"].text();
    image.perf_map = bundle.read("process/perf_map", perf_map_max).value_or("");
    return image;
}

} // namespace incident::postmortem
