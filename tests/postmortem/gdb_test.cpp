// `incidentctl gdb` with the real gdb, on a core that gdb itself makes of a tiny program.
#include "state.h"

#include <cstdlib>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace incident::postmortem::test {

using testing::HasSubstr;
using testing::Not;

namespace {

int shell(const std::string &command) {
    return std::system(command.c_str());
}

const char *const program = R"(
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
volatile int tid;
void stop_here(void) {}
static void *worker(void *x) { tid = syscall(SYS_gettid); stop_here(); return x; }
int main(void) { pthread_t t; pthread_create(&t, 0, worker, 0); pthread_join(t, 0); return 0; }
)";

} // namespace

class Gdb : public testing::Test {
protected:
    void SetUp() override {
        if (shell("gdb --version >/dev/null 2>&1") != 0 || shell("cc --version >/dev/null 2>&1") != 0)
            GTEST_SKIP() << "gdb or cc is not installed";
        const std::string dir = state.dir().string();
        setenv("TMPDIR", dir.c_str(), 1);
        write_file(state.dir() / "victim.c", program);
        victim = dir + "/victim";
        ASSERT_EQ(shell("cc -g -pthread -Wl,--build-id=0xaabbcc -o " + victim + " " + victim + ".c"), 0);
        if (shell("cd " + dir +
                  " && gdb -q -batch -ex 'break stop_here' -ex run -ex 'generate-core-file core' "
                  "-ex 'print tid' -ex kill ./victim >gdb.log 2>&1") != 0 ||
            !std::filesystem::exists(state.dir() / "core"))
            GTEST_SKIP() << "gdb cannot run a program here: " << read_file(state.dir() / "gdb.log");
        const std::string log = read_file(state.dir() / "gdb.log");
        tid = std::atoi(log.c_str() + log.find("$1 = ") + 5);
        ASSERT_GT(tid, 0) << log;
        state.find_core = [this](const capture::DeathIdentity &) -> Result<capture::CoreLink> {
            return capture::CoreLink{.join = capture::Join::Exact, .file = (state.dir() / "core").string()};
        };
    }
    void TearDown() override { unsetenv("TMPDIR"); }

    // The sample, as if this program had died in its second thread.
    std::string add(const std::string &sample, const std::string &exe, const std::string &build_id) {
        Json incident = sample_incident(sample);
        incident["process"]["exe"] = exe;
        incident["process"]["build_id"] = build_id;
        incident["thread"]["tid"] = tid;
        return state.add_sample(sample, {{"incident.json", incident.dump()}});
    }

    // gdb writes to the real standard output.
    std::string gdb(std::vector<std::string> arguments, const std::vector<std::string> &options = {}) {
        const std::string out = (state.dir() / "out").string();
        std::fflush(nullptr);
        const int saved_out = dup(STDOUT_FILENO), saved_err = dup(STDERR_FILENO);
        const int file = open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        dup2(file, STDOUT_FILENO), dup2(file, STDERR_FILENO);
        arguments.insert(arguments.begin(), {"latest", "--", "-nx", "-batch", "-iex", "set debuginfod enabled off"});
        arguments.insert(arguments.begin(), options.begin(), options.end());
        arguments.insert(arguments.begin(), "gdb");
        ran = state.run(std::move(arguments));
        dup2(saved_out, STDOUT_FILENO), dup2(saved_err, STDERR_FILENO);
        close(saved_out), close(saved_err), close(file);
        return read_file(out);
    }

    State state;
    Ran ran;
    std::string victim;
    int tid = 0;
};

TEST_F(Gdb, OpensTheCoreAtTheThreadThatDied) {
    const std::string name = add("crash", victim, "aabbcc");
    const std::string text = gdb({"-ex", "bt", "-ex", "thread"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(ran.err, "");
    for (const std::string &expected :
         {"Incident  " + name, std::string("  what    victim[4242] was killed by SIGSEGV (SEGV_MAPERR) at 0x10"),
          "  core    " + (state.dir() / "core").string() + " (exact join)", "tid " + std::to_string(tid) + ", selected",
          std::string("  see     incident summary | timeline"), std::string("stop_here ()"),
          std::string("in worker (")})
        EXPECT_THAT(text, HasSubstr(expected));
    for (const auto &entry : std::filesystem::directory_iterator(state.dir()))
        EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("incidentctl-"))) << "left behind";
}

