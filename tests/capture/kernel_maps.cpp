#include "capture/os/kernel_maps.h"

#include "capture/os/maps.h"

#include <gmock/gmock.h>

#include <cstddef>
#include <cstring>

namespace incident::capture {
namespace {

// An event as the kernel side sends it: no more entries than are used.
class Event {
public:
    // parts: last component first; returns the entry for changing
    bpf::maps_entry &add(std::uint64_t start, std::uint64_t end, std::initializer_list<std::string_view> parts = {}) {
        bpf::maps_entry &entry = event_.entry[event_.count++];
        entry = {};
        entry.start = start;
        entry.end = end;
        entry.path = event_.names_length;
        for (const std::string_view part : parts) {
            std::memcpy(event_.names + event_.names_length, part.data(), part.size());
            event_.names_length += part.size() + 1;
            entry.inode = 7;
            ++entry.parts;
        }
        return entry;
    }
    std::span<const std::uint8_t> bytes() const {
        return {reinterpret_cast<const std::uint8_t *>(&event_),
                offsetof(bpf::maps_event, entry) + event_.count * sizeof(bpf::maps_entry)};
    }
    bpf::maps_event &raw() { return event_; }

private:
    bpf::maps_event event_{};
};

std::string text_of(const Event &event, const bpf::death_event &whose = {}) {
    bool cut = false;
    return kernel_maps_text(event.bytes(), whose, cut);
}

TEST(KernelMaps, LooksLikeProcPidMaps) {
    Event event;
    auto &entry = event.add(0x55d5c0000000, 0x55d5c0002000, {"webd", "sbin", "usr"});
    entry.page_offset = 3;
    entry.flags = 1 | 4;
    entry.device = 0xfe << 20;
    EXPECT_EQ(text_of(event), "55d5c0000000-55d5c0002000 r-xp 00003000 fe:00 7                          "
                              "/usr/sbin/webd\n");
}

TEST(KernelMaps, TheParserReadsItBack) {
    Event event;
    event.add(0x1000, 0x2000, {"a b\nc", "tmp"}).flags = bpf::MAPS_DELETED | bpf::MAPS_SHARED | 2;
    event.add(0x7f0000000000, 0x7f0000001000).flags = 3;
    const Maps maps = Maps::parse(text_of(event));
    ASSERT_EQ(maps.all().size(), 2u);
    EXPECT_EQ(maps.all()[0].path, "/tmp/a b\\012c");
    EXPECT_TRUE(maps.all()[0].deleted);
    EXPECT_TRUE(maps.all()[0].shared);
    EXPECT_FALSE(maps.all()[0].read);
    EXPECT_EQ(maps.all()[1].path, "");
}

TEST(KernelMaps, HeapStackAndVdsoHaveTheirNames) {
    bpf::death_event whose{};
    whose.start_brk = 0x5000;
    whose.brk = 0x9000;
    whose.start_stack = 0x7ffc00001234;
    whose.auxv[0] = 33; // AT_SYSINFO_EHDR
    whose.auxv[1] = 0x7ffc10000000;
    Event event;
    event.add(0x5000, 0x9000);
    event.add(0x7ffc00000000, 0x7ffc00002000);
    event.add(0x7ffc10000000, 0x7ffc10002000);
    const Maps maps = Maps::parse(text_of(event, whose));
    ASSERT_EQ(maps.all().size(), 3u);
    EXPECT_EQ(maps.all()[0].path, "[heap]");
    EXPECT_EQ(maps.all()[1].path, "[stack]");
    EXPECT_EQ(maps.all()[2].path, "[vdso]");
}

TEST(KernelMaps, TheVdsoOfA32BitProcessIsFound) {
    bpf::death_event whose{};
    whose.auxv[0] = 0xf7fc4550'00000020; // AT_SYSINFO
    whose.auxv[1] = 0xf7fc4000'00000021; // AT_SYSINFO_EHDR
    Event event;
    event.add(0xf7fc4000, 0xf7fc6000);
    const Maps maps = Maps::parse(text_of(event, whose));
    ASSERT_EQ(maps.all().size(), 1u);
    EXPECT_EQ(maps.all()[0].path, "[vdso]");
}

TEST(KernelMaps, WhatIsMissingIsSaid) {
    Event event;
    event.add(0x1000, 0x2000, {"deep"}).flags = bpf::MAPS_PATH_CUT;
    bool cut = false;
    EXPECT_THAT(kernel_maps_text(event.bytes(), {}, cut), testing::HasSubstr("/.../deep"));
    EXPECT_TRUE(cut);
    Event whole;
    whole.add(0x1000, 0x2000);
    cut = false;
    (void)kernel_maps_text(whole.bytes(), {}, cut);
    EXPECT_FALSE(cut);
    whole.raw().cut = 1;
    (void)kernel_maps_text(whole.bytes(), {}, cut);
    EXPECT_TRUE(cut);
}

TEST(KernelMaps, CountsBeyondTheEventAreNotBelieved) {
    Event event;
    auto &entry = event.add(0x1000, 0x2000, {"x"});
    entry.parts = 60000;
    entry.path = MAPS_NAMES_LEN - 1;
    const auto bytes = event.bytes();
    event.raw().count = 100000;
    event.raw().names_length = 1u << 31;
    bool cut = false;
    EXPECT_THAT(kernel_maps_text(bytes, {}, cut), testing::StartsWith("00001000-00002000"));
    EXPECT_EQ(kernel_maps_text(bytes.first(40), {}, cut), "");
}

} // namespace
} // namespace incident::capture
