// What the analysis says in addition to frames: where stacks end, files and debug info, arguments, exceptions.
#include "postmortem/show/threads_view.h"
#include "postmortem/unwind/analyse.h"
#include "state.h"
#include "unwind_lab.h"
#include "unwind_victims.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <csignal>
#include <sys/wait.h>

namespace incident::postmortem::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

AnalyseOptions quick() {
    AnalyseOptions options;
    options.install_hints = false;
    return options;
}

Analysis analysed(const CrashImage &image, const AnalyseOptions &options = quick(), ChildWork *more = nullptr) {
    return analyse(image, open_module_files(image), options, more);
}

const ModuleState *module_of(const Analysis &analysis, std::string_view name) {
    const auto found =
        std::ranges::find_if(analysis.modules, [&](const ModuleState &m) { return m.path.ends_with(name); });
    return found == analysis.modules.end() ? nullptr : &*found;
}

std::vector<std::string> symbols(const ThreadStack &stack) {
    std::vector<std::string> names;
    for (const Frame &frame : stack.frames)
        names.push_back(frame.symbol);
    return names;
}

const char *recursion = R"(
int *volatile nowhere;
__attribute__((noinline)) int deep(int n) { volatile char room[200]; room[n % 200] = 1; return n ? deep(n - 1) + room[n % 200] : *nowhere; }
int main(void) { return deep(1000); }
)";

TEST(UnwindFindings, SaysThatTheStackIsCut) {
    UnwindLab lab;
    CrashOptions options;
    options.stack_max = 16u << 10;
    const Crash crash = lab.crash(lab.compile("deep", recursion, "-g -O1"), options);
    AnalyseOptions many = quick();
    many.frames_max = 2000;
    const Analysis analysis = analysed(crash.image, many);
    const ThreadStack &stack = analysis.threads.at(0);
    EXPECT_TRUE(stack.truncated);
    EXPECT_EQ(stack.reason, "beyond the captured 16 KiB of stack");
    EXPECT_GT(stack.frames.size(), 50u);
    for (std::size_t i = 0; i < stack.frames.size(); ++i) // as far as it goes it is the truth
        EXPECT_EQ(stack.frames[i].ip, crash.threads.at(0).frames.at(i).ip);
}

TEST(UnwindFindings, SaysThatThereAreMoreFrames) {
    UnwindLab lab;
    AnalyseOptions options = quick();
    options.frames_max = 50;
    const Analysis analysis = analysed(lab.crash(lab.compile("deep", recursion, "-g -O1")).image, options);
    EXPECT_EQ(analysis.threads.at(0).frames.size(), 50u);
    EXPECT_EQ(analysis.threads.at(0).reason, "more than 50 frames");
    EXPECT_TRUE(analysis.threads.at(0).truncated);
}

TEST(UnwindFindings, AStackThatIsNoneEnds) {
    const char *smashes = R"(
#include <string.h>
__attribute__((noinline)) void smash(int n) { volatile char room[16]; for (int i = 0; i < n; ++i) room[i] = 'A'; }
int main(int argc, char **argv) { (void)argv; smash(200 + argc); return 0; }
)";
    UnwindLab lab;
    const Analysis analysis = analysed(lab.crash(lab.compile("smash", smashes, "-g -O1 -fno-stack-protector")).image);
    EXPECT_TRUE(analysis.threads.at(0).truncated);
    EXPECT_THAT(analysis.threads.at(0).reason, HasSubstr("0x4141414141414141"));
    EXPECT_THAT(analysis.threads.at(0).frames.at(0).symbol, "smash");
}

// No call frame information, and frame pointers in the functions that are on the stack.
TEST(UnwindFindings, FollowsFramePointersWhereThereIsNothingElse) {
    UnwindLab lab;
    const Analysis analysis =
        analysed(lab.crash(lab.compile("calls", victims[0].source,
                                       "-O1 -fno-omit-frame-pointer -fno-asynchronous-unwind-tables"))
                     .image);
    const ThreadStack &stack = analysis.threads.at(0);
    EXPECT_EQ(stack.how, "CFI and frame pointers");
    EXPECT_FALSE(stack.truncated) << stack.reason;
    EXPECT_THAT(symbols(stack),
                testing::IsSupersetOf({"leaf", "jumps", "with_alloca", "compare", "recurse", "main", "_start"}));
    EXPECT_EQ(std::ranges::count(symbols(stack), "recurse"), 4);
}

