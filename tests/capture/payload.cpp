// What a call has sent or received, in the place of the pointer to it.
#include "capture/decode/payload.h"
#include "capture/collect/snapshot.h"
#include "capture/decode/socket_address.h"

#include <gmock/gmock.h>
#include <sys/syscall.h>

namespace incident::capture {
namespace {

using testing::ElementsAre;

DecodedCall call(int nr) {
    const std::uint64_t args[] = {5, 0x7f00, 64, 0, 0, 0};
    return decode_syscall(nr, false, args, nullptr);
}

std::string shown(int nr, std::string_view text, bool whole) {
    DecodedCall decoded = call(nr);
    show_payload(decoded, text, whole);
    return decoded.args[1];
}

TEST(Payload, StandsInThePlaceOfThePointer) {
    EXPECT_EQ(shown(SYS_write, "a\n", true), R"("a\n")");
    EXPECT_EQ(shown(SYS_recvfrom, "GET", false), R"("GET"…)");
    EXPECT_EQ(shown(SYS_writev, "a", false), R"(["a"…])");
    EXPECT_EQ(shown(SYS_readv, "", true), R"([""])");
    EXPECT_EQ(shown(SYS_sendmsg, "a", true), R"({msg_iov=["a"]})");
}

TEST(Payload, OfAMessageStandsBesideItsAddress) {
    DecodedCall decoded = call(SYS_recvmsg);
    show_address(decoded, "{sa_family=AF_UNSPEC}");
    show_payload(decoded, "a", true);
    EXPECT_EQ(decoded.args[1], R"({msg_name={sa_family=AF_UNSPEC}, msg_iov=["a"]})");
}

TEST(Payload, DoesNothingToATerminal) {
    EXPECT_EQ(shown(SYS_write, std::string_view("\x1b[2J\0\x9b\"\\", 8), true), R"("\33[2J\0\233\"\\")");
}

TEST(Payload, IsWholeIfAllOfItIsThere) {
    EXPECT_TRUE(holds_all({0, "abc"}, 3));
    EXPECT_FALSE(holds_all({0, "abc"}, 4));
    EXPECT_FALSE(holds_all({0, "abc"}, -1));
}

TEST(Payload, OfACallWhoseArgumentsAreGoneIsNotShown) {
    DecodedCall decoded = call(SYS_write);
    decoded.args.clear();
    show_payload(decoded, "a", true);
    EXPECT_THAT(decoded.args, ElementsAre());
}

} // namespace
} // namespace incident::capture
