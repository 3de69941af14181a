#include "capture/collect/collect_sockets.h"
#include "capture/render/render_fds.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>

namespace incident::capture {
namespace {

// As Linux 6.1 prints them.
constexpr std::string_view tcp =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode                  "
    "\n"
    "   0: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 501 1 000 100 0 0 10 "
    "0\n"
    "   1: 0100000A:A112 0200000A:1538 01 00000000:00000000 02:000006C4 00000000  1000        0 502 2 000 20 4 30 10 "
    "-1\n"
    "   2: 0100000A:A113 0200000A:1538 06 00000000:00000000 03:000006C4 00000000     0        0 0 3 000\n";
constexpr std::string_view tcp6 = "   1: 00000000000000000000000001000000:01BB 0000000000000000FFFF00000200000A:C350 "
                                  "08 00000000:00000000 00:00000000 "
                                  "00000000     0        0 503 1 000 100\n";

TEST(CollectSockets, ByTheirInodes) {
    EXPECT_EQ(sockets_in(tcp, "TCP", {501, 502}),
              "{\"inode\":501,\"target\":\"TCP 0.0.0.0:80\",\"state\":\"LISTEN\"}\n"
              "{\"inode\":502,\"target\":\"TCP 10.0.0.1:41234→10.0.0.2:5432\",\"state\":\"ESTABLISHED\"}\n");
    EXPECT_EQ(sockets_in(tcp6, "TCP", {503}),
              "{\"inode\":503,\"target\":\"TCP [::1]:443→[::ffff:10.0.0.2]:50000\",\"state\":\"CLOSE_WAIT\"}\n");
    EXPECT_EQ(sockets_in(tcp, "TCP", {7}), "");
}

TEST(CollectSockets, ADatagramSocketHasNoStateUntilItIsConnected) {
    const std::string line = "1: 0100000A:0035 00000000:0000 07 0:0 00:0 0 0 0 504 2 0\n",
                      connected = "1: 0100000A:A112 0200000A:0035 01 0:0 00:0 0 0 0 504 2 0\n";
    EXPECT_EQ(sockets_in(line, "UDP", {504}), "{\"inode\":504,\"target\":\"UDP 10.0.0.1:53\",\"state\":null}\n");
    EXPECT_EQ(sockets_in(connected, "UDP", {504}),
              "{\"inode\":504,\"target\":\"UDP 10.0.0.1:41234→10.0.0.2:53\",\"state\":\"ESTABLISHED\"}\n");
}

TEST(CollectSockets, LinesThatAreNoneArePassedOver) {
    for (const char *line : {"", "x", "0: 1 2 3 4 5 6 7 8 9 10", "0: 0100000A:A112 0200000A 01 0 0 0 0 0 502",
                             "0: 0100000A:A112 020000XX:1538 01 0 0 0 0 0 502", "0: 0100000A:A112 : 01 0 0 0 0 0 502"})
        EXPECT_EQ(sockets_in(line, "TCP", {502, 10, 9}), "") << line;
}

TEST(CollectSockets, TheInodeOfALink) {
    EXPECT_EQ(socket_inode("socket:[36721]"), 36721u);
    for (const char *other :
         {"socket:[]", "socket:[1", "socket:[-1]", "/socket:[1]", "pipe:[1]", "socket:[1] (deleted)"})
        EXPECT_EQ(socket_inode(other), 0u) << other;
}

TEST(CollectSockets, OfThisProcess) {
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t length = sizeof(address);
    auto *at = reinterpret_cast<sockaddr *>(&address);
    ASSERT_EQ(::bind(listener, at, length), 0);
    ASSERT_EQ(::listen(listener, 1), 0);
    ASSERT_EQ(::getsockname(listener, at, &length), 0);
    struct stat st {};
    ASSERT_EQ(::fstat(listener, &st), 0);
    const int process = ::open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    const Outcome outcome = collect_sockets(process, {st.st_ino}, 1 << 20, Deadline(std::chrono::seconds(60)));
    EXPECT_TRUE(outcome.ok) << outcome.error;
    ASSERT_EQ(outcome.files.size(), 1u);
    const std::string target = "TCP 127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    EXPECT_EQ(outcome.files[0].second,
              "{\"inode\":" + std::to_string(st.st_ino) + ",\"target\":\"" + target + "\",\"state\":\"LISTEN\"}\n");
    const std::string fds = "{\"fd\":5,\"target\":\"socket:[" + std::to_string(st.st_ino) + "]\"}\n";
    FdTable table(&fds, &outcome.files[0].second);
    EXPECT_EQ(table.name(5).path, target);
    EXPECT_EQ(table.name(5).from, "end");
    ::close(process);
    ::close(listener);
}

} // namespace
} // namespace incident::capture
