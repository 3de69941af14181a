// Finding, decompressing and writing cores.
#include "postmortem/core/core_copy.h"
#include "state.h"

#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lz4frame.h>
#include <lzma.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

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

std::string zstd(const std::string &text) {
    std::string out(ZSTD_compressBound(text.size()), '\0');
    out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 1));
    return out;
}

std::string lz4(const std::string &text) {
    std::string out(LZ4F_compressFrameBound(text.size(), nullptr), '\0');
    out.resize(LZ4F_compressFrame(out.data(), out.size(), text.data(), text.size(), nullptr));
    return out;
}

std::string xz(const std::string &text) {
    std::string out(lzma_stream_buffer_bound(text.size()), '\0');
    std::size_t size = 0;
    EXPECT_EQ(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const std::uint8_t *>(text.data()),
                                      text.size(), reinterpret_cast<std::uint8_t *>(out.data()), &size, out.size()),
              LZMA_OK);
    out.resize(size);
    return out;
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
    EXPECT_THAT(ran.err, HasSubstr("is damaged: it ends in the middle"));
    for (const auto &entry : std::filesystem::directory_iterator(state.dir()))
        EXPECT_NE(entry.path().filename().string().substr(0, 3), "out");
}

TEST_P(CoreFormat, GarbageInsideIsAnError) {
    std::string bytes = GetParam().compress(sample_core());
    for (std::size_t i = bytes.size() / 2; i < bytes.size() / 2 + 64; ++i)
        bytes[i] = static_cast<char>(~bytes[i]);
    WithCore state(bytes);
    const Ran ran = state.run({"core", "-o", state.target});
    // Plain bytes and lz4 without block checksums cannot tell garbage from content.
    const bool checked = GetParam().compress == zstd || GetParam().compress == xz;
    EXPECT_TRUE(ran.code == 1 || (ran.code == 0 && !checked)) << ran.err;
}

INSTANTIATE_TEST_SUITE_P(Core, CoreFormat,
                         testing::Values(Format{"zstd", zstd}, Format{"lz4", lz4}, Format{"xz", xz},
                                         Format{"plain", plain}),
                         [](const auto &format) { return format.param.name; });

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
    EXPECT_THAT(state.run({"core", "-o", "never"}).err, HasSubstr("/nonexistent/core.zst is no longer there"));
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
    other.add_sample("crash", {{"incident.json", incident.dump()}});
    other.find_core = [](const capture::DeathIdentity &) -> Result<capture::CoreLink> {
        ADD_FAILURE() << "the journal was asked";
        return fail("asked");
    };
    EXPECT_EQ(other.run({"core", "-o", state.target}).code, 0);
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