TEST_F(Gdb, IncidentCommands) {
    add("crash", victim, "aabbcc");
    const std::string text = gdb({"-ex", "incident summary",
                                  "-ex", "incident timeline -n 2 -kind syscall",
                                  "-ex", "incident timeline 4242",
                                  "-ex", "incident files",
                                  "-ex", "incident fds",
                                  "-ex", "incident signals",
                                  "-ex", "incident threads",
                                  "-ex", "incident quality",
                                  "-ex", "help incident timeline",
                                  "-ex", "complete incident t",
                                  "-ex", "complete incident timeline -kind s"});
    EXPECT_EQ(ran.code, 0) << text;
    for (const auto *expected :
         {"      unit  shop.service", "futex(0x7f0000000000, FUTEX_WAIT) = ? <in flight>", "close(5) = 0 <900 ns>",
          "*** fork born (victim) ***", "     5  /var/lib/shop/data  at 17  read\n", "= -1 ENOENT <12.0 µs>",
          "--- SIGSEGV delivered {SEGV_MAPERR, address 0x10, fatal} ---", "* not in core  worker[4243]  after close(5)",
          "incomplete\n", "  lost 1: ring buffer: thread event (no room)", "collector smaps_rollup: deadline passed",
          "Usage: incident timeline [THREAD|all] [-n N] [-kind KIND]", "incident threads\nincident timeline\n",
          "incident timeline -kind signal\nincident timeline -kind syscall\n"})
        EXPECT_THAT(text, HasSubstr(expected));
    EXPECT_THAT(text, Not(HasSubstr("Traceback")));
}

TEST_F(Gdb, WrongArgumentsAreExplained) {
    add("crash", victim, "aabbcc");
    const std::string text = gdb({"-ex", "incident timeline x"});
    EXPECT_THAT(text, HasSubstr("'x' is not a number"));
    EXPECT_THAT(gdb({"-ex", "incident timeline -n"}), HasSubstr("-n needs a value"));
}

TEST_F(Gdb, HostileTextIsEscapedThereToo) {
    for (const auto *sample : {"hostile", "wrong-types"}) {
        if (std::string(sample) == "hostile")
            add(sample, victim, "aabbcc");
        else
            state.add_sample(sample);
        const std::string text = gdb({"-ex", "incident summary", "-ex", "incident timeline", "-ex", "incident files",
                                      "-ex", "incident signals", "-ex", "incident threads", "-ex", "incident quality",
                                      "-ex", "incident timeline 1"});
        EXPECT_THAT(text, Not(HasSubstr("Traceback"))) << text;
        EXPECT_THAT(text, Not(HasSubstr("Python Exception"))) << text;
        for (const auto *bad : {"\x1b]0", "\x1b[2J", "\x9b", "\u202e", "\x7f", "\r"})
            EXPECT_THAT(text, Not(HasSubstr(bad))) << sample;
    }
}

TEST_F(Gdb, SaysWhenTheProgramIsNotTheSame) {
    add("crash", victim, "112233");
    gdb({"-ex", "bt"});
    EXPECT_EQ(ran.err, "incidentctl: " + victim +
                           " has changed since (build-id aabbcc, it was 112233): names and lines may be wrong\n");
}

TEST_F(Gdb, DeletedProgramThatIsBackUnderItsName) {
    add("crash", victim + " (deleted)", "aabbcc");
    EXPECT_THAT(gdb({"-ex", "bt"}), HasSubstr("in worker ("));
    EXPECT_EQ(ran.err, "");
}

// The core's file as the journal names it, and that gdb made as the bundle's own.
TEST_F(Gdb, MiniCoreWhereThereIsNoOther) {
    const std::string name = add("crash", victim, "aabbcc"), mini = (state.bundle(name) / "mini.core").string();
    const std::string core = (state.dir() / "core").string();
    std::filesystem::copy_file(core, mini);
    const auto opens = [&](std::vector<std::string> arguments, const std::string &expected) {
        const std::string text = gdb(std::move(arguments));
        EXPECT_THAT(text, HasSubstr("in worker (")) << ran.err;
        EXPECT_THAT(text, HasSubstr(expected));
        return ran.err;
    };
    const std::string of_mini = "  core    " + mini + " (mini core)\n";
    const std::string using_mini = "; using the bundle's mini.core: registers, stacks, what registers point at\n";
    EXPECT_EQ(opens({"-ex", "bt"}, core + " (exact join)"), "");

    const auto link = [this](capture::CoreLink found) {
        state.find_core = [found](const capture::DeathIdentity &) -> Result<capture::CoreLink> { return found; };
    };
    link({.join = capture::Join::Exact, .file = core, .truncated = true});
    EXPECT_EQ(opens({"-ex", "bt"}, core + " (exact join)"),
              "incidentctl: the core is truncated: it was cut when it was written, some memory is missing\n"
              "incidentctl: --mini opens the bundle's mini.core instead: registers and stacks as captured\n");
    link({.reason = "RLIMIT_CORE was 0"});
    EXPECT_EQ(opens({"-ex", "bt"}, of_mini), "incidentctl: no core to open: RLIMIT_CORE was 0" + using_mini);
    const std::string gone = (state.dir() / "core.zst").string();
    link({.join = capture::Join::Exact, .file = gone});
    EXPECT_EQ(opens({"-ex", "bt"}, of_mini),
              "incidentctl: no core to open: " + gone + " is no longer there" + using_mini);
    write_file(state.dir() / "damaged", "neither ELF nor compressed");
    link({.join = capture::Join::Exact, .file = (state.dir() / "damaged").string()});
    EXPECT_THAT(opens({"-ex", "bt"}, of_mini), HasSubstr("damaged: ")) << "and why";
    EXPECT_THAT(ran.err, HasSubstr(using_mini));
    for (const auto &entry : std::filesystem::directory_iterator(state.dir()))
        EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("incidentctl-"))) << "left behind";
}

