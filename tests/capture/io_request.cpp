// Requests of io_uring, in the words of the call that does the same.
#include "capture/decode/io_request.h"
#include "render_fixture.h"

#include <gmock/gmock.h>
#include <linux/io_uring.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <fcntl.h>

namespace incident::capture {
namespace {

using test::Made;
using test::second;
using test::trigger_ns;
using testing::ElementsAre;
using testing::IsEmpty;

bpf::io_request request(unsigned operation) {
    bpf::io_request made{};
    made.t_ns = 5 * second;
    made.duration_ns = 1000;
    made.user_data = 0xfeed;
    made.fd = 7;
    made.address = 0x7f0000001000;
    made.offset = 4096;
    made.length = 512;
    made.op_flags = 0;
    made.submitter = 101;
    made.code = operation;
    return made;
}

DecodedCall decoded(const bpf::io_request &of) {
    return decode_request(of, nullptr);
}

TEST(IoRequest, IsShownAsTheCallThatDoesTheSame) {
    const DecodedCall read = decoded(request(IORING_OP_READ));
    EXPECT_EQ(read.name, "io_uring:read");
    EXPECT_THAT(read.args, ElementsAre("7", "0x7f0000001000", "512", "4096"));
    EXPECT_EQ(read.fd, 7);

    bpf::io_request opening = request(IORING_OP_OPENAT);
    opening.fd = AT_FDCWD;
    opening.op_flags = O_WRONLY | O_CREAT;
    opening.length = 0644;
    const std::string path = "/var/x";
    const DecodedCall open = decode_request(opening, &path);
    EXPECT_THAT(open.args, ElementsAre("AT_FDCWD", "\"/var/x\"", "O_WRONLY|O_CREAT", "0644"));
    EXPECT_TRUE(open.returns_fd);

    bpf::io_request accepting = request(IORING_OP_ACCEPT);
    accepting.op_flags = SOCK_CLOEXEC;
    EXPECT_THAT(decoded(accepting).args, ElementsAre("7", "0x7f0000001000", "0x1000", "SOCK_CLOEXEC"));
    EXPECT_THAT(decoded(request(IORING_OP_CLOSE)).args, ElementsAre("7"));
    EXPECT_THAT(decoded(request(IORING_OP_NOP)).args, IsEmpty());
}

// Their length has 64 bits in a field of its own, or 32 in the usual one.
TEST(IoRequest, OfAdviceHasTheLengthThatItIsAbout) {
    bpf::io_request advice = request(IORING_OP_FADVISE);
    EXPECT_EQ(request_as_call(advice)->args[2], 0x7f0000001000u);
    advice.address = 0;
    EXPECT_EQ(request_as_call(advice)->args[2], 512u);
    advice = request(IORING_OP_MADVISE);
    EXPECT_EQ(request_as_call(advice)->args[1], 4096u);
    advice.offset = 0;
    EXPECT_EQ(request_as_call(advice)->args[1], 512u);
}

TEST(IoRequest, OfDataAloneIsFdatasync) {
    bpf::io_request sync = request(IORING_OP_FSYNC);
    EXPECT_EQ(request_as_call(sync)->nr, SYS_fsync);
    sync.op_flags = IORING_FSYNC_DATASYNC;
    EXPECT_EQ(request_as_call(sync)->nr, SYS_fdatasync);
}

TEST(IoRequest, WithoutSuchACallHasWhatItsEntrySays) {
    EXPECT_THAT(decoded(request(IORING_OP_POLL_ADD)).args,
                ElementsAre("7", "0x7f0000001000", "0x200", "0x1000", "0x0"));
    const DecodedCall unknown = decoded(request(200));
    EXPECT_EQ(unknown.name, "io_uring:operation_200");
    EXPECT_FALSE(request_as_call(request(200)));
}

TEST(IoRequest, OfTheRingsOwnTableNamesNoDescriptorOfTheProcess) {
    bpf::io_request registered = request(IORING_OP_READ);
    registered.code |= IOSQE_FIXED_FILE << REQUEST_FLAGS_SHIFT;
    EXPECT_THAT(decoded(registered).args, ElementsAre("fixed 7", "0x7f0000001000", "512", "4096"));
    EXPECT_EQ(decoded(registered).fd, -1);
    bpf::io_request direct = request(IORING_OP_OPENAT);
    direct.code |= REQUEST_DIRECT;
    EXPECT_FALSE(decoded(direct).returns_fd);
    EXPECT_FALSE(names_descriptors(direct));
    EXPECT_TRUE(names_descriptors(request(IORING_OP_OPENAT)));
}

TEST(IoRequest, SaysWhatIsNotKnownOfIt) {
    bpf::io_request unseen = request(IORING_OP_READ);
    unseen.code |= REQUEST_UNSEEN;
    EXPECT_THAT(decoded(unseen).args, IsEmpty());
    EXPECT_FALSE(names_descriptors(unseen));
    EXPECT_EQ(request_note(unseen), "when it was submitted is not known");
    unseen.code |= REQUEST_NAMELESS;
    EXPECT_EQ(decoded(unseen).name, "io_uring");
    bpf::io_request unread = request(IORING_OP_READ);
    unread.code |= REQUEST_UNREAD;
    EXPECT_THAT(decoded(unread).args, IsEmpty());
    EXPECT_EQ(request_note(unread), "what it asked for is not known");
    EXPECT_EQ(request_note(request(IORING_OP_READ)), "");
}

TEST(IoRequest, WithAnyBitsIsShown) {
    for (unsigned code = 0; code < 256; ++code)
        for (const unsigned bits : {0u, ~0u << 8, REQUEST_UNSEEN, REQUEST_DIRECT, REQUEST_SILENT}) {
            bpf::io_request any = request(code | bits);
            any.fd = -1;
            any.result = -5000;
            EXPECT_FALSE(decoded(any).name.empty());
            (void)request_note(any);
        }
}

Request in_snapshot(const bpf::io_request &of, std::string path = {}) {
    return {of, std::move(path)};
}

TEST(IoRequest, StandsInTheTimelineAsItsSubmitters) {
    Made made;
    bpf::io_request opening = request(IORING_OP_OPENAT);
    opening.fd = AT_FDCWD;
    opening.result = 12;
    opening.submitter = 102; // completed by 101
    bpf::io_request reading = request(IORING_OP_READ);
    reading.t_ns = 6 * second;
    reading.fd = 12;
    reading.result = -EAGAIN;
    made.thread(0).rings->requests = {in_snapshot(opening, "/etc/x"), in_snapshot(reading)};
    bpf::io_request waiting = request(IORING_OP_ACCEPT);
    waiting.t_ns = 7 * second;
    waiting.duration_ns = IN_FLIGHT;
    made.input.process.requests = {in_snapshot(waiting)};
    made.input.process.entry = bpf::process_entry{};

    const auto lines = made.timeline();
    ASSERT_EQ(lines.size(), 4u);
    EXPECT_EQ(lines[0]["kind"], "request");
    EXPECT_EQ(lines[0]["tid"], 102);
    EXPECT_EQ(lines[0]["completed_by"], 101);
    EXPECT_EQ(lines[0]["fd"], 12);
    EXPECT_EQ(lines[0]["path"], "/etc/x");
    EXPECT_EQ(lines[0]["user_data"], "0xfeed");
    EXPECT_EQ(lines[1]["error"], "EAGAIN");
    EXPECT_EQ(lines[1]["fd_path"], "/etc/x");
    EXPECT_EQ(lines[1]["fd_path_from"], "open");
    EXPECT_FALSE(lines[1].contains("completed_by"));
    EXPECT_EQ(lines[2]["in_flight"], true);
    EXPECT_TRUE(lines[2]["ret"].is_null());

    bpf::process_entry entry{};
    entry.requests_doubtful = 1;
    made.input.process.entry = entry;
    EXPECT_EQ(made.timeline()[2]["in_flight"], false) << "it may have ended";
    EXPECT_EQ(made.timeline()[2]["note"], "it may have ended: not every end is told");
}

TEST(IoRequest, OfThoseInFlightAtTheTriggerEachThreadHasItsOwn) {
    Made made;
    bpf::io_request before = request(IORING_OP_READ), after = before, over = before, mine = before;
    before.duration_ns = trigger_ns; // completed later: the process has ended, and the kernel took it back
    after.t_ns = trigger_ns + 1;
    after.duration_ns = IN_FLIGHT;
    mine.t_ns = 6 * second;
    mine.duration_ns = IN_FLIGHT;
    made.thread(0).rings->requests = {in_snapshot(before), in_snapshot(over)};
    made.input.process.requests = {in_snapshot(mine), in_snapshot(after)};
    made.input.process.entry = bpf::process_entry{};
    const auto threads = made.threads();
    EXPECT_EQ(threads[0]["requests_in_flight"]["count"], 2);
    EXPECT_EQ(threads[0]["requests_in_flight"]["oldest"][0]["elapsed_ns"], 5 * second);
    EXPECT_EQ(threads[0]["requests_in_flight"]["oldest"][1]["elapsed_ns"], 4 * second);
}

} // namespace
} // namespace incident::capture