// Without either nothing is made up.
TEST(UnwindFindings, StopsWhereNothingTells) {
    UnwindLab lab;
    const Analysis analysis = analysed(
        lab.crash(lab.compile("calls", victims[0].source, "-O1 -fomit-frame-pointer -fno-asynchronous-unwind-tables"))
            .image);
    const ThreadStack &stack = analysis.threads.at(0);
    EXPECT_TRUE(stack.truncated);
    EXPECT_THAT(stack.reason, StartsWith("no unwind information for "));
    for (const std::string &name : symbols(stack))
        EXPECT_THAT(name, testing::AnyOf("leaf", "jumps"));
}

// The frame pointer of what cannot be read is an outer function's: nothing between is passed over.
TEST(UnwindFindings, AFramePointerIsNotFollowedOutOfAFileThatIsGone) {
    const char *library = R"(
int *volatile nowhere;
__attribute__((noinline)) int inner(int *p) { return p[3]; }
int outer(void) { return inner(nowhere) + 1; }
)";
    const char *program = R"(
#include <dlfcn.h>
#include <unistd.h>
__attribute__((noinline, optimize("no-omit-frame-pointer"))) int run(const char *path) {
    int (*outer)(void) = (int (*)(void))dlsym(dlopen(path, RTLD_NOW), "outer");
    unlink(path);
    return outer() + 1;
}
int main(int argc, char **argv) { (void)argc; return run(argv[1]) + 1; }
)";
    UnwindLab lab;
    const auto made = lab.compile("libgone.so", library, "-O2 -fPIC -shared");
    CrashOptions options;
    options.arguments = {made.string()};
    const Analysis analysis = analysed(lab.crash(lab.compile("loads", program, "-g -O0"), options).image);
    const ThreadStack &stack = analysis.threads.at(0);
    EXPECT_TRUE(stack.truncated);
    EXPECT_THAT(stack.reason, HasSubstr("no unwind information for "));
    EXPECT_EQ(stack.frames.size(), 1u);
}

// A stack of its own ends where its first function begins; main's is not behind it.
TEST(UnwindFindings, AContextsStackEndsAtItsBeginning) {
    const char *context = R"(
#include <stdlib.h>
#include <ucontext.h>
static ucontext_t here, there;
int *volatile nowhere;
static void work(void) { *nowhere = 1; }
int main(void) {
    getcontext(&there);
    there.uc_stack.ss_sp = malloc(65536);
    there.uc_stack.ss_size = 65536;
    there.uc_link = &here;
    makecontext(&there, work, 0);
    swapcontext(&here, &there);
    return 0;
}
)";
    UnwindLab lab;
    const Analysis analysis = analysed(lab.crash(lab.compile("context", context, "-g -O0")).image);
    const ThreadStack &stack = analysis.threads.at(0);
    EXPECT_EQ(stack.frames.at(0).symbol, "work");
    EXPECT_LE(stack.frames.size(), 2u);
    EXPECT_THAT(symbols(stack), testing::Not(testing::Contains("main")));
    EXPECT_THAT(symbols(stack), testing::Not(testing::Contains("__libc_start_call_main")));
}

// A name holds within its section: _fini, which has no size, not for the data behind the code.
TEST(UnwindFindings, NoNameReachesBeyondItsSection) {
    const char *jumps = R"(
static unsigned char code[] = {0xc3};
__attribute__((noinline)) void call(void (*to)(void)) { to(); __asm__ volatile(""); }
int main(void) { call((void (*)(void))code); return 0; }
)";
    UnwindLab lab;
    const Analysis analysis = analysed(lab.crash(lab.compile("jumps", jumps, "-g -O0")).image);
    const ThreadStack &stack = analysis.threads.at(0);
    EXPECT_EQ(stack.frames.at(0).symbol, "");
    EXPECT_EQ(stack.frames.at(1).symbol, "call");
    ASSERT_TRUE(analysis.call);
    EXPECT_EQ(analysis.call->target, stack.frames.at(0).ip);
}

