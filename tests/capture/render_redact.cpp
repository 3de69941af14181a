#include "render_fixture.h"

#include "capture/render/render_redact.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace incident::capture {
namespace {

using test::call;
using test::Made;
using test::second;

TEST(RenderRedact, Texts) {
    const Redactor redactor({"secret[0-9]+", "/home/[^/]+"});
    EXPECT_EQ(redactor.text("/srv/secret12/x"), "/srv/[redacted]/x");
    EXPECT_EQ(redactor.text("/home/alice/secret1"), "[redacted]/[redacted]");
    EXPECT_EQ(redactor.text("nothing"), "nothing");
    EXPECT_FALSE(Redactor({}).active());
}

TEST(RenderRedact, ArgumentsAloneAndTogether) {
    const Redactor redactor({"--password \\S+", "^TOKEN=.*$"});
    EXPECT_EQ(redactor.separated(std::string("app\0--password\0hunter2\0-v\0", 26)),
              std::string("app\0[redacted]\0-v\0", 18));
    EXPECT_EQ(redactor.separated(std::string("A=1\0TOKEN=abc\0B=2", 17)), std::string("A=1\0[redacted]\0B=2", 18));
}

TEST(RenderRedact, CollectedFilesKeepTheirForm) {
    const Redactor redactor({"alice.*"});
    EXPECT_EQ(redactor.file("process/fds", "{\"fd\":3,\"target\":\"/home/alice/x\"}\n"),
              "{\"fd\":3,\"target\":\"/home/[redacted]\"}\n");
    EXPECT_EQ(redactor.file("process/maps", "1000-2000 r-xp 0 08:01 7  /home/alice/lib.so\n1-2 r--p 0 0:0 0\n"),
              "1000-2000 r-xp 0 08:01 7  /home/[redacted]\n1-2 r--p 0 0:0 0\n");
    EXPECT_EQ(redactor.file("process/mountinfo", "36 35 98:0 /alice /mnt rw - ext3 x\n"),
              "36 35 98:0 /[redacted] /mnt rw - ext3 x\n");
    EXPECT_EQ(redactor.file("host/meminfo", "alice"), "alice");
}

TEST(RenderRedact, MemoryKeepsItsLength) {
    const Redactor redactor({"hunter2"});
    std::string bytes("\x01\x02pass=hunter2\0\xffok", 18);
    redactor.memory(bytes);
    EXPECT_EQ(bytes, std::string("\x01\x02pass=XXXXXXX\0\xffok", 18));
}

TEST(RenderRedact, APatternThatDoesNotCompileLeavesNothingIn) {
    const Redactor redactor({"ok", "("});
    EXPECT_FALSE(redactor.problem().empty());
    EXPECT_EQ(redactor.text("/any"), "[redacted]");
    Made made;
    made.redact = {"("};
    EXPECT_EQ(made.incident()["quality"]["complete"], false);
}

TEST(RenderRedact, HostileTextNeitherHangsNorOverflows) {
    const Redactor redactor({"(a+)+b", "(x|y)*z", "(q|q?)+r{50}"});
    EXPECT_EQ(redactor.text(std::string(4000, 'a')), std::string(4000, 'a')); // exponential when tried one by one
    EXPECT_EQ(redactor.text(std::string(4000, 'a') + "b/"), "[redacted]/");
    EXPECT_EQ(redactor.given_up(), 0u);
    const std::string much = redactor.text(std::string(200'000, 'q'));
    EXPECT_EQ(much.size(), Redactor::examined_max + Redactor::mark.size());
    EXPECT_TRUE(much.ends_with(Redactor::mark)) << "what lies beyond is left out";
}

// Each match of one byte is known to be one at the end of the text only.
TEST(RenderRedact, ATextWhoseMatchesTakeTooLongIsLeftOut) {
    const Redactor redactor({"a.*b|a"});
    EXPECT_EQ(redactor.text(std::string(60'000, 'a')), "[redacted]");
    EXPECT_EQ(redactor.given_up(), 1u);
    EXPECT_EQ(redactor.text("/a/c"), "/[redacted]/c") << "the next text is looked at again";
    EXPECT_EQ(redactor.given_up(), 1u);
}

TEST(RenderRedact, ALongTextWithManyMatchesIsNotLeftOut) {
    const Redactor redactor({"token=[a-z]+"});
    std::string text, expected;
    for (int i = 0; i < 1000; ++i) {
        text += "token=secret of " + std::to_string(i) + ", ";
        expected += "[redacted] of " + std::to_string(i) + ", ";
    }
    EXPECT_EQ(redactor.text(text), expected);
    EXPECT_EQ(redactor.given_up(), 0u);
}

TEST(RenderRedact, ABundleThatNeedsTooMuchLosesTheRest) {
    const Redactor redactor({"a.*b|a"}, 500'000);
    for (int i = 0; i < 20; ++i)
        (void)redactor.text(std::string(3000, 'a') + std::to_string(i));
    EXPECT_EQ(redactor.text("/harmless"), "[redacted]");
    EXPECT_EQ(redactor.given_up(), 21u);
}

TEST(RenderRedact, TextsAreBytes) {
    const Redactor redactor({"secret=\\S+", "k\xc3\xb6nig", "x.y"});
    EXPECT_EQ(redactor.text("a\xff\xfe secret=\xff\xc3\xfe b\xe9"), "a\xff\xfe [redacted] b\xe9");
    EXPECT_EQ(redactor.text("/k\xc3\xb6nig/\xc3"), "/[redacted]/\xc3");
    EXPECT_EQ(redactor.text(std::string("a\0x\0y secret=a\0b c", 18)), std::string("a\0[redacted] [redacted] c", 25));
    EXPECT_EQ(redactor.text("x\xffy"), "[redacted]");
}

TEST(RenderRedact, AnchorsAndClassesSeeOneLine) {
    const Redactor redactor({"^pin .*$", "key=[^;]*", "\\bcat\\b"});
    EXPECT_EQ(redactor.text("pin 1\nno pin 2\npin 3"), "[redacted]\nno pin 2\n[redacted]");
    EXPECT_EQ(redactor.text("key=a\nb;"), "[redacted]\nb;");
    EXPECT_EQ(redactor.text("cat concat catcat cat"), "[redacted] concat catcat [redacted]");
}

TEST(RenderRedact, NothingOfItReachesTheBundle) {
    Made made;
    made.redact = {"hunter[0-9]"};
    const std::string secret = "hunter2";
    made.open_file(second, "/srv/" + secret + "/a", 3);
    made.add_call(call(SYS_read, 2 * second, 1, {3}));
    made.add_call(call(SYS_read, 3 * second, 1, {4}));
    bpf::process_entry &entry = *made.input.process.entry;
    test::set_text(entry.exec_name, "/opt/" + secret);
    entry.exec_ns = second;
    test::set_exe(made.input.process.event, {secret, "bin", "usr"});
    std::memcpy(made.input.process.event.args, "app\0hunter2\0-v\0", 14);
    made.thread(1).event->kernel_frames = 1;
    made.thread(1).stack.front().bytes.assign(secret.begin(), secret.end());
    made.collected.files = {{"process/fds", "{\"fd\":4,\"target\":\"/" + secret + "\"}\n"},
                            {"process/maps", "400000-500000 r-xp 00001000 08:01 77 /opt/" + secret + "\n"},
                            {"process/environ", std::string("A=") + secret}};
    for (const auto &[path, bytes] : render_all(made.context()))
        EXPECT_EQ(bytes.find(secret), std::string::npos) << path << "\n" << bytes;
}

} // namespace
} // namespace incident::capture