// The analysis puts another directory under the bundle's name while the core is looked for.
TEST_F(Gdb, MiniCoreThatCameMeanwhile) {
    const std::string name = add("crash", victim, "aabbcc"), bundle = state.bundle(name).string();
    state.find_core = [&](const capture::DeathIdentity &) -> Result<capture::CoreLink> {
        if (!std::filesystem::exists(bundle + "/mini.core")) {
            std::filesystem::copy(bundle, bundle + ".new", std::filesystem::copy_options::recursive);
            std::filesystem::copy_file(state.dir() / "core", bundle + ".new/mini.core");
            std::filesystem::remove_all(bundle);
            std::filesystem::rename(bundle + ".new", bundle);
        }
        return capture::CoreLink{.reason = "RLIMIT_CORE was 0"};
    };
    const std::string text = gdb({"-ex", "bt"});
    EXPECT_THAT(text, HasSubstr("in worker (")) << ran.err;
    EXPECT_THAT(text, HasSubstr("  core    " + bundle + "/mini.core (mini core)\n"));
}

TEST_F(Gdb, MiniCoreIfItIsAskedFor) {
    const std::string name = add("crash", victim, "aabbcc"), mini = (state.bundle(name) / "mini.core").string();
    state.find_core = [](const capture::DeathIdentity &) -> Result<capture::CoreLink> {
        ADD_FAILURE() << "nothing was to be looked for";
        return fail("asked");
    };
    const Ran refused = state.run({"gdb", "--mini"});
    EXPECT_EQ(refused.code, 1);
    EXPECT_EQ(refused.err, "incidentctl: the bundle has no mini.core\n");
    // One that is no file of the bundle is none.
    std::filesystem::create_symlink(state.dir() / "core", mini);
    EXPECT_EQ(state.run({"gdb", "--mini"}).err, "incidentctl: the bundle has no mini.core\n");
    std::filesystem::remove(mini);
    write_file(mini, ""); // nor is an empty one
    EXPECT_EQ(state.run({"gdb", "--mini"}).err, "incidentctl: the bundle has no mini.core\n");
    std::filesystem::remove(mini);
    std::filesystem::copy_file(state.dir() / "core", mini);
    const std::string text = gdb({"-ex", "bt"}, {"--mini"});
    EXPECT_THAT(text, HasSubstr("in worker (")) << ran.err;
    EXPECT_THAT(text, HasSubstr("  core    " + mini + " (mini core)\n"));
    EXPECT_EQ(ran.err, "");
}

// The bundle's own scripts may be anybody's: it is not they that run.
TEST_F(Gdb, ScriptsOfABundleAreNotRun) {
    const std::string name = add("crash", victim, "aabbcc");
    std::filesystem::create_directory(state.bundle(name) / "gdb");
    for (const char *script : {"incident.py", "start.py", "text.py", "json.py"})
        write_file(state.bundle(name) / "gdb" / script, "print('this ran')\n");
    const std::string text = gdb({"-ex", "incident summary"});
    EXPECT_THAT(text, HasSubstr("was killed by SIGSEGV"));
    EXPECT_THAT(text, Not(HasSubstr("this ran")));
}

TEST_F(Gdb, GdbsFailureIsOurs) {
    add("crash", victim, "aabbcc");
    gdb({"-ex", "quit 3"});
    EXPECT_EQ(ran.code, 1);
}

TEST(GdbWithoutCore, ShowsTheIncidentAndFails) {
    State state;
    state.add_sample("crash");
    state.find_core = [](const capture::DeathIdentity &) -> Result<capture::CoreLink> {
        return capture::CoreLink{.reason = "RLIMIT_CORE was 0"};
    };
    const Ran ran = state.run({"gdb"});
    EXPECT_EQ(ran.code, 1);
    EXPECT_THAT(ran.out, HasSubstr("victim[4242] was killed by SIGSEGV"));
    EXPECT_EQ(ran.err, "incidentctl: no core to open: RLIMIT_CORE was 0\n");
    EXPECT_EQ(state.run({"gdb", "--json"}).code, 2);
}

} // namespace incident::postmortem::test