// What a handler on the stack interrupted: registers, instruction, and what it was called for.
TEST(UnwindFindings, WhatAHandlerInterrupted) {
    const char *handles = R"(
#include <signal.h>
struct item { long pad[3]; int value; };
struct item *volatile nothing;
__attribute__((noinline)) int value_of(struct item *item) { return item->value; }
static void handler(int number) { signal(number, SIG_DFL); __builtin_trap(); }
int main(int argc, char **argv) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = argc > 1 ? SA_SIGINFO : 0};
    (void)argv;
    sigaction(SIGSEGV, &action, 0);
    return value_of(nothing);
}
)";
    UnwindLab lab;
    CrashOptions options;
    options.gdb_before = {"handle SIGSEGV nostop noprint pass"};
    const std::filesystem::path program = lab.compile("handles", handles, "-g -O1 -D_GNU_SOURCE");
    Analysis analysis = analysed(lab.crash(program, options).image);
    ASSERT_TRUE(analysis.interrupted);
    EXPECT_EQ(analysis.interrupted->signal, 0);
    EXPECT_EQ(analysis.interrupted->address, 24u);
    options.arguments = {"siginfo"};
    analysis = analysed(lab.crash(program, options).image);
    ASSERT_TRUE(analysis.interrupted);
    const Interrupted &interrupted = *analysis.interrupted;
    EXPECT_EQ(interrupted.signal, SIGSEGV);
    EXPECT_EQ(interrupted.code, SEGV_MAPERR);
    EXPECT_EQ(interrupted.address, 24u);
    EXPECT_EQ(analysis.threads.at(0).frames.at(interrupted.frame).symbol, "value_of");
    ASSERT_TRUE(interrupted.instruction && interrupted.instruction->memory);
    EXPECT_EQ(interrupted.instruction->memory->address, 24u);
}

TEST(UnwindFindings, AFileThatIsGoneOrChangedIsNotUsed) {
    UnwindLab lab;
    const std::filesystem::path program = lab.compile("calls", victims[0].source, "-g -O2");
    const Crash crash = lab.crash(program);
    std::filesystem::rename(program, lab.dir() / "away");
    Analysis analysis = analysed(crash.image);
    EXPECT_EQ(module_of(analysis, "/calls")->file, "missing");
    EXPECT_TRUE(module_of(analysis, "/calls")->on_a_stack);
    EXPECT_TRUE(analysis.threads.at(0).truncated);
    EXPECT_THAT(analysis.threads.at(0).reason, HasSubstr("missing"));
    EXPECT_EQ(analysis.threads.at(0).frames.at(0).build_id, module_of(analysis, "/calls")->build_id);

    lab.compile("calls", victims[3].source, "-g -O2");
    analysis = analysed(crash.image);
    EXPECT_THAT(module_of(analysis, "/calls")->file, StartsWith("changed since"));
    EXPECT_TRUE(analysis.threads.at(0).truncated);
    EXPECT_EQ(analysis.threads.at(0).frames.at(0).symbol, "");
}

class UnwindDebugFiles : public testing::Test {
protected:
    void SetUp() override {
        program = lab.compile("calls", victims[0].source, "-g -O2");
        ASSERT_EQ(lab.shell("objcopy --only-keep-debug calls calls.full && strip -g calls && strip calls"), 0);
        crash = lab.crash(program);
        options.debug_root = (lab.dir() / "root").string();
        build_id = std::ranges::find_if(crash.image.modules, [](const ImageModule &m) {
                       return m.path.ends_with("/calls");
                   })->build_id;
        ASSERT_GT(build_id.size(), 4u);
        by_id = "root/.build-id/" + build_id.substr(0, 2) + "/" + build_id.substr(2) + ".debug";
        std::filesystem::create_directories((lab.dir() / by_id).parent_path());
    }
    const ModuleState &state(const Analysis &analysis) { return *module_of(analysis, "/calls"); }

    UnwindLab lab;
    std::filesystem::path program;
    Crash crash;
    AnalyseOptions options = quick();
    std::string build_id, by_id;
};

