// Events as epoll_ctl(2) gives them and epoll_wait(2) returns them, as text.
#include "capture/decode/epoll_events.h"

#include <gmock/gmock.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#include <random>

namespace incident::capture {
namespace {

using testing::ElementsAre;

std::string bytes_of(std::initializer_list<epoll_event> events) {
    std::string bytes;
    for (const epoll_event &event : events)
        bytes.append(reinterpret_cast<const char *>(&event), sizeof(event));
    return bytes;
}

TEST(EpollEvents, AreNamed) {
    EXPECT_EQ(epoll_events_text(bytes_of({{EPOLLIN | EPOLLRDHUP | EPOLLET, {.u64 = 7}}})),
              "{events=EPOLLIN|EPOLLRDHUP|EPOLLET, data={u32=7, u64=7}}");
    EXPECT_EQ(
        epoll_events_text(bytes_of({{0, {.u64 = 0}}, {EPOLLOUT | 0x800, {.u64 = ~0ull}}})),
        "{events=0, data={u32=0, u64=0}}, {events=EPOLLOUT|0x800, data={u32=4294967295, u64=18446744073709551615}}");
}

TEST(EpollEvents, StandInPlaceOfThePointer) {
    const std::string one = bytes_of({{EPOLLIN, {.u64 = 5}}}), two = one + one;
    const std::uint64_t add[] = {4, EPOLL_CTL_ADD, 5, 0x7f00, 0, 0}, del[] = {4, EPOLL_CTL_DEL, 5, 0x7f00, 0, 0},
                        wait[] = {4, 0x7f00, 64, 1000, 0, 8};
    DecodedCall adds = decode_syscall(SYS_epoll_ctl, false, add, nullptr),
                removes = decode_syscall(SYS_epoll_ctl, false, del, nullptr);
    show_events(adds, one, 0);
    show_events(removes, one, 0);
    EXPECT_THAT(adds.args, ElementsAre("4", "EPOLL_CTL_ADD", "5", "{events=EPOLLIN, data={u32=5, u64=5}}"));
    EXPECT_THAT(removes.args, ElementsAre("4", "EPOLL_CTL_DEL", "5", "0x7f00"));
    DecodedCall whole = decode_syscall(SYS_epoll_wait, false, wait, nullptr), more = whole;
    show_events(whole, two, 2);
    show_events(more, two, 3);
    EXPECT_THAT(whole.args,
                ElementsAre("4", "[{events=EPOLLIN, data={u32=5, u64=5}}, {events=EPOLLIN, data={u32=5, u64=5}}]", "64",
                            "1000"));
    EXPECT_EQ(more.args[1], "[{events=EPOLLIN, data={u32=5, u64=5}}, {events=EPOLLIN, data={u32=5, u64=5}}, …]");
}

// A process may give any bytes.
TEST(EpollEvents, AnyBytesAreRead) {
    std::mt19937 random(3); // NOLINT(cert-msc32-c,cert-msc51-cpp): the same bytes each time
    for (int i = 0; i < 2'000; ++i) {
        std::string bytes(random() % 129, '\0');
        for (char &byte : bytes)
            byte = static_cast<char>(random());
        EXPECT_EQ(epoll_events_text(bytes).empty(), bytes.size() < sizeof(epoll_event));
    }
}

} // namespace
} // namespace incident::capture
