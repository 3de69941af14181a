// Stacks and files that DWARF and call frame information are read from.  The whole work of the capped child is done
// here in this process, and its answer read as the parent reads it.
#include "postmortem/unwind/child_analysis.h"
#include "tests/fuzz/target.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace incident::fuzz {
namespace {

using namespace postmortem;

constexpr std::uint64_t code = 0x400000, wide_stack = 0x7ffd00000000, narrow_stack = 0xfff00000;

CrashImage image_of(Input &bytes) {
    CrashImage image;
    image.pid = 100;
    image.exe = "/usr/bin/fuzzed";
    image.signal = 11;
    image.maps = capture::Maps::parse("400000-440000 r-xp 00000000 08:01 77 /usr/bin/fuzzed\n"
                                      "600000-610000 rwxp 00000000 00:00 0 \n"
                                      "fff00000-fff10000 rw-p 00000000 00:00 0 [stack]\n"
                                      "7ffd00000000-7ffd00010000 rw-p 00000000 00:00 0 [stack]\n");
    image.maps_whole = true;
    image.modules = {{.path = "/usr/bin/fuzzed",
                      .start = UserAddress(code),
                      .end = UserAddress(0x440000),
                      .inode = 77,
                      .major = 8,
                      .minor = 1}};
    ImageThread &thread = image.threads.emplace_back();
    thread.tid = 100;
    thread.is_triggers = true;
    user_regs_struct &registers = thread.registers.emplace();
    for (auto *each : {&registers.rip, &registers.rsp, &registers.rbp, &registers.rax, &registers.rbx, &registers.rcx,
                       &registers.rdx, &registers.rsi, &registers.rdi})
        *each = bytes.number<std::uint64_t>();
    // Mostly near what is there.
    const auto flags = bytes.number<std::uint8_t>();
    const bool narrow = flags & 8; // a 32-bit program
    image.isa = narrow ? Isa::i386 : Isa::x86_64;
    const std::uint64_t stack = narrow ? narrow_stack : wide_stack;
    registers.rip &= capture::word_mask(image.isa);
    if (flags & 1)
        registers.rip = code + registers.rip % 0x40000;
    if (flags & 2)
        registers.rsp = stack + registers.rsp % 0x1000;
    if (flags & 4)
        registers.rbp = stack + registers.rbp % 0x1000;
    image.memory.add(stack, bytes.bytes(bytes.number<std::uint16_t>() % 0x2000));
    image.perf_map = bytes.text();
    return image;
}

} // namespace

FUZZ_TARGET(unwind) {
    Input bytes(input);
    CrashImage image = image_of(bytes);
    const std::string_view file = bytes.rest();
    image.memory.add(0x600000, file.substr(0, 0x100));
    const UniqueFd module(::memfd_create("fuzzed", MFD_CLOEXEC));
    must(module && ::write(module.get(), file.data(), file.size()) == static_cast<ssize_t>(file.size()),
         "there is a file");
    AnalyseOptions options;
    options.debug_root = "/nonexistent";
    options.install_hints = false;
    Findings findings;
    findings.stacks.resize(image.threads.size());
    findings.modules.resize(image.modules.size() + 1);
    std::vector<std::string> answers;
    std::atomic<std::uint32_t> progress{};
    analyse_in_child(
        image, {{.file = module.get()}, {.file = -1, .problem = "none"}}, options, nullptr, {}, findings,
        [&](std::string_view line) { answers.emplace_back(line); }, &progress);
    for (const std::string &line : answers) {
        must(line.find('\n') == std::string::npos, "an answer is one line");
        add_answer(line, findings);
    }
    must(findings.stacks[0] && !findings.stacks[0]->frames.empty(), "a thread with registers has a frame");
    must(findings.stacks[0]->frames.size() <= options.frames_max, "a stack has a limit");
    must(findings.stacks[0]->frames[0].ip == image.threads[0].registers->rip,
         "the first frame is where the thread was");
    // What a child that was taken over could say.
    add_answer(file, findings);
}

} // namespace incident::fuzz