TEST_F(UnwindDebugFiles, NoneIsSaid) {
    const Analysis analysis = analysed(crash.image, options);
    EXPECT_EQ(state(analysis).debug, "none");
    EXPECT_EQ(state(analysis).file, "used");
    EXPECT_EQ(analysis.threads.at(0).frames.at(0).symbol, "");
    EXPECT_FALSE(analysis.threads.at(0).truncated); // unwinding needs none
}

TEST_F(UnwindDebugFiles, ByBuildId) {
    ASSERT_EQ(lab.shell("cp calls.full " + by_id), 0);
    const Analysis analysis = analysed(crash.image, options);
    EXPECT_EQ(state(analysis).debug, (lab.dir() / by_id).string());
    EXPECT_EQ(analysis.threads.at(0).frames.at(0).symbol, "innermost");
    EXPECT_EQ(analysis.threads.at(0).frames.at(0).line, 7u);
    EXPECT_THAT(analysis.notes, IsEmpty());
}

TEST_F(UnwindDebugFiles, ByBuildIdWhereOnlyRootMayLook) {
    ASSERT_EQ(lab.shell("cp calls.full " + by_id + " && chmod 600 " + by_id + " && chmod 700 root"), 0);
    EXPECT_EQ(state(analysed(crash.image, options)).debug, (lab.dir() / by_id).string());
}

TEST_F(UnwindDebugFiles, AnotherBuildIsRefused) {
    lab.compile("other", victims[3].source, "-g -O2");
    ASSERT_EQ(lab.shell("cp other " + by_id), 0);
    const Analysis analysis = analysed(crash.image, options);
    EXPECT_EQ(state(analysis).debug, "none");
    EXPECT_THAT(analysis.notes, testing::Contains(HasSubstr("its build-id is")));
}

// A build-id is no secret: another user may put a file beside the program that says what she likes.
TEST_F(UnwindDebugFiles, AnotherUsersIsRefused) {
    if (::geteuid() != 0)
        GTEST_SKIP() << "needs root, to give files away";
    ASSERT_EQ(lab.shell("cp calls.full " + by_id + " && chown 12345 " + by_id), 0);
    Analysis analysis = analysed(crash.image, options);
    EXPECT_EQ(state(analysis).debug, "none");
    EXPECT_THAT(analysis.notes, testing::Contains(HasSubstr("belongs neither to root nor to the owner of the module")));
    ASSERT_EQ(lab.shell("chown 12345 calls"), 0); // her own program
    EXPECT_EQ(state(analysed(crash.image, options)).debug, (lab.dir() / by_id).string());
}

TEST_F(UnwindDebugFiles, AFifoInItsPlaceIsNotWaitedFor) {
    ASSERT_EQ(lab.shell("mkfifo " + by_id), 0);
    EXPECT_EQ(state(analysed(crash.image, options)).debug, "none");
}

TEST_F(UnwindDebugFiles, ByDebugLink) {
    ASSERT_EQ(lab.shell("objcopy --add-gnu-debuglink=calls.full calls linked && mv linked calls && mkdir .debug && mv "
                        "calls.full .debug"),
              0);
    const Analysis analysis = analysed(crash.image, options);
    EXPECT_EQ(state(analysis).debug, (lab.dir() / ".debug/calls.full").string());
    EXPECT_EQ(analysis.threads.at(0).frames.at(0).symbol, "innermost");
}

TEST_F(UnwindDebugFiles, SharedByDwz) {
    if (lab.shell("command -v dwz > dwz.path") != 0)
        GTEST_SKIP() << "dwz is not installed";
    ASSERT_EQ(lab.shell("cp calls.full twin.full && mkdir -p root/.dwz && dwz -m root/.dwz/shared.debug -M "
                        "../../.dwz/shared.debug calls.full twin.full 2> dwz.log; cp calls.full " +
                        by_id),
              0);
    ASSERT_EQ(lab.shell("readelf -S " + by_id + " | grep -q gnu_debugaltlink"), 0);
    const Analysis analysis = analysed(crash.image, options);
    EXPECT_THAT(analysis.notes, IsEmpty());
    EXPECT_EQ(analysis.threads.at(0).frames.at(0).symbol, "innermost");
    EXPECT_EQ(analysis.threads.at(0).frames.at(0).line, 7u);
}

