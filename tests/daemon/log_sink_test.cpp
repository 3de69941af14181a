// The log does not wait for a reader that hangs, and says afterwards what it did not get.
#include "daemon/os/log_sink.h"

#include "capture/os/unique_fd.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <spdlog/logger.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>

namespace incident::daemon {
namespace {

std::string read_all(int fd) {
    std::string text(1 << 20, '\0');
    std::size_t used = 0;
    for (ssize_t got; used < text.size() && (got = ::read(fd, text.data() + used, text.size() - used)) > 0;)
        used += static_cast<std::size_t>(got);
    text.resize(used);
    return text;
}

// The descriptors: who reads (which does not wait), who writes.
void hung_reader(int reads, int writes) {
    spdlog::logger log("test", std::make_shared<LogSink>(writes));
    log.set_pattern("%v");
    const std::string line(200, 'x');
    constexpr int lines = 4000;
    for (int i = 0; i < lines; ++i)
        log.info("{}", line); // returns
    const std::string before = read_all(reads);
    const auto taken = static_cast<int>(before.size() / (line.size() + 1));
    EXPECT_GT(taken, 0);
    EXPECT_LT(taken, lines);
    EXPECT_EQ(before.size() % (line.size() + 1), 0u) << "no half line";
    log.info("again");
    EXPECT_EQ(read_all(reads),
              std::to_string(lines - taken) + " lines of this log were lost: nobody read them\nagain\n");
    log.info("and again");
    EXPECT_EQ(read_all(reads), "and again\n");
}

TEST(LogSinkTest, AStreamWhoseReaderHangs) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const UniqueFd reads(ends[0]), writes(ends[1]);
    ASSERT_EQ(::fcntl(reads.get(), F_SETFL, O_NONBLOCK), 0);
    hung_reader(reads.get(), writes.get());
}

TEST(LogSinkTest, APipeWhoseReaderHangs) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const UniqueFd reads(ends[0]), writes(ends[1]);
    ASSERT_EQ(::fcntl(reads.get(), F_SETFL, O_NONBLOCK), 0);
    hung_reader(reads.get(), writes.get());
}

} // namespace
} // namespace incident::daemon
