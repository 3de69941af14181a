// Finding, decompressing and writing cores.
#include "postmortem/core/core_auxv.h"
#include "postmortem/core/core_copy.h"
#include "state.h"

#include <archive.h>
#include <archive_entry.h>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>

namespace incident::postmortem::test {

using testing::HasSubstr;

namespace {

// An ELF core of one segment, with pages of zeros among its bytes.
std::string sample_core(std::size_t payload = 3u << 20) {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_type = ET_CORE;
    header.e_phoff = sizeof header;
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = 1;
    Elf64_Phdr segment{};
    segment.p_type = PT_LOAD;
    segment.p_offset = 4096;
    segment.p_filesz = payload;
    std::string core(4096 + payload, '\0');
    std::memcpy(core.data(), &header, sizeof header);
    std::memcpy(core.data() + sizeof header, &segment, sizeof segment);
    for (std::size_t i = 4096; i < core.size(); i += (i / 4096) % 3 == 0 ? 4096 : 7)
        core[i] = static_cast<char>(i * 2654435761u >> 13);
    return core;
}

// As libarchive compresses it with that filter: one file without a name.
std::string compressed(const std::string &text, int (*add_filter)(archive *)) {
    const std::unique_ptr<archive, decltype(&archive_write_free)> to(archive_write_new(), archive_write_free);
    const std::unique_ptr<archive_entry, decltype(&archive_entry_free)> entry(archive_entry_new(), archive_entry_free);
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_pathname(entry.get(), "core");
    std::string out(text.size() + (1u << 20), '\0');
    std::size_t size = 0;
    EXPECT_EQ(add_filter(to.get()), ARCHIVE_OK);
    EXPECT_EQ(archive_write_set_format_raw(to.get()), ARCHIVE_OK);
    EXPECT_EQ(archive_write_set_bytes_in_last_block(to.get(), 1), ARCHIVE_OK); // no padding behind the frame
    EXPECT_EQ(archive_write_open_memory(to.get(), out.data(), out.size(), &size), ARCHIVE_OK);
    EXPECT_EQ(archive_write_header(to.get(), entry.get()), ARCHIVE_OK);
    EXPECT_EQ(archive_write_data(to.get(), text.data(), text.size()), static_cast<la_ssize_t>(text.size()));
    EXPECT_EQ(archive_write_close(to.get()), ARCHIVE_OK) << archive_error_string(to.get());
    out.resize(size);
    return out;
}

std::string zstd(const std::string &text) {
    return compressed(text, archive_write_add_filter_zstd);
}

std::string lz4(const std::string &text) {
    return compressed(text, archive_write_add_filter_lz4);
}

std::string xz(const std::string &text) {
    return compressed(text, archive_write_add_filter_xz);
}

std::string plain(const std::string &text) {
    return text;
}

// A bundle whose core, as the journal says, is this file.
class WithCore : public State {
public:
    explicit WithCore(const std::string &bytes) {
        name = add_sample("crash");
        core = (dir() / "core.victim.1000.zst").string();
        write_file(core, bytes);
        find_core = [this](const capture::DeathIdentity &) -> Result<capture::CoreLink> {
            ++asked;
            return capture::CoreLink{.join = capture::Join::Exact, .file = core};
        };
    }
    std::string name, core;
    std::string target = (dir() / "out").string();
    int asked = 0;
};

} // namespace

struct Format {
    const char *name;
    std::string (*compress)(const std::string &);
};

class CoreFormat : public testing::TestWithParam<Format> {};

TEST_P(CoreFormat, RoundTrip) {
    const std::string bytes = sample_core();
    WithCore state(GetParam().compress(bytes));
    const Ran ran = state.run({"core", "-o", state.target});
    ASSERT_EQ(ran.code, 0) << ran.err;
    EXPECT_TRUE(read_file(state.target) == bytes);
    struct stat status {};
    ASSERT_EQ(stat(state.target.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    EXPECT_LT(status.st_blocks * 512, status.st_size); // pages of zeros became holes
    EXPECT_EQ(ran.err, "");
}

TEST_P(CoreFormat, CutFileIsAnErrorAndLeavesNothing) {
    const std::string whole = GetParam().compress(sample_core());
    WithCore state(whole.substr(0, whole.size() / 2));
    const Ran ran = state.run({"core", "-o", state.target});
    if (GetParam().compress == plain) { // nothing but its headers tells: it is used, and said so
        EXPECT_EQ(ran.code, 0);
        EXPECT_THAT(ran.err, HasSubstr("the core is truncated"));
        return;
    }
    EXPECT_EQ(ran.code, 1);
    EXPECT_THAT(ran.err, HasSubstr("is damaged at its end: "));
    for (const auto &entry : std::filesystem::directory_iterator(state.dir()))
        EXPECT_NE(entry.path().filename().string().substr(0, 3), "out");
}

TEST_P(CoreFormat, GarbageInsideIsAnError) {
    std::string bytes = GetParam().compress(sample_core());
    // More than a block: what libarchive writes as zstd has no checksum, and other literals are no error.
    for (std::size_t i = bytes.size() / 2; i < bytes.size() / 4 * 3; ++i)
        bytes[i] = static_cast<char>(~bytes[i]);
    WithCore state(bytes);
    const Ran ran = state.run({"core", "-o", state.target});
    if (GetParam().compress == plain) { // cannot tell garbage from content
        EXPECT_EQ(ran.code, 0) << ran.err;
        return;
    }
    EXPECT_EQ(ran.code, 1);
    EXPECT_THAT(ran.err, HasSubstr("is damaged"));
}

INSTANTIATE_TEST_SUITE_P(Core, CoreFormat,
                         testing::Values(Format{"zstd", zstd}, Format{"lz4", lz4}, Format{"xz", xz},
                                         Format{"plain", plain}),
                         [](const auto &format) { return format.param.name; });

TEST(Core, OneThatIsCutWithinItsFirstBlockIsAnError) {
    for (const auto compress : {&zstd, &lz4, &xz}) {
        WithCore state(compress(sample_core()).substr(0, 20));
        EXPECT_THAT(state.run({"core", "-o", state.target}).err, HasSubstr("is damaged at its end: "));
    }
}

TEST(Core, FileOfOneByteIsNone) {
    WithCore state("\x7f");
    EXPECT_THAT(state.run({"core", "-o", state.target}).err, HasSubstr("it ends before its headers do"));
}

TEST(Core, DoesNotOverwriteUnlessForced) {
    WithCore state(zstd(sample_core()));
    write_file(state.target, "mine");
    const Ran refused = state.run({"core", "-o", state.target});
    EXPECT_EQ(refused.code, 1);
    EXPECT_EQ(refused.err, "incidentctl: " + state.target + " exists already: give another -o FILE, or --force\n");
    EXPECT_EQ(read_file(state.target), "mine");
    EXPECT_EQ(state.run({"core", "-o", state.target, "--force"}).code, 0);
    EXPECT_TRUE(read_file(state.target) == sample_core());
}

TEST(Core, JsonTellsWhatWasWritten) {
    WithCore state(zstd(sample_core()));
    const Json document = Json::parse(state.run({"core", "--json", "-o", state.target}).out);
    EXPECT_EQ(document["file"], state.target);
    EXPECT_EQ(document["bytes"], sample_core().size());
    EXPECT_EQ(document["join"], "exact");
}

TEST(Core, SaysWhyThereIsNone) {
    State state;
    const std::string name = state.add_sample("crash");
    state.find_core = [](const capture::DeathIdentity &) -> Result<capture::CoreLink> {
        return capture::CoreLink{.reason = "RLIMIT_CORE was 0"};
    };
    const Ran ran = state.run({"core", "-o", "never"});
    EXPECT_EQ(ran.code, 1);
    EXPECT_EQ(ran.err, "incidentctl: no core for " + name + ": RLIMIT_CORE was 0\n");
    state.find_core = [](const capture::DeathIdentity &) -> Result<capture::CoreLink> {
        return capture::CoreLink{.join = capture::Join::Exact, .file = "/nonexistent/core.zst"};
    };
    EXPECT_THAT(state.run({"core", "-o", "never"}).err,
                HasSubstr("/nonexistent/core.zst is not opened: the core is said to be a file outside "));
    const std::string gone = (state.dir() / "core.zst").string();
    state.find_core = [&](const capture::DeathIdentity &) -> Result<capture::CoreLink> {
        return capture::CoreLink{.join = capture::Join::Exact, .file = gone};
    };
    EXPECT_THAT(state.run({"core", "-o", "never"}).err, HasSubstr(gone + " is no longer there"));
}

TEST(Core, WaitsWhileTheDumpIsUnderWay) {
    WithCore state(zstd(sample_core()));
    const auto there = state.find_core;
    state.find_core = [&, left = 2](const capture::DeathIdentity &death) mutable -> Result<capture::CoreLink> {
        return left-- > 0 ? capture::CoreLink{.reason = "under way", .pending = true} : there(death);
    };
    EXPECT_EQ(state.run({"core", "-o", state.target}).code, 0);
    state.find_core = [](const capture::DeathIdentity &) -> Result<capture::CoreLink> {
        return capture::CoreLink{.reason = "under way", .pending = true};
    };
    EXPECT_THAT(state.run({"core", "-o", state.target + "2", "--wait", "10ms"}).err, HasSubstr("under way"));
}

TEST(Core, TheBundlesOwnLinkSparesTheJournal) {
    WithCore state(plain(sample_core()));
    Json incident = sample_incident("crash");
    incident["core"] = {{"join", "exact"}, {"file", state.core}};
    State other;
    other.cores = state.dir().string();
    other.add_sample("crash", {{"incident.json", incident.dump()}});
    other.find_core = [](const capture::DeathIdentity &) -> Result<capture::CoreLink> {
        ADD_FAILURE() << "the journal was asked";
        return fail("asked");
    };
    EXPECT_EQ(other.run({"core", "-o", state.target}).code, 0);
}

namespace {

// The same with the kernel's note of the auxiliary vector.
std::string core_with_auxv(const std::string &auxv) {
    std::string core = sample_core(4096);
    constexpr std::size_t at = 1024;
    const Elf64_Nhdr note{5, static_cast<Elf64_Word>(auxv.size()), NT_AUXV};
    Elf64_Phdr segment{};
    segment.p_type = PT_NOTE;
    segment.p_offset = at;
    segment.p_filesz = sizeof note + 8 + auxv.size();
    Elf64_Ehdr header;
    std::memcpy(&header, core.data(), sizeof header);
    header.e_phnum = 2;
    core.replace(sizeof header + sizeof segment, sizeof segment, core.substr(sizeof header, sizeof segment));
    std::memcpy(core.data(), &header, sizeof header);
    std::memcpy(core.data() + sizeof header, &segment, sizeof segment);
    std::memcpy(core.data() + at, &note, sizeof note);
    std::memcpy(core.data() + at + sizeof note, "CORE", 5);
    std::memcpy(core.data() + at + sizeof note + 8, auxv.data(), auxv.size());
    return core;
}

} // namespace

TEST(Core, OfAnotherProcessIsRefused) {
    const std::string ours(32, 'o'), zeros(64, '\0');
    for (const auto &[of_core, of_bundle, taken] : {std::tuple(ours, ours, true),
                                                    {ours, ours + zeros, true},
                                                    {ours, std::string(), true},
                                                    {std::string(), ours, true},
                                                    {zeros, ours, true},
                                                    {std::string(32, 'x'), ours, false}}) {
        WithCore state(zstd(core_with_auxv(of_core)));
        State other;
        other.cores = state.dir().string();
        other.find_core = state.find_core;
        other.add_sample("crash", {{"process/auxv", of_bundle}});
        const Ran ran = other.run({"core", "-o", state.target});
        EXPECT_EQ(ran.code, taken ? 0 : 1) << ran.err;
        EXPECT_EQ(std::filesystem::exists(state.target), taken);
        if (!taken) {
            EXPECT_THAT(ran.err, HasSubstr(state.core + " is of another process (the auxiliary vectors differ)"));
        }
    }
}

TEST(Core, HostileNotesAreNone) {
    const auto auxv = [](const std::string &core) {
        return auxv_of_head({reinterpret_cast<const std::uint8_t *>(core.data()), core.size()});
    };
    const std::string core = core_with_auxv("0123456789abcdef");
    EXPECT_EQ(auxv(core), "0123456789abcdef");
    for (std::size_t size = 0; size < 1024 + sizeof(Elf64_Nhdr) + 8 + 16; ++size)
        EXPECT_EQ(auxv(core.substr(0, size)), "");
    for (const std::size_t at :
         {std::size_t{1024}, std::size_t{1028}, sizeof(Elf64_Ehdr) + 8, sizeof(Elf64_Ehdr) + 32}) {
        std::string hostile = core;
        hostile.replace(at, 4, "\xff\xff\xff\xff"); // sizes and places beyond the file
        EXPECT_EQ(auxv(hostile), "") << at;
    }
}

TEST(Core, OnlyOfSystemdCoredumpsDirectoryAndOwner) {
    WithCore state(zstd(sample_core()));
    const auto refused = [&](const std::string &why) {
        const Ran ran = state.run({"core", "-o", state.target});
        EXPECT_EQ(ran.code, 1);
        EXPECT_THAT(ran.err, HasSubstr(state.core + " is not opened: " + why));
        EXPECT_FALSE(std::filesystem::exists(state.target));
    };
    chmod(state.core.c_str(), 0666);
    refused("others than its owner may write the core file");
    chmod(state.core.c_str(), 0640);
    std::filesystem::rename(state.core, state.core + ".real");
    std::filesystem::create_symlink(state.core + ".real", state.core);
    refused("the core file is a symbolic link");
    state.cores = (state.dir() / "coredump").string();
    refused("the core is said to be a file outside " + state.cores);
}

TEST(Core, WhatGoesOnBeyondItsHeadersIsRefused) {
    WithCore state(zstd(sample_core(4096) + std::string(8u << 20, 'x')));
    EXPECT_THAT(state.run({"core", "-o", state.target}).err, HasSubstr("goes on beyond the end its headers state"));
}

TEST(Core, StatedSizeOfHostileHeaders) {
    std::string bytes = sample_core(4096);
    const auto stated = [&] {
        return stated_core_size({reinterpret_cast<const std::uint8_t *>(bytes.data()), bytes.size()});
    };
    EXPECT_EQ(**stated(), 8192u);
    auto *header = reinterpret_cast<Elf64_Ehdr *>(bytes.data());
    auto *segment = reinterpret_cast<Elf64_Phdr *>(bytes.data() + sizeof *header);
    segment->p_offset = ~0ull;
    EXPECT_FALSE(stated());
    segment->p_offset = 1ull << 62, segment->p_filesz = 1ull << 62;
    EXPECT_FALSE(stated());
    *segment = {};
    header->e_phoff = ~0ull;
    EXPECT_FALSE(stated());
    header->e_phoff = sizeof *header, header->e_phnum = 65535;
    EXPECT_EQ(*stated(), std::nullopt); // more bytes are needed
    header->e_phnum = 1, header->e_shoff = ~0ull;
    EXPECT_FALSE(stated());
    header->e_shoff = 0, header->e_type = ET_EXEC;
    EXPECT_EQ(stated().error().what, "an ELF file, but no core");
}

} // namespace incident::postmortem::test