// A server of our own, its cache and ours empty.
TEST_F(UnwindDebugFiles, ByDebuginfod) {
    if (lab.shell("command -v debuginfod > debuginfod.path") != 0)
        GTEST_SKIP() << "debuginfod is not installed";
    ASSERT_EQ(lab.shell("mkdir served cache && cp calls.full served && cp calls served"), 0);
    const int port = 20000 + static_cast<int>(getpid() % 20000);
    const pid_t server = fork();
    if (server == 0) {
        const int log = open((lab.dir() / "server.log").c_str(), O_CREAT | O_WRONLY, 0644);
        dup2(log, 1), dup2(log, 2);
        execlp("debuginfod", "debuginfod", "-F", "-d", ":memory:", "-p", std::to_string(port).c_str(),
               (lab.dir() / "served").c_str(), nullptr);
        _exit(127);
    }
    setenv("DEBUGINFOD_URLS", fmt::format("http://127.0.0.1:{}", port).c_str(), 1);
    setenv("DEBUGINFOD_CACHE_PATH", (lab.dir() / "cache").c_str(), 1);
    // Ready when it has what it is asked for; its client's own cache remembers what it had not.
    EXPECT_EQ(lab.shell(fmt::format("for i in $(seq 100); do DEBUGINFOD_CACHE_PATH=$PWD/probe$i debuginfod-find "
                                    "debuginfo {} > found 2>&1 && exit 0; sleep 0.2; done; exit 1",
                                    build_id)),
              0);
    options.debuginfod = true;
    Analysis analysis = analysed(crash.image, options);
    EXPECT_EQ(state(analysis).debug, "debuginfod");
    EXPECT_EQ(analysis.threads.at(0).frames.at(0).symbol, "innermost");
    EXPECT_THAT(analysis.notes, testing::Contains(HasSubstr("debuginfod has not"))); // libc's

    // The file itself, where it is gone here.
    std::filesystem::remove(program);
    analysis = analysed(crash.image, options);
    EXPECT_EQ(state(analysis).file, "debuginfod");
    EXPECT_EQ(state(analysis).debug, "debuginfod");
    EXPECT_FALSE(analysis.threads.at(0).truncated) << analysis.threads.at(0).reason;
    EXPECT_EQ(analysis.threads.at(0).frames.at(0).symbol, "innermost");
    kill(server, SIGTERM);
    waitpid(server, nullptr, 0);

    // Nobody answers.
    std::filesystem::remove_all(lab.dir() / "cache");
    analysis = analysed(crash.image, options);
    EXPECT_EQ(state(analysis).file, "missing");
    EXPECT_THAT(analysis.notes, testing::Contains(HasSubstr("debuginfod has not the file")));
    unsetenv("DEBUGINFOD_URLS");
    analysis = analysed(crash.image, options);
    EXPECT_THAT(analysis.notes, testing::Contains(HasSubstr("DEBUGINFOD_URLS is not set")));
    unsetenv("DEBUGINFOD_CACHE_PATH");
}

