#include "capture/decode/socket_address.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <linux/netlink.h>
#include <linux/vm_sockets.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <random>

namespace incident::capture {
namespace {

template <typename Address> std::string bytes_of(const Address &address, std::size_t length = sizeof(Address)) {
    return {reinterpret_cast<const char *>(&address), length};
}

std::string of_path(std::string_view name) {
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    name.copy(address.sun_path, sizeof(address.sun_path));
    return bytes_of(address, offsetof(sockaddr_un, sun_path) + name.size());
}

TEST(SocketAddress, Internet) {
    sockaddr_in four{.sin_family = AF_INET, .sin_port = htons(5432), .sin_addr = {htonl(0x0a000002)}, .sin_zero = {}};
    EXPECT_EQ(socket_address_text(bytes_of(four)),
              R"({sa_family=AF_INET, sin_port=htons(5432), sin_addr=inet_addr("10.0.0.2")})");
    EXPECT_EQ(peer_text(bytes_of(four)), "10.0.0.2:5432");
    four.sin_port = 0;
    EXPECT_EQ(peer_text(bytes_of(four)), "10.0.0.2");
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(80);
    six.sin6_addr = in6addr_loopback;
    EXPECT_EQ(socket_address_text(bytes_of(six)),
              R"({sa_family=AF_INET6, sin6_port=htons(80), sin6_addr=inet_pton("::1")})");
    EXPECT_EQ(peer_text(bytes_of(six)), "[::1]:80");
    six.sin6_port = 0;
    six.sin6_scope_id = 2;
    EXPECT_EQ(peer_text(bytes_of(six)), "::1");
    EXPECT_THAT(socket_address_text(bytes_of(six)), testing::HasSubstr(", sin6_scope_id=2}"));
}

TEST(SocketAddress, Local) {
    EXPECT_EQ(socket_address_text(of_path("/run/x.sock")), R"({sa_family=AF_UNIX, sun_path="/run/x.sock"})");
    EXPECT_EQ(peer_text(of_path("/run/x.sock")), "unix:/run/x.sock");
    EXPECT_EQ(peer_text(of_path(std::string_view("/run/x\0/behind", 14))), "unix:/run/x");
    EXPECT_EQ(socket_address_text(of_path(std::string_view("\0bus\n", 5))),
              R"({sa_family=AF_UNIX, sun_path=@"bus\n"})");
    EXPECT_EQ(peer_text(of_path(std::string_view("\0bus", 4))), "unix:@bus");
    EXPECT_EQ(socket_address_text(of_path("")), "{sa_family=AF_UNIX}");
    EXPECT_EQ(peer_text(of_path("")), "unix");
}

TEST(SocketAddress, OtherFamilies) {
    const sockaddr_nl link{.nl_family = AF_NETLINK, .nl_pad = 0, .nl_pid = 7, .nl_groups = 0x11};
    EXPECT_EQ(socket_address_text(bytes_of(link)), "{sa_family=AF_NETLINK, nl_pid=7, nl_groups=0x11}");
    EXPECT_EQ(peer_text(bytes_of(link)), "AF_NETLINK pid 7");
    sockaddr_vm machine{};
    machine.svm_family = AF_VSOCK;
    machine.svm_cid = 3;
    machine.svm_port = 22;
    EXPECT_EQ(socket_address_text(bytes_of(machine)), "{sa_family=AF_VSOCK, svm_cid=3, svm_port=22}");
    EXPECT_EQ(peer_text(bytes_of(machine)), "vsock 3:22");
    EXPECT_EQ(socket_address_text(std::string_view("\xf0\0ab", 4)), R"({sa_family=240, sa_data="ab"})");
    EXPECT_EQ(peer_text(std::string_view("\xf0\0ab", 4)), "family 240");
}

// A process may give any bytes.
TEST(SocketAddress, TooFewBytesAreShownAsTheyAre) {
    EXPECT_EQ(socket_address_text(""), "{sa_family=AF_UNSPEC}");
    EXPECT_EQ(socket_address_text(std::string_view("\2\0\1", 3)), R"({sa_family=AF_INET, sa_data="\1"})");
    EXPECT_EQ(peer_text(std::string_view("\2\0\1", 3)), "AF_INET");
    std::mt19937 random(3); // NOLINT(cert-msc32-c,cert-msc51-cpp): the same bytes each time
    for (int i = 0; i < 20'000; ++i) {
        std::string bytes(random() % 129, '\0');
        for (char &byte : bytes)
            byte = static_cast<char>(random() % 4 ? random() % 41 : random());
        EXPECT_FALSE(socket_address_text(bytes).empty());
        EXPECT_FALSE(peer_text(bytes).empty());
    }
}

TEST(SocketAddress, StandsInPlaceOfThePointer) {
    const std::uint64_t args[] = {3, 0x1000, 16, 0, 0x2000, 16};
    DecodedCall connect = decode_syscall(42, false, args, nullptr), send = decode_syscall(44, false, args, nullptr),
                message = decode_syscall(46, false, args, nullptr);
    for (DecodedCall *call : {&connect, &send, &message})
        show_address(*call, "{…}");
    EXPECT_THAT(connect.args, testing::ElementsAre("3", "{…}", "16"));
    ASSERT_EQ(send.args.size(), 6u);
    EXPECT_EQ(send.args[1], "0x1000");
    EXPECT_EQ(send.args[4], "{…}");
    EXPECT_EQ(message.args[1], "{msg_name={…}}");
}

} // namespace
} // namespace incident::capture
