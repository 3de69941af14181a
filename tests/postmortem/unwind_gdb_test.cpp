// Stacks unwound from what a bundle holds, against gdb's backtrace of the core of the same crash.
#include "postmortem/unwind/analyse.h"
#include "unwind_lab.h"
#include "unwind_victims.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace incident::postmortem::test {
namespace {

AnalyseOptions quick_analysis() {
    AnalyseOptions options;
    options.install_hints = false;
    return options;
}

Analysis expect_same(const Crash &crash, const std::string &what, AnalyseOptions options = quick_analysis()) {
    const auto files = open_module_files(crash.image);
    const Analysis analysis = analyse(crash.image, files, options);
    EXPECT_THAT(analysis.notes, testing::IsEmpty()) << what;
    std::size_t frames = 0, same = 0;
    for (const GdbThread &gdb : crash.threads) {
        const auto ours = std::ranges::find(analysis.threads, gdb.tid, &ThreadStack::tid);
        if (ours == analysis.threads.end()) {
            ADD_FAILURE() << what << ": no thread " << gdb.tid;
            continue;
        }
        const Agreement agreement = compare(*ours, gdb);
        frames += agreement.frames;
        same += agreement.same;
        EXPECT_TRUE(agreement.differences.empty()) << what << ", thread " << gdb.tid << ":\n" << agreement.differences;
        EXPECT_FALSE(ours->truncated) << what << ": " << ours->reason;
    }
    fmt::print("{}: {} of {} frames as gdb's ({})\n", what, same, frames,
               analysis.threads.empty() ? "" : analysis.threads[0].reason);
    return analysis;
}

struct Build {
    const Victim *victim;
    const char *flags;
};

std::vector<Build> builds() {
    std::vector<Build> all;
    for (const Victim &victim : victims) {
        for (const char *flags :
             {"-g -O0", "-g -O2", "-g -O3", "-O2", "-O0 -fno-omit-frame-pointer", "-g -O2 -fno-omit-frame-pointer"})
            all.push_back({&victim, flags});
        if (victim.linked_variously)
            for (const char *flags :
                 {"-g -O2 -no-pie", "-g -O2 -static", "-g -O2 -static-pie", "-g -O2 -gdwarf-4",
                  "-g -O0 -fno-asynchronous-unwind-tables", "-g -O2 -flto", "-g -Os -gz", "-g -O2 -gsplit-dwarf"})
                all.push_back({&victim, flags});
    }
    return all;
}

class AsGdb : public testing::TestWithParam<Build> {};

TEST_P(AsGdb, FrameByFrame) {
    const auto &[victim, flags] = GetParam();
    UnwindLab lab;
    CrashOptions options;
    options.gdb_before = {victim->gdb_before, fmt::format("set $whole_stack = {}", int{victim->two_stacks})};
    expect_same(lab.crash(lab.compile(victim->name, victim->source, flags), options),
                fmt::format("{} {}", victim->name, flags));
}

// 32-bit programs, where this kernel executes them.
std::vector<Build> builds32() {
    std::vector<Build> all;
    for (const Victim &victim : victims) {
        if (std::string_view(victim.source).contains("__restore_rt"))
            continue; // its own trampoline is x86-64's
        for (const char *flags : {"-m32 -g -O2", "-m32 -O2", "-m32 -O0 -fno-omit-frame-pointer"})
            all.push_back({&victim, flags});
        if (victim.linked_variously)
            for (const char *flags : {"-m32 -g -O2 -static", "-m32 -g -O0 -fno-asynchronous-unwind-tables"})
                all.push_back({&victim, flags});
    }
    return all;
}

class AsGdb32 : public AsGdb {};

TEST_P(AsGdb32, FrameByFrame) {
    const auto &[victim, flags] = GetParam();
    UnwindLab lab;
    const auto program = lab.compile(victim->name, victim->source, flags);
    lab.compile("runs", "int main(void) { return 0; }", "-m32");
    if (lab.shell("./runs") != 0)
        GTEST_SKIP() << "this kernel executes no i386 programs";
    CrashOptions options;
    options.gdb_before = {victim->gdb_before, fmt::format("set $whole_stack = {}", int{victim->two_stacks})};
    expect_same(lab.crash(program, options), fmt::format("{} {}", victim->name, flags));
}

std::string name_of_build(const testing::TestParamInfo<Build> &build) {
    std::string name = fmt::format("{}{}", build.param.victim->name, build.param.flags);
    for (char &c : name)
        c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    return name;
}

INSTANTIATE_TEST_SUITE_P(Unwind, AsGdb32, testing::ValuesIn(builds32()), name_of_build);
INSTANTIATE_TEST_SUITE_P(Unwind, AsGdb, testing::ValuesIn(builds()), name_of_build);

// Debian's own programs, which have neither frame pointers nor symbols of their own.
TEST(UnwindDebian, Python) {
    UnwindLab lab;
    CrashOptions options;
    options.arguments = {
        "-c",
        "import ctypes\ndef f(n):\n  return f(n-1) if n else sorted([1,2], key=lambda x: ctypes.string_at(0))\nf(5)"};
    expect_same(lab.crash("/usr/bin/python3.11", options), "python3");
}

TEST(UnwindDebian, Perl) {
    UnwindLab lab;
    CrashOptions options;
    options.arguments = {
        "-e", "sub f { my $n = shift; $n ? f($n - 1) : unpack(\"p\", pack(\"Q\", 16)) } my @x = sort { f(5) } (2, 1);"};
    expect_same(lab.crash("/usr/bin/perl", options), "perl");
}

TEST(UnwindDebian, Redis) {
    if (!std::filesystem::exists("/usr/bin/redis-server"))
        GTEST_SKIP() << "redis-server is not installed";
    UnwindLab lab;
    CrashOptions options;
    options.gdb_before = {"set breakpoint pending on", "break epoll_wait", "ignore 1 5"};
    options.arguments = {"--port", "0", "--unixsocket", (lab.dir() / "socket").string(),
                         "--save", "",  "--dir",        lab.dir().string()};
    expect_same(lab.crash("/usr/bin/redis-server", options), "redis-server");
}

TEST(UnwindDebian, Postgres) {
    const std::filesystem::path bin = "/usr/lib/postgresql/15/bin";
    if (!std::filesystem::exists(bin / "postgres"))
        GTEST_SKIP() << "PostgreSQL is not installed";
    UnwindLab lab;
    const std::string data = (lab.dir() / "data").string(),
                      as = "setpriv --reuid=postgres --regid=postgres --clear-groups ";
    ASSERT_EQ(lab.shell("mkdir data && chown postgres: data && " + as + (bin / "initdb").string() +
                        " -N -D data > initdb.log 2>&1"),
              0);
    ASSERT_EQ(lab.shell("echo 'create table t as select generate_series(1, 1000) n; select count(*) from t a join t b "
                        "on a.n < b.n;' > sql"),
              0);
    CrashOptions options;
    options.input = (lab.dir() / "sql").string();
    options.through = "/usr/bin/setpriv";
    options.through_arguments = {"--reuid=postgres", "--regid=postgres", "--clear-groups"};
    options.gdb_before = {"set breakpoint pending on", "break tuplestore_puttupleslot"};
    options.arguments = {"--single", "-D", data, "postgres"};
    expect_same(lab.crash(bin / "postgres", options), "postgres");
}

} // namespace
} // namespace incident::postmortem::test