TEST(UnwindFindings, GeneratedCodeIsNamedByItsMapOrLabelled) {
    const char *jit = R"(
#include <sys/mman.h>
#include <string.h>
int *volatile nowhere;
__attribute__((noinline)) void called(void) { *nowhere = 1; }
int main(void) {
    unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
    char *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page + 64, code, sizeof code);
    ((void (*)(void (*)(void)))(void *)(page + 64))(called);
    return 0;
}
)";
    UnwindLab lab;
    Crash crash = lab.crash(lab.compile("jit", jit, "-g -O2"));
    Analysis analysis = analysed(crash.image);
    ASSERT_GT(analysis.threads.at(0).frames.size(), 3u) << analysis.threads.at(0).reason;
    const Frame generated = analysis.threads.at(0).frames[1];
    EXPECT_EQ(generated.module, "jit/anon");
    EXPECT_EQ(generated.symbol, "");
    EXPECT_EQ(generated.made_by, "");
    EXPECT_THAT(frame_line(1, to_json(generated)), testing::EndsWith(" code made at run time"));
    EXPECT_EQ(analysis.threads.at(0).frames[2].symbol, "main");
    EXPECT_EQ(analysis.threads.at(0).frames[2].how, "frame pointer");
    EXPECT_EQ(analysis.threads.at(0).how, "CFI and frame pointers");
    // Nothing says whether the generated code sets up a frame pointer: its callers may be missing.
    EXPECT_TRUE(analysis.threads.at(0).truncated);
    EXPECT_THAT(analysis.threads.at(0).reason, StartsWith("frames may be missing behind 0x"));

    // The loaded files say who may have made it, and all of them where there are several.
    Crash others = crash;
    for (const std::string &path : {"/opt/libnode.so.108", "/opt/nodes", "/usr/lib/libpcre2-8.so.0"}) {
        ImageModule loaded;
        loaded.path = path;
        loaded.start = loaded.end = UserAddress(UINT64_MAX);
        others.image.modules.push_back(loaded);
    }
    const Analysis labelled = analysed(others.image);
    const Frame made = labelled.threads.at(0).frames[1];
    EXPECT_EQ(made.made_by, "V8 or PCRE");
    EXPECT_THAT(frame_line(1, to_json(made)), testing::EndsWith(" code made at run time, perhaps by V8 or PCRE"));
    EXPECT_THAT(labelled.notes,
                testing::Contains("code made at run time has no names; V8 writes them down with --perf-basic-prof"));
    EXPECT_EQ(labelled.threads.at(0).frames[2].made_by, "");

    const std::uint64_t start = (generated.ip & ~std::uint64_t{4095}) + 64;
    crash.image.perf_map =
        fmt::format("{:x} 8 LazyCompile:*add app.js:12\n{:x} 8 no such\ngarbage\n", start, start + 8);
    analysis = analysed(crash.image);
    EXPECT_EQ(analysis.threads.at(0).frames[1].symbol, "LazyCompile:*add app.js:12");
    EXPECT_EQ(analysis.threads.at(0).frames[1].symbol_offset, 6u);
    EXPECT_THAT(analysis.notes, testing::Contains(HasSubstr("1 lines of the perf map")));
}

TEST(UnwindFindings, TheVdsoIsReadOutOfTheBundle) {
    const char *clock = R"(
#include <time.h>
int main(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return 0; }
)";
    UnwindLab lab;
    CrashOptions options;
    options.gdb_before = {"set breakpoint pending on", "break __vdso_clock_gettime"};
    Crash crash = lab.crash(lab.compile("clock", clock, "-g -O2"), options);
    ASSERT_FALSE(crash.image.threads.empty());
    Analysis analysis = analysed(crash.image);
    EXPECT_EQ(compare(analysis.threads.at(0), crash.threads.at(0)).differences, "");
    EXPECT_EQ(analysis.threads.at(0).frames.at(0).module, "[vdso]");
    EXPECT_THAT(analysis.threads.at(0).frames.at(0).symbol, HasSubstr("clock_gettime"));
    ASSERT_TRUE(module_of(analysis, "[vdso]"));
    EXPECT_EQ(module_of(analysis, "[vdso]")->file, "used");

    ImageMemory without;
    for (const auto &[address, bytes] : crash.image.memory.pieces())
        if (crash.image.maps.find(UserAddress(address))->path != "[vdso]")
            without.add(address, bytes);
    crash.image.memory = without;
    analysis = analysed(crash.image);
    EXPECT_EQ(module_of(analysis, "[vdso]")->file, "its pages were not captured");
    // Of the same boot it is the one that is mapped here.
    AnalyseOptions same = quick();
    same.this_boot = true;
    analysis = analysed(crash.image, same);
    EXPECT_EQ(compare(analysis.threads.at(0), crash.threads.at(0)).differences, "");
}

