// Events of random bytes: whatever a count, a length or an index says, nothing is read outside its
// array (run with INCIDENTD_SANITIZE=address,undefined) and all that is written is JSON.
#include "render_fixture.h"

#include <gtest/gtest.h>

#include <random>

namespace incident::capture {
namespace {

using test::Made;

class RandomBytes {
public:
    explicit RandomBytes(unsigned seed) : engine_(seed) {}

    // Mostly random, sometimes all ones or zeros: the extremes of every field.
    template <typename T> void fill(T &object) {
        static_assert(std::is_trivially_copyable_v<T>);
        auto *bytes = reinterpret_cast<unsigned char *>(&object);
        for (std::size_t i = 0; i < sizeof object; ++i) {
            if (i % 64 == 0)
                mode_ = engine_() % 4;
            bytes[i] = mode_ == 0 ? 0 : mode_ == 1 ? 0xff : static_cast<unsigned char>(engine_());
        }
    }
    std::string text(std::size_t most) {
        std::string text(engine_() % (most + 1), '\0');
        for (char &c : text)
            c = static_cast<char>(engine_());
        return text;
    }
    std::uint64_t below(std::uint64_t limit) { return engine_() % limit; }

private:
    std::mt19937_64 engine_;
    unsigned mode_ = 0;
};

Made random_incident(unsigned seed) {
    RandomBytes bytes(seed);
    Made made;
    ProcessSnapshot &process = made.input.process;
    bytes.fill(process.event);
    bytes.fill(*process.entry);
    for (ThreadSnapshot &thread : process.threads) {
        bytes.fill(*thread.event);
        bytes.fill(thread.rings->slot);
        thread.stack.front().bytes.resize(bytes.below(300));
        thread.rings->syscalls.resize(bytes.below(20));
        for (bpf::syscall_record &record : thread.rings->syscalls) {
            bytes.fill(record);
            if (bytes.below(2))
                record.nr = static_cast<int>(bytes.below(460));
        }
        thread.rings->paths.resize(bytes.below(10));
        for (CallPath &path : thread.rings->paths) {
            path.bytes = bytes.text(40);
            path.status = static_cast<bpf::path_status>(bytes.below(4));
            bytes.fill(path.how_flags);
            if (!thread.rings->syscalls.empty() && bytes.below(4))
                path.start_ns = thread.rings->syscalls[bytes.below(thread.rings->syscalls.size())].start_ns;
        }
        thread.rings->memory.resize(bytes.below(5));
        for (bpf::memory_record &memory : thread.rings->memory)
            bytes.fill(memory);
    }
    if (bytes.below(2))
        process.event.h.tid = process.threads[0].tid;
    process.threads_expected = static_cast<std::uint32_t>(bytes.below(5));
    for (const char *file : {"process/maps", "process/fds", "process/comms", "process/cgroup", "process/cmdline",
                             "process/exe", "host/version"})
        if (bytes.below(2))
            made.collected.files[file] = bytes.text(200);
    if (bytes.below(4) == 0)
        made.redact = {"a.c", "[0-9]+"};
    return made;
}

TEST(RenderFuzz, RandomEvents) {
    for (unsigned seed = 0; seed < 150; ++seed) {
        const Made made = random_incident(seed);
        for (const auto &[path, bytes] : render_all(made.context())) {
            if (path.ends_with(".json")) {
                ASSERT_TRUE(nlohmann::json::accept(bytes)) << "seed " << seed << " " << path;
            } else if (path == "summary.txt") {
                for (const char c : bytes)
                    ASSERT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << "seed " << seed;
            }
        }
        ASSERT_NO_THROW((void)made.timeline()) << "seed " << seed;
    }
}

} // namespace
} // namespace incident::capture
