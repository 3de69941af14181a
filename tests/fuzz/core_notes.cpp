// ELF files and cores as hostile users leave them: headers, notes, build-ids, symbols, what the daemon probes, and the
// mini.core that is made beside such a file.
#include "capture/collect/collect.h"
#include "capture/modules/kept_name.h"
#include "capture/modules/module_copy.h"
#include "capture/os/elf_headers.h"
#include "daemon/probe/elf_image.h"
#include "daemon/probe/elf_soname.h"
#include "daemon/probe/exit_points.h"
#include "daemon/probe/go_program.h"
#include "daemon/probe/probe_elf.h"
#include "postmortem/core/core_auxv.h"
#include "postmortem/core/core_copy.h"
#include "postmortem/core/core_returns.h"
#include "postmortem/image/elf_layout.h"
#include "postmortem/image/elf_symbols.h"
#include "postmortem/image/link_map.h"
#include "postmortem/image/mini_core.h"
#include "tests/fuzz/target.h"

#include <sys/mman.h>
#include <unistd.h>

namespace incident::fuzz {
namespace {

using namespace postmortem;

void read_headers(std::string_view file) {
    const capture::ElfReader read = capture::reader_of_head(bytes_of(file));
    (void)capture::build_id_of_head(bytes_of(file).data(), file.size());
    (void)find_symbols(read, {"main", "_thread_db_pthread_list"});
    const auto layout = read_elf_layout(read);
    if (!layout)
        return;
    must(layout->segments.size() <= elf_headers_max, "program headers have a limit");
    must(elf_head(read, *layout).size() <= elf_head_max, "an ELF head has a limit");
    for (const ElfSegment &segment : layout->segments) {
        must(segment.sane(), "only sane segments are kept");
        const std::string bytes = segment_bytes(read, segment, dynamic_max);
        must(bytes.size() <= dynamic_max, "a segment's bytes have a limit");
        const std::string dynamic = relocated_dynamic(bytes, LoadBias(0x7f0000000000), layout->isa);
        must(dynamic.size() == bytes.size(), "a .dynamic keeps its size");
        if (const auto at = debug_entry(dynamic, layout->isa))
            must(*at < dynamic.size(), "DT_DEBUG is within .dynamic");
    }
}

void read_probed(int file) {
    const daemon::UprobeAbilities abilities{};
    (void)capture::build_id_of_file(file);
    (void)daemon::elf_soname(file);
    constexpr std::uint64_t copied_most = 1u << 20;
    if (const auto copy = capture::copy_module(file, copied_most)) {
        must(copy->bytes() <= copied_most, "a copy of a module has a limit");
        must(capture::is_kept_name(copy->name), "a copy of a module has a name");
        std::uint64_t end = 0;
        for (const auto &piece : copy->pieces) {
            must(piece.offset >= end && !piece.bytes.empty(), "the pieces of a copy lie apart, in their order");
            end = piece.offset + piece.bytes.size();
        }
    }
    (void)daemon::why_no_return_probes(file);
    (void)daemon::find_exits(file, abilities);
    (void)daemon::find_function(file, {.symbol = "main", .wants_return = true}, abilities, {.directories = {}});
    (void)daemon::find_usdt(file, "provider", "name", abilities);
    if (const auto image = daemon::ElfImage::read(file); image && daemon::is_go(*image))
        (void)daemon::check_goroutine(*image, "main");
}

void read_core(int file, std::string_view bytes) {
    (void)stated_core_size(bytes_of(bytes));
    const std::string auxv = auxv_of_head(bytes_of(bytes));
    must(auxv.size() <= bytes.size(), "a core's vector is a part of it");
    const std::vector<ReplacedReturn> returns = {{0x7ffd00000008, 0x7fff00000000, 0x401234}};
    (void)put_returns_right(file, returns);
}

// A process that has this file mapped, as its only one.
CrashImage image_with(std::string_view file) {
    CrashImage image;
    image.pid = 100;
    image.comm = "fuzzed\n";
    image.exe = "/usr/bin/fuzzed";
    image.signal = 11;
    image.maps = capture::Maps::parse("400000-410000 r-xp 00000000 08:01 77 /usr/bin/fuzzed\n"
                                      "410000-420000 rw-p 00010000 08:01 77 /usr/bin/fuzzed\n"
                                      "7ffd00000000-7ffd00010000 rw-p 00000000 00:00 0 [stack]\n"
                                      "7fff00000000-7fff00001000 r-xp 00000000 00:00 0 [vdso]\n");
    image.maps_whole = true;
    image.modules = {{.path = "/usr/bin/fuzzed",
                      .start = UserAddress(0x400000),
                      .end = UserAddress(0x420000),
                      .inode = 77,
                      .major = 8,
                      .minor = 1}};
    image.memory.add(0x410000, file.substr(0, 0x8000));
    image.memory.add(0x7ffd00000000, file.substr(0, 0x1000));
    image.memory.add(0x7fff00000000, file.substr(0, 0x1000));
    const std::uint64_t auxv[] = {3, 0x400040, 9, 0x401000, 33, 0x7fff00000000, 0, 0};
    image.auxv.assign(reinterpret_cast<const char *>(auxv), sizeof auxv);
    ImageThread &thread = image.threads.emplace_back();
    thread.tid = 100;
    thread.registers = user_regs_struct{};
    thread.registers->rip = 0x401000;
    thread.registers->rsp = 0x7ffd00000000;
    thread.registers->fs_base = 0x410100;
    return image;
}

void make_core(int file, std::string_view bytes) {
    const CrashImage image = image_with(bytes);
    for (const bool there : {true, false}) {
        std::vector<ModuleFile> files(1);
        if (there)
            files[0] = {UniqueFd(::dup(file)), true, false, false, ""};
        else
            files[0].problem = "missing";
        const auto core = make_mini_core(image, files);
        if (!core)
            continue;
        must(core->bytes.size() <= mini_core_max + (1 << 20), "a mini.core has a limit");
        must(auxv_of_head(bytes_of(core->bytes)) == image.auxv, "a mini.core has the process's vector");
    }
}

} // namespace

FUZZ_TARGET(core_notes) {
    read_headers(input);
    const UniqueFd file(::memfd_create("fuzzed", MFD_CLOEXEC));
    must(file && ::write(file.get(), input.data(), input.size()) == static_cast<ssize_t>(input.size()),
         "there is a file");
    read_probed(file.get());
    make_core(file.get(), input);
    read_core(file.get(), input);
}

} // namespace incident::fuzz