TEST(UnwindFindings, TheExceptionNobodyCaught) {
    UnwindLab lab;
    for (const char *flags : {"-g -O2", "-O0", "-O2 -static"}) {
        CrashOptions options;
        options.gdb_before = {"set $heap = 1"};
        const Crash crash = lab.crash(lab.compile("uncaught", victims[6].source, flags), options);
        const Analysis analysis = analysed(crash.image);
        ASSERT_TRUE(analysis.exception) << flags;
        EXPECT_EQ(analysis.exception->type, "std::out_of_range") << flags;
        EXPECT_EQ(analysis.exception->what, "price -99") << flags;
        const Analysis none = analysed(lab.crash(lab.dir() / "uncaught").image);
        fmt::print("{}, without the heap: {}\n", flags,
                   none.exception ? none.exception->type + " " + none.exception->what : "not known");
    }
}

TEST(UnwindFindings, AnExceptionOfOnesOwnHasATypeOnly) {
    const char *own = R"(
#include <stdexcept>
namespace app { struct Failure { int code; const char *why; }; }
__attribute__((noinline)) void fail(int n) { throw app::Failure{n, "because"}; }
int main(int argc, char **) { fail(argc); }
)";
    UnwindLab lab;
    CrashOptions options;
    options.gdb_before = {"set $heap = 1"};
    const Analysis analysis = analysed(lab.crash(lab.compile("own", own, "-g -O2"), options).image);
    ASSERT_TRUE(analysis.exception);
    EXPECT_EQ(analysis.exception->type, "app::Failure");
    EXPECT_EQ(analysis.exception->what, "");
}

// Every way an exception ends a process: rethrown, handed on, out of a function that throws none.
TEST(UnwindFindings, ExceptionsThatTookAnotherWay) {
    const char *source = R"(
#include <stdexcept>
#include <exception>
__attribute__((noinline)) void fail(int n) { throw std::invalid_argument("number " + std::to_string(n)); }
__attribute__((noinline)) void quiet(int n) noexcept { fail(n); }
int main(int argc, char **argv) {
    const char way = argv[1][0];
    if (way == 'n') quiet(argc);
    try { fail(argc); } catch (...) {
        if (way == 'r') throw;
        std::exception_ptr held = std::current_exception();
        std::rethrow_exception(held);
    }
}
)";
    UnwindLab lab;
    const std::filesystem::path program = lab.compile("ways", source, "-g -O2");
    for (const char *way : {"noexcept", "rethrow", "pointer"}) {
        CrashOptions options;
        options.gdb_before = {"set $heap = 1"};
        options.arguments = {way};
        const Crash crash = lab.crash(program, options);
        const Analysis analysis = analysed(crash.image);
        EXPECT_EQ(compare(analysis.threads.at(0), crash.threads.at(0)).differences, "");
        ASSERT_TRUE(analysis.exception) << way;
        EXPECT_EQ(analysis.exception->type, "std::invalid_argument") << way;
        EXPECT_EQ(analysis.exception->what, "number 2") << way;
    }
}

TEST(UnwindFindings, TheFaultingInstruction) {
    UnwindLab lab;
    const Crash crash = lab.crash(lab.compile("handler", victims[0].source, "-g -O2"));
    const Analysis analysis = analysed(crash.image);
    ASSERT_TRUE(analysis.instruction);
    EXPECT_EQ(analysis.instruction->address, crash.image.threads[0].registers->rip);
    ASSERT_TRUE(analysis.instruction->memory);
    EXPECT_EQ(analysis.instruction->memory->address, 0u);
    EXPECT_TRUE(analysis.instruction->memory->read);
    EXPECT_EQ(analysis.instruction->memory->bytes, 4u);
}

