// A process of its own that does what it is asked: what it is given, what it gives, and how it ends.
#include "daemon/os/servant.h"

#include "daemon/os/rights.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

namespace incident::daemon {
namespace {

using testing::HasSubstr;

UniqueFd file_with(std::string_view text) {
    UniqueFd file(::memfd_create("test", MFD_CLOEXEC));
    EXPECT_EQ(::write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    return file;
}

std::string text_of(const UniqueFd &file) {
    char text[256] = {};
    const ssize_t got = ::pread(file.get(), text, sizeof(text), 0);
    return got > 0 ? std::string(text, static_cast<std::size_t>(got)) : "";
}

Servant::Answer one(UniqueFd file) {
    std::vector<UniqueFd> files;
    files.push_back(std::move(file));
    return files;
}

using Request = std::array<char, 8>;

std::unique_ptr<Servant> started(std::function<Servant::Answer(std::string_view, const UniqueFd &)> serve,
                                 std::chrono::milliseconds patience = std::chrono::seconds(60)) {
    auto servant = Servant::start(
        {.name = "servant",
         .capabilities = {},
         .needs = nullptr,
         .request_bytes = sizeof(Request),
         .patience = patience},
        [serve](std::span<const char> request, const UniqueFd &file, bool &) { return serve({request.data()}, file); });
    EXPECT_TRUE(servant) << servant.error().what;
    return std::move(*servant);
}

Servant::Answer ask(Servant &servant, std::string_view what = "", int file = -1) {
    Request request{};
    what.copy(request.data(), request.size() - 1);
    return servant.ask(request, file);
}

bool has_ended(const Servant &servant, int ms) {
    pollfd waits{servant.ended(), POLLIN, 0};
    return ::poll(&waits, 1, ms) == 1;
}

TEST(Servant, GivesAndTakesDescriptors) {
    const auto servant = started([](std::string_view request, const UniqueFd &file) {
        return one(file_with(std::string(request) + " " + text_of(file)));
    });
    const auto answer = ask(*servant, "heap", file_with("of it").get());
    ASSERT_TRUE(answer) << answer.error().what;
    ASSERT_EQ(answer->size(), 1u);
    EXPECT_EQ(text_of(answer->front()), "heap of it");
}

TEST(Servant, SaysWhyItDoesNot) {
    const auto servant = started([](std::string_view, const UniqueFd &) -> Servant::Answer {
        return fail(Error{std::string(9000, 'x') + "end", ENOENT});
    });
    const auto answer = ask(*servant);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, ENOENT);
    EXPECT_THAT(answer.error().what, HasSubstr(std::string(8000, 'x')));
    EXPECT_FALSE(servant->ask(std::string_view("short"))) << "a request of another size";
}

TEST(Servant, HasNoRightThatItsRoleDoesNotName) {
    const auto servant = started(
        [](std::string_view, const UniqueFd &) { return one(file_with(std::to_string(effective_capabilities()))); });
    const auto answer = ask(*servant);
    ASSERT_TRUE(answer);
    EXPECT_EQ(text_of(answer->front()), "0");
}

TEST(Servant, HoldsNothingOfItsMaker) {
    const auto path = std::filesystem::path(testing::TempDir()) / "incidentd-servant-lock";
    UniqueFd lock(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    ASSERT_EQ(::flock(lock.get(), LOCK_EX | LOCK_NB), 0);
    const auto servant = started([](std::string_view, const UniqueFd &) { return one(file_with("")); });
    ASSERT_TRUE(ask(*servant)) << "it has begun to serve";
    lock.reset();
    const UniqueFd again(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    EXPECT_EQ(::flock(again.get(), LOCK_EX | LOCK_NB), 0) << "else the next daemon would take this one for alive";
    std::filesystem::remove(path);
}

// What libbpf leaves open of a link would be all descriptors some day.
TEST(Servant, KeepsNoDescriptorOfARequest) {
    const auto servant = started([](std::string_view, const UniqueFd &) {
        (void)!::open("/dev/null", O_RDONLY);
        std::string open;
        for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd"))
            open += entry.path().filename().string() + " ";
        return one(file_with(open));
    });
    const auto first = ask(*servant);
    ASSERT_TRUE(first);
    for (int i = 0; i < 20; ++i)
        ASSERT_TRUE(ask(*servant, "", file_with("along").get()));
    const auto last = ask(*servant);
    ASSERT_TRUE(last);
    EXPECT_EQ(text_of(first->front()), text_of(last->front()));
}

TEST(Servant, ManyMayAskAtOnce) {
    const auto servant = started([](std::string_view request, const UniqueFd &) { return one(file_with(request)); });
    std::vector<std::jthread> threads;
    for (std::uint64_t i = 0; i < 4; ++i)
        threads.emplace_back([&servant, i] {
            for (std::uint64_t n = 0; n < 50; ++n) {
                const auto answer = ask(*servant, std::to_string(i * 1000 + n));
                ASSERT_TRUE(answer);
                EXPECT_EQ(text_of(answer->front()), std::to_string(i * 1000 + n));
            }
        });
}

TEST(Servant, WhenItHasEndedThatIsSaid) {
    const auto servant = started([](std::string_view, const UniqueFd &) -> Servant::Answer { ::_exit(3); });
    EXPECT_FALSE(has_ended(*servant, 0));
    const auto answer = ask(*servant);
    ASSERT_FALSE(answer);
    EXPECT_THAT(answer.error().what, HasSubstr("has ended"));
    EXPECT_TRUE(has_ended(*servant, 60'000));
    EXPECT_FALSE(ask(*servant));
}

TEST(Servant, WhoDoesNotAnswerIsGivenUp) {
    const auto servant = started(
        [](std::string_view, const UniqueFd &) -> Servant::Answer {
            ::pause();
            return {};
        },
        std::chrono::milliseconds(50));
    const auto answer = ask(*servant);
    ASSERT_FALSE(answer);
    EXPECT_THAT(answer.error().what, HasSubstr("did not answer"));
    EXPECT_TRUE(has_ended(*servant, 60'000));
    EXPECT_FALSE(ask(*servant));
}

TEST(Rights, WhatIsDroppedIsGoneForGood) {
    if (effective_capabilities() == 0)
        GTEST_SKIP() << "has no capabilities to drop";
    const pid_t child = ::fork();
    if (child == 0) {
        const auto before = effective_capabilities();
        const bool dropped = drop_capabilities(std::array{CAP_SYS_ADMIN}).has_value();
        const bool only = effective_capabilities() == (before & ~(1ull << CAP_SYS_ADMIN));
        const bool kept = keep_capabilities(std::array{CAP_KILL}).has_value();
        if (!dropped || !only || !kept || effective_capabilities() != (before & 1ull << CAP_KILL))
            ::_exit(1);
        ::execl("/bin/sh", "sh", "-c", "grep -q '^CapEff:.*0000000000000020$' /proc/self/status", nullptr);
        ::_exit(2);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "a program that it executes has no more";
}

TEST(Rights, WithoutConnectionsOnlyDatagramsAreLeft) {
    const pid_t child = ::fork();
    if (child == 0) {
        std::promise<void> go;
        int of_thread = 0;
        std::jthread earlier([&] {
            go.get_future().wait();
            of_thread = ::socket(AF_UNIX, SOCK_STREAM, 0) < 0 ? errno : 0;
        });
        if (!give_up_connections())
            ::_exit(1);
        go.set_value();
        earlier.join();
        const auto refused = [](int type) { return ::socket(AF_UNIX, type, 0) < 0 && errno == EPERM; };
        if (of_thread != EPERM || !refused(SOCK_STREAM | SOCK_CLOEXEC) || !refused(SOCK_SEQPACKET))
            ::_exit(2);
        if (::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) < 0)
            ::_exit(3);
        ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

} // namespace
} // namespace incident::daemon
