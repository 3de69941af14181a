// A real program's file with each field of its headers, and bytes of each section, flipped one after the other.  Of
// more than 10,000 mutants a sample is tried in 15 s, or in as many seconds as $INCIDENT_MUTANTS says; "all": each is.
#include "postmortem/unwind/analyse.h"
#include "state.h"
#include "unwind_lab.h"
#include "unwind_victims.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>

namespace incident::postmortem::test {
namespace {

using SteadyClock = std::chrono::steady_clock;

struct Mutant {
    std::size_t at;
    std::uint8_t flip;
};

template <typename T> T header_at(const std::string &file, std::size_t at) {
    T header{};
    if (at + sizeof header <= file.size())
        std::memcpy(&header, file.data() + at, sizeof header);
    return header;
}

// Each byte of the headers, and up to so many of each section that has any.
std::vector<Mutant> mutants_of(const std::string &file) {
    constexpr std::size_t of_a_section = 60;
    std::vector<Mutant> mutants;
    const auto add = [&](std::size_t at) {
        for (const std::uint8_t flip : {0x01, 0x80, 0xff})
            mutants.push_back({at, flip});
    };
    const auto elf = header_at<Elf64_Ehdr>(file, 0);
    for (std::size_t at = 0; at < sizeof elf; ++at)
        add(at);
    for (std::size_t at = 0; at < std::size_t{elf.e_phnum} * sizeof(Elf64_Phdr); ++at)
        add(elf.e_phoff + at);
    for (std::size_t i = 0; i < elf.e_shnum; ++i) {
        const std::size_t header = elf.e_shoff + i * sizeof(Elf64_Shdr);
        for (std::size_t at = 0; at < sizeof(Elf64_Shdr); ++at)
            add(header + at);
        const auto section = header_at<Elf64_Shdr>(file, header);
        if (section.sh_type == SHT_NOBITS || !section.sh_size)
            continue;
        const std::size_t step = std::max<std::size_t>(section.sh_size / of_a_section, 1);
        for (std::size_t at = 0; at < section.sh_size; at += step)
            add(section.sh_offset + at);
    }
    std::erase_if(mutants, [&](const Mutant &mutant) { return mutant.at >= file.size(); });
    return mutants;
}

TEST(UnwindMutants, CostANoteAtMost) {
    UnwindLab lab;
    const auto program = lab.compile("victim", victims[0].source, "-g -O2 -Wl,--build-id=sha1");
    // What Fedora's programs have of their names: a compressed ELF file in a section.
    ASSERT_EQ(lab.shell("cp victim mini && strip --strip-debug mini && xz -k mini && objcopy --add-section "
                        ".gnu_debugdata=mini.xz victim"),
              0);
    const Crash crash = lab.crash(program);
    const std::string file = read_file(program);
    std::vector<Mutant> mutants = mutants_of(file);
    EXPECT_GE(mutants.size(), 10'000u);
    const char *wanted = std::getenv("INCIDENT_MUTANTS"); // NOLINT(concurrency-mt-unsafe): nobody sets it
    const bool all = wanted && std::string(wanted) == "all";
    const char *chosen = std::getenv("INCIDENT_MUTANTS_SEED");
    const auto seed = static_cast<unsigned>(chosen ? std::strtoul(chosen, nullptr, 10) : 1);
    std::mt19937 random(seed);
    std::ranges::shuffle(mutants, random);
    const std::chrono::seconds sample{wanted && !all ? std::atoi(wanted) : 15};
    const auto end = SteadyClock::now() + sample;

    AnalyseOptions options;
    options.install_hints = false;
    options.cpu_seconds = 2;
    options.memory_bytes = 256u << 20;
    options.debug_root = lab.dir() / "none"; // libc's would take most of the time
    std::map<std::string, unsigned> notes;
    std::size_t tried = 0;
    const std::filesystem::path path = lab.dir() / "mutant";
    for (; tried < mutants.size() && (all || SteadyClock::now() < end); ++tried) {
        std::string mutant = file;
        mutant[mutants[tried].at] ^= static_cast<char>(mutants[tried].flip);
        write_file(path, mutant);
        std::vector<ModuleFile> files = open_module_files(crash.image);
        for (std::size_t i = 0; i < files.size(); ++i)
            if (crash.image.modules[i].path.ends_with("/victim"))
                files[i] = {.file = UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC)),
                            .verified = true,
                            .problem = {},
                            .path = path};
        const Analysis analysis = analyse(crash.image, files, options);
        const std::string which =
            fmt::format("seed {}, byte {:#x} ^ {:#x}", seed, mutants[tried].at, mutants[tried].flip);
        ASSERT_EQ(analysis.threads.size(), crash.image.threads.size()) << which;
        ASSERT_FALSE(analysis.threads[0].frames.empty()) << which;
        EXPECT_EQ(analysis.threads[0].frames[0].ip, crash.image.threads[0].registers->rip) << which;
        EXPECT_LE(analysis.threads[0].frames.size(), 256u) << which;
        EXPECT_NE(analysis.threads[0].reason, "") << which;
        for (const std::string &note : analysis.notes)
            ++notes[note.find("SIG") != std::string::npos ? note + " (" + which + ")" : note];
    }
    fmt::print("{} of {} mutants tried (seed {})\n", tried, mutants.size(), seed);
    for (const auto &[note, count] : notes)
        if (note.find("SIG") != std::string::npos)
            fmt::print("  {} times: {}\n", count, note);
}

} // namespace
} // namespace incident::postmortem::test