// Values as gdb prints them of the same frame, where it does.
TEST(UnwindFindings, ArgumentsAreAsGdbSeesThem) {
    const char *source = R"(
#include <stddef.h>
struct node { struct node *next; int value; };
typedef unsigned char byte;
enum color { red, green = 7 };
struct node *volatile end;
volatile int sink;
__attribute__((noinline)) int walk(const struct node *list, int negative, byte small, enum color color, size_t size, const char *text, long seventh, short eighth) {
    sink = negative + small + color + (int)size + (text != NULL) + (int)seventh + eighth;
    return list->next->value + negative + small + (int)color + (int)size + (text != NULL) + (int)seventh + eighth;
}
int main(int argc, char **argv) {
    struct node last = {end, argc};
    return walk(&last, -5, 200, green, 1ul << 40, argv[0], -7, -3) + 1;
}
)";
    UnwindLab lab;
    std::size_t same = 0, known_to_gdb = 0;
    for (const char *flags :
         {"-g -O0", "-g -O1", "-g -O2", "-g -O2 -gdwarf-4", "-g -O3 -fno-omit-frame-pointer", "-g -O2 -static"}) {
        const Crash crash = lab.crash(lab.compile("arguments", source, flags));
        const Analysis analysis = analysed(crash.image);
        ASSERT_FALSE(crash.threads.empty());
        const auto &gdb = crash.threads[0].frames.at(analysis.argument_frame).arguments;
        ASSERT_EQ(analysis.arguments.size(), gdb.size()) << flags;
        ASSERT_EQ(gdb.size(), 8u);
        for (std::size_t i = 0; i < gdb.size(); ++i) {
            const Argument &ours = analysis.arguments[i];
            EXPECT_EQ(ours.name, gdb[i].name);
            EXPECT_EQ(ours.number, i);
            const std::string &value = gdb[i].value;
            if (value.contains("optimized out")) {
                EXPECT_FALSE(ours.value) << flags << " " << ours.name << " " << ours.how;
                continue;
            }
            ++known_to_gdb;
            if (!ours.value) {
                EXPECT_THAT(ours.how, HasSubstr("entry")) << flags << " " << ours.name << " " << value;
                continue;
            }
            ++same;
            if (ours.name == "color")
                EXPECT_EQ(*ours.value, 7u);
            else if (ours.name == "negative")
                EXPECT_EQ(static_cast<std::int32_t>(*ours.value), -5);
            else if (ours.name == "seventh")
                EXPECT_EQ(static_cast<std::int64_t>(*ours.value), -7);
            else if (ours.name == "eighth")
                EXPECT_EQ(static_cast<std::int16_t>(*ours.value), -3);
            else
                EXPECT_EQ(*ours.value, std::strtoull(value.c_str(), nullptr, 0))
                    << flags << " " << ours.name << " " << value;
        }
        EXPECT_EQ(analysis.arguments[0].type, "const struct node *");
        EXPECT_TRUE(analysis.arguments[0].is_pointer);
        EXPECT_EQ(analysis.arguments[2].type, "byte");
        EXPECT_EQ(analysis.arguments[3].type, "enum color");
        EXPECT_FALSE(analysis.arguments[1].is_pointer);
    }
    fmt::print("{} of {} argument values gdb knows\n", same, known_to_gdb);
}

TEST(UnwindFindings, MoreWorkIsDoneInTheSameChild) {
    UnwindLab lab;
    const Crash crash = lab.crash(lab.compile("null", victims[3].source, "-g"));
    ChildWork work{[] { return Json{{"uid", getuid()}}; }, {}};
    const Analysis analysis = analysed(crash.image, quick(), &work);
    EXPECT_FALSE(analysis.threads.at(0).truncated);
    EXPECT_EQ(work.result["uid"], geteuid() == 0 ? 65534u : getuid());
    ChildWork dies{[]() -> Json { std::abort(); }, {}};
    EXPECT_THAT(analysed(crash.image, quick(), &dies).notes, testing::Contains(HasSubstr("SIGABRT")));
    EXPECT_TRUE(dies.result.is_null());
}

TEST(UnwindFindings, SaysWhatInstallsDebugInfo) {
    UnwindLab lab;
    CrashOptions options;
    options.arguments = {"-e", "unpack(\"p\", pack(\"Q\", 16))"};
    AnalyseOptions hints;
    const Analysis analysis = analysed(lab.crash("/usr/bin/perl", options).image, hints);
    ASSERT_TRUE(module_of(analysis, "/perl"));
    EXPECT_EQ(module_of(analysis, "/perl")->debug, "none");
    EXPECT_EQ(module_of(analysis, "/perl")->install, "apt install perl-base-dbgsym (needs the debian-debug archive)");
    EXPECT_THAT(module_of(analysis, "/libc.so.6")->debug, StartsWith("/usr/lib/debug/"));
    EXPECT_EQ(module_of(analysis, "/libc.so.6")->install, "");
}

} // namespace
} // namespace incident::postmortem::test
