// The events that wait in memory: whose turn it is, what keeps its order, and what gives way.
#include "daemon/record/event_queue.h"

#include <gmock/gmock.h>

#include <cstring>
#include <map>
#include <optional>

namespace incident::daemon {
namespace {

constexpr std::size_t roomy_queue = 1 << 20;

std::optional<std::uint32_t> nobody_says(std::uint32_t) {
    return std::nullopt;
}

template <typename T> std::vector<std::uint8_t> bytes_of_event(T event, std::size_t more = 0) {
    std::vector<std::uint8_t> bytes(sizeof(event) + more);
    std::memcpy(bytes.data(), &event, sizeof(event));
    return bytes;
}

std::vector<std::uint8_t> queued_trigger(std::uint32_t tgid, std::uint32_t uid, std::uint16_t dumped = 0) {
    bpf::syscall_trigger event{};
    event.t.h.kind = bpf::EVENT_TRIGGER;
    event.t.h.tgid = tgid;
    event.t.key.uid = uid;
    event.t.dumped = dumped;
    return bytes_of_event(event);
}

std::vector<std::uint8_t> queued_death(std::uint32_t tgid, std::uint32_t uid) {
    bpf::death_event event{};
    event.h.kind = bpf::EVENT_DEATH;
    event.h.tgid = tgid;
    event.uid = uid;
    return bytes_of_event(event);
}

std::vector<std::uint8_t> queued_header(std::uint32_t kind, std::uint32_t tgid, std::size_t more = 0) {
    bpf::event_header event{};
    event.kind = kind;
    event.tgid = tgid;
    return bytes_of_event(event, more);
}

// "KIND of TGID" of the next.
std::pair<std::uint32_t, std::uint32_t> taken(EventQueue &queue) {
    const auto bytes = queue.pop();
    bpf::event_header header{};
    if (bytes)
        std::memcpy(&header, bytes->data(), sizeof(header));
    return {header.kind, header.tgid};
}

using KindAndProcess = std::pair<std::uint32_t, std::uint32_t>;

TEST(EventQueue, AFloodOfOneUserKeepsNobodyElseWaiting) {
    EventQueue queue(roomy_queue, nobody_says);
    for (int i = 0; i < 1000; ++i)
        queue.push(queued_trigger(10, 1000));
    queue.push(queued_death(20, 0));
    queue.push(queued_header(bpf::EVENT_THREAD, 20));
    queue.push(queued_header(bpf::EVENT_GONE, 20));
    std::map<KindAndProcess, int> at;
    for (int i = 0; i < 7; ++i)
        at.emplace(taken(queue), i);
    EXPECT_EQ(at.at(KindAndProcess(bpf::EVENT_DEATH, 20)), 1);
    EXPECT_EQ(at.at(KindAndProcess(bpf::EVENT_THREAD, 20)), 3) << "it is the user's whose process it is";
    EXPECT_EQ(at.at(KindAndProcess(bpf::EVENT_GONE, 20)), 5);
}

TEST(EventQueue, TheEventsOfAProcessStayInOrderWhoeverItIs) {
    EventQueue queue(roomy_queue, nobody_says);
    for (int i = 0; i < 10; ++i)
        queue.push(queued_trigger(11, 1000));
    queue.push(queued_trigger(10, 1000));
    queue.push(queued_death(10, 0)); // it has become root's
    queue.push(queued_header(bpf::EVENT_GONE, 10));
    std::vector<std::uint32_t> kinds;
    while (!queue.empty())
        if (const auto [kind, tgid] = taken(queue); tgid == 10)
            kinds.push_back(kind);
    EXPECT_THAT(kinds, testing::ElementsAre(bpf::EVENT_TRIGGER, bpf::EVENT_DEATH, bpf::EVENT_GONE));
}

TEST(EventQueue, WhoIsKnownIsKnownForTheNextEvent) {
    EventQueue queue(roomy_queue, nobody_says);
    queue.push(queued_death(10, 1000));
    EXPECT_EQ(taken(queue), KindAndProcess(bpf::EVENT_DEATH, 10));
    for (int i = 0; i < 5; ++i)
        queue.push(queued_header(bpf::EVENT_THREAD, 10));
    queue.push(queued_death(20, 0));
    taken(queue);
    EXPECT_EQ(taken(queue), KindAndProcess(bpf::EVENT_DEATH, 20)) << "the threads are user 1000's";
}

TEST(EventQueue, WhoIsNotSaidIsAskedForOnce) {
    std::vector<std::uint32_t> asked;
    EventQueue queue(roomy_queue, [&](std::uint32_t tgid) {
        asked.push_back(tgid);
        return std::optional<std::uint32_t>(1000);
    });
    for (int i = 0; i < 100; ++i)
        queue.push(queued_header(bpf::EVENT_LATENCY, 10));
    queue.push(queued_death(20, 0));
    taken(queue);
    EXPECT_EQ(taken(queue), KindAndProcess(bpf::EVENT_DEATH, 20));
    EXPECT_THAT(asked, testing::ElementsAre(10));
}

TEST(EventQueue, TheUserWithMostGivesWay) {
    EventQueue queue(100 * queued_trigger(1, 1).size(), nobody_says);
    for (int i = 0; i < 5; ++i)
        queue.push(queued_trigger(20, 0));
    for (int i = 0; i < 1000; ++i)
        queue.push(queued_trigger(10, 1000));
    queue.push(queued_trigger(21, 33));
    EXPECT_FALSE(queue.full());
    EXPECT_GT(queue.dropped(), 900u);
    std::map<std::uint32_t, int> of_process;
    while (!queue.empty())
        ++of_process[taken(queue).second];
    EXPECT_EQ(of_process[20], 5);
    EXPECT_EQ(of_process[21], 1);
    EXPECT_LT(of_process[10], 100);
    EXPECT_EQ(queue.bytes(), 0u);
}

TEST(EventQueue, NoDeathAndNoSignalThatWasSentIsDropped) {
    EventQueue queue(10'000, nobody_says);
    for (std::uint32_t i = 0; i < 100; ++i) {
        queue.push(queued_death(100 + i, 1000));
        queue.push(queued_header(bpf::EVENT_THREAD, 100 + i, 5000));
        queue.push(queued_trigger(100 + i, 1000, 6));
        queue.push(queued_header(bpf::EVENT_GONE, 100 + i));
    }
    EXPECT_TRUE(queue.full()) << "the rest waits in the ring buffer";
    std::map<std::uint32_t, int> of_kinds;
    while (!queue.empty())
        ++of_kinds[taken(queue).first];
    EXPECT_EQ(of_kinds[bpf::EVENT_DEATH], 100);
    EXPECT_EQ(of_kinds[bpf::EVENT_TRIGGER], 100);
    EXPECT_EQ(of_kinds[bpf::EVENT_GONE], 100);
    EXPECT_LT(of_kinds[bpf::EVENT_THREAD], 10);
    EXPECT_EQ(of_kinds[bpf::EVENT_THREAD] + queue.dropped(), 100u);
}

TEST(EventQueue, WhatIsTooShortIsHandedOn) {
    EventQueue queue(roomy_queue, nobody_says);
    for (const std::size_t size : {0u, 3u, 16u, 50u, 140u}) {
        auto bytes = queued_trigger(10, 1000);
        bytes.resize(size);
        queue.push(bytes);
    }
    int all = 0;
    while (queue.pop())
        ++all;
    EXPECT_EQ(all, 5);
}

} // namespace
} // namespace incident::daemon
