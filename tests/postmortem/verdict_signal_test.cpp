// What a verdict says about signals that somebody sent, about abort(3), and about a fault before another signal; for
// each sentence also similar evidence for which it must not be said.
#include "verdict_lab.h"

#include <fmt/format.h>

namespace incident::postmortem::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class SignalVerdict : public VerdictLab {};

TEST_F(SignalVerdict, WhoSentItIsToldByTheRecordOfTheCall) {
    sent_by(50, 51, SIGTERM, SI_USER, "SI_USER");
    EXPECT_EQ(said(), "killed by killer[50], which sent it SIGTERM");
    sent_by(50, 0, SIGTERM, SI_QUEUE, "SI_QUEUE"); // a siginfo alone may name anybody
    EXPECT_EQ(said(), "");
    sent_by(50, 51, SIGTERM, SI_USER, "SI_USER");
    record["signal"]["fatal"] = false;
    EXPECT_EQ(said(), "");
    record["signal"]["fatal"] = true;
    record["dump"] = {{"sent", true}}; // a rule asked for it
    EXPECT_EQ(said(), "");
}

TEST_F(SignalVerdict, ItSentItToItself) {
    sent_itself(SIGSEGV);
    EXPECT_EQ(said(), "it sent SIGSEGV to itself");
    sent_by(100, 0, SIGXFSZ, SI_USER, "SI_USER"); // as the kernel's own SIGXFSZ and SIGPIPE look
    EXPECT_EQ(said(), "");
    sent_by(100, 0, SIGPIPE, SI_USER, "SI_USER");
    EXPECT_EQ(said(), "");
    fault(SIGXCPU, SI_KERNEL, "SI_KERNEL", 0);
    EXPECT_EQ(said(), "");
}

TEST_F(SignalVerdict, AFileBeyondItsLimit) {
    sent_itself(SIGXFSZ, SI_USER, "SI_USER");
    record["signal"]["sender"] = nullptr;
    limits("Max file size              10                   10                   bytes\n");
    EXPECT_EQ(said(), ""); // the kernel's record of it is missing
    signal_line(5, SIGXFSZ, SI_KERNEL, "SI_KERNEL", {}, "generated");
    EXPECT_EQ(said(), "a file was to grow beyond the process's limit, RLIMIT_FSIZE, of 10 bytes");
    limits("Max file size              unlimited            unlimited            bytes\n");
    EXPECT_EQ(said(), "");
    limits("Max file size              10                   10                   bytes\n");
    sent_by(50, 51, SIGXFSZ, SI_USER, "SI_USER"); // somebody's kill -XFSZ
    EXPECT_EQ(said(), "killed by killer[50], which sent it SIGXFSZ");
}

TEST_F(SignalVerdict, OutOfMemory) {
    image.signal = SIGKILL;
    record["kind"] = "oom";
    struct {
        const char *constraint, *text;
    } const cases[] = {
        {"CONSTRAINT_MEMCG", "out of memory: cgroup /a reached its limit of 48 MiB"},
        {"CONSTRAINT_NONE", "out of memory: the host had none left"},
        {"CONSTRAINT_CPUSET", "out of memory: the nodes its cpuset allows had none left"},
        {"CONSTRAINT_MEMORY_POLICY", "out of memory: the nodes its memory policy allows had none left"},
        {"", "out of memory: the OOM killer chose it"}, // the kernel's line was not found
    };
    for (const auto &each : cases) {
        record["oom"] = {{"constraint", each.constraint},
                         {"cgroup", "/a"},
                         {"memory_max", 48 << 20},
                         {"killed", "Killed process 100"}};
        EXPECT_EQ(said(), each.text);
    }
    record["kind"] = "signal"; // a SIGKILL of somebody's
    EXPECT_EQ(said(), "");
    record["kind"] = "oom";
    record["oom"] = Json::object(); // nothing to rest on
    EXPECT_EQ(said(), "");
}

// Names of programs and cgroups stand in the kernel's lines, and they are anybody's words.
TEST_F(SignalVerdict, TheKernelsTableOfCandidatesIsItsOwn) {
    image.signal = SIGKILL;
    record["kind"] = "oom";
    record["oom"] = {{"constraint", "CONSTRAINT_NONE"}};
    const std::string table = "[5.000000] <4> x invoked oom-killer: gfp_mask=0x1, order=0, oom_score_adj=0\n"
                              "[5.000001] <6> [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents "
                              "oom_score_adj name\n"
                              "[5.000002] <6> [     60]     0    60     9000     1024    40960        0     0 small\n"
                              "[5.000003] <6> [    100]     0   100     9000    12288    40960        0     0 x\n";
    const auto largest = [&](const std::string &log) {
        kernel_log(log);
        const Verdict told = verdict();
        for (const auto &fact : told.claims.at(0).facts)
            if (fact.starts_with("largest of"))
                return fact;
        return std::string();
    };
    const std::string all = "largest of the 2 processes the kernel chose from: x[100] 48 MiB, small[60] 4 MiB";
    EXPECT_EQ(largest(table), all);
    EXPECT_EQ(largest(table + "[5.000004] <6> [     77]  1000    77        1        1    40960        0     0 "
                              "[1] 0 7 0 99 x\n"),
              "largest of the 3 processes the kernel chose from: x[100] 48 MiB, small[60] 4 MiB, x[77] 4 KiB");
    for (const char *line :
         {"<14> x invoked oom-killer: gfp_mask=0x1, order=0", // of a program
          "<6> oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/x invoked oom-killer: y,task=x",
          "<14> [     88]     0    88 9 99999999 0 0 0 x", "<6> x [     88]     0    88 9 9999 0 0 0 x"})
        EXPECT_EQ(largest(table + "[5.000005] " + line + "\n"), all) << line;
}

// --- a fault before the signal that killed

class FirstFault : public SignalVerdict {};

TEST_F(FirstFault, IsExplainedByTheHandlersFrame) {
    handled();
    sent_itself(SIGSEGV);
    in_handler();
    EXPECT_EQ(said(),
              "null dereference: use() reads 4 bytes at offset 0x8 of a null pointer; it had a handler for that, "
              "and died of the SIGSEGV it sent itself");
    EXPECT_THAT(verdict().claims[0].facts, Contains(StartsWith("SIGSEGV (SEGV_MAPERR) for address 0x8, raised by the "
                                                               "kernel in thread 100 2 ms before")));
}

// The Java VM meets more faults while it writes its report, and deals with them.
TEST_F(FirstFault, IsThatOfTheHandlerOnTheStack) {
    handled();
    signal_line(1'000'000, SIGSEGV, SEGV_ACCERR, "SEGV_ACCERR", 0x7000, "delivered", "handled");
    sent_itself(SIGABRT);
    in_handler();
    EXPECT_THAT(said(), StartsWith("null dereference: use() reads 4 bytes at offset 0x8 of a null pointer; it had"));
    EXPECT_THAT(verdict().claims[0].facts, Contains(StartsWith("SIGSEGV (SEGV_MAPERR) for address 0x8, raised by the "
                                                               "kernel in thread 100 2 ms before")));
}

TEST_F(FirstFault, WhoseRecordHadToGiveWayIsThatOfTheFrame) {
    record["limits"] = {{"signals", 16}};
    for (int i = 0; i < 15; ++i)
        signal_line(1'000'000 - i, SIGSEGV, SEGV_ACCERR, "SEGV_ACCERR", 0x7000, "delivered", "handled");
    sent_itself(SIGABRT);
    in_handler();
    EXPECT_THAT(said(), StartsWith("null dereference: use() reads 4 bytes at offset 0x8 of a null pointer; it had"));
    EXPECT_THAT(verdict().claims[0].facts,
                Contains("a handler of SIGSEGV (SEGV_MAPERR) for address 0x8 is on the stack of thread 100; the record "
                         "of it had to give way to 15 later signals"));
    analysis.interrupted->code = SI_KERNEL; // no address
    EXPECT_THAT(said(), Not(HasSubstr("null dereference")));
    analysis.interrupted->code = SEGV_MAPERR;
    record["signal"]["sender"]["tid"] = 101;
    EXPECT_THAT(said(), Not(HasSubstr("null dereference"))) << "another thread sent it";
}

TEST_F(FirstFault, WhoseRecordIsNotThereThoughAllAreIsNone) {
    record["limits"] = {{"signals", 16}};
    for (int i = 0; i < 9; ++i)
        signal_line(1'000'000 - i, SIGSEGV, SEGV_ACCERR, "SEGV_ACCERR", 0x7000, "delivered", "handled");
    sent_itself(SIGABRT);
    in_handler();
    EXPECT_THAT(said(), Not(HasSubstr("null dereference")));
}

TEST_F(FirstFault, WithoutASiginfoTheAddressMustDo) {
    handled();
    sent_itself(SIGSEGV);
    in_handler();
    analysis.interrupted->signal = analysis.interrupted->code = 0;
    EXPECT_THAT(said(), StartsWith("null dereference: use() reads 4 bytes at offset 0x8 of a null pointer; it had"));
    analysis.interrupted->address = 16; // an older fault's
    EXPECT_THAT(said(), StartsWith("SIGSEGV (SEGV_MAPERR) for address 0x8 came first"));
    analysis.interrupted->address = 8;
    analysis.interrupted->registers["rax"] = 0x1000; // of a signal that came after it: another instruction
    analysis.interrupted->instruction->memory->address = 0x1008;
    EXPECT_THAT(said(), StartsWith("SIGSEGV (SEGV_MAPERR) for address 0x8 came first"));
}

TEST_F(FirstFault, IsExplainedByTheRegistersWhereTheHandlerHasReturned) {
    handled();
    sent_itself(SIGSEGV);
    registers().orig_rax = ~0ull;
    accesses("rax", 8);
    EXPECT_THAT(said(), StartsWith("null dereference: use() reads 4 bytes at offset 0x8 of a null pointer; it had"));
}

TEST_F(FirstFault, WhereTheHandlerCouldNotBeEntered) {
    handled();
    fault(SIGSEGV, SI_KERNEL, "SI_KERNEL", 0);
    signal_line(0, SIGSEGV, SI_KERNEL, "SI_KERNEL", {}, "delivered", "fatal", 100, true);
    accesses("rax", 8);
    EXPECT_EQ(said(),
              "null dereference: use() reads 4 bytes at offset 0x8 of a null pointer; it had a handler for that, "
              "and died of SIGSEGV (SI_KERNEL)");
    registers().rax = 0x1000; // it went on, and this is another fault
    accesses("rax", 8);
    EXPECT_EQ(said(), "");
}

TEST_F(FirstFault, IsToldWhereItCannotBeExplained) {
    handled();
    sent_itself(SIGSEGV); // later, from somewhere else
    EXPECT_EQ(said(), "SIGSEGV (SEGV_MAPERR) for address 0x8 came first, 2 ms before, and went to a handler; it died "
                      "of the SIGSEGV it sent itself");
    in_handler(0x999); // the handler on the stack is another fault's
    EXPECT_THAT(said(), StartsWith("SIGSEGV (SEGV_MAPERR) for address 0x8 came first"));
}

// Of a copy that was kept there is no code: what the instruction did is not known, and that it came first is.
TEST_F(FirstFault, IsToldOfAHandlerThatAborts) {
    handled();
    sent_itself(SIGABRT);
    in_handler();
    analysis.interrupted->instruction.reset();
    EXPECT_THAT(said(),
                testing::StartsWith("SIGSEGV (SEGV_MAPERR) for address 0x8 came first, 2 ms before, and went to a "
                                    "handler; it died of the SIGABRT it sent itself"));
    analysis.interrupted->address = 16; // the handler on the stack is another fault's
    EXPECT_THAT(said(), testing::Not(HasSubstr("came first")));
}

TEST_F(FirstFault, OrASignalItAborted) {
    handled();
    aborts({});
    in_handler();
    EXPECT_THAT(said(), StartsWith("null dereference: use() reads"));
    EXPECT_THAT(said(), HasSubstr("and died of the SIGABRT it sent itself"));
    // Of one it has left behind nothing says that it aborted for that: Java handles faults all day.
    analysis.interrupted.reset();
    frames({"libc.so.6:raise", "libc.so.6:abort", "give_up", "main"});
    EXPECT_EQ(said(), "give_up() called abort()");
}

TEST_F(FirstFault, NearMisses) {
    const auto only_sent = [&](const char *what) { EXPECT_EQ(said(), "it sent SIGSEGV to itself") << what; };
    sent_itself(SIGSEGV);
    only_sent("no fault at all");
    handled(101);
    only_sent("another thread's");
    handled(100, "ignored");
    only_sent("no handler");
    signal_line(2'000'000, SIGSEGV, -6, "SI_TKILL", {}, "delivered", "handled");
    only_sent("sent, no fault");
    signal_line(-5, SIGSEGV, SEGV_MAPERR, "SEGV_MAPERR", 8, "delivered", "handled");
    only_sent("afterwards");
    signal_line(2'000'000, SIGCHLD, 1, "CLD_EXITED", 8, "delivered", "handled");
    only_sent("a signal that is no fault");
}

TEST_F(FirstFault, OfASignalSomebodySentNothingElseIsSaid) {
    handled();
    sent_by(50, 51, SIGSEGV, SI_USER, "SI_USER");
    EXPECT_EQ(said(), "killed by killer[50], which sent it SIGSEGV");
    sent_by(100, 101, SIGSEGV, -6, "SI_TKILL"); // another thread of its own
    EXPECT_EQ(said(), "it sent SIGSEGV to itself");
}

// --- abort(3)

TEST_F(SignalVerdict, GlibcsAllocatorSaysWhatItFound) {
    struct {
        const char *message, *text;
    } const cases[] = {
        {"free(): double free detected in tcache 2", "double free: "},
        // one of the two, and glibc does not know which
        {"double free or corruption (out)", "heap corrupted or freed twice, found by glibc's allocator: "},
        {"double free or corruption (!prev)", "heap corrupted or freed twice, found by glibc's allocator: "},
        {"free(): invalid pointer", "heap corrupted or a wrong pointer given to it, found by glibc's allocator: "},
        {"munmap_chunk(): invalid pointer",
         "heap corrupted or a wrong pointer given to it, found by glibc's allocator: "},
        {"realloc(): invalid old size", "heap corrupted or a wrong pointer given to it, found by glibc's allocator: "},
        // seen from a chunk that need be none, these two are no neighbours
        {"corrupted size vs. prev_size", "heap corrupted or a wrong pointer given to it, found by glibc's allocator: "},
    };
    for (const auto &each : cases) {
        aborts({"libc.so.6:raise", "libc.so.6:abort", "libc.so.6:malloc_printerr", "libc.so.6:_int_free", "cleanup"},
               each.message);
        EXPECT_EQ(said(), std::string(each.text) + each.message);
        EXPECT_THAT(verdict().claims[0].facts, Contains("noticed in a call by cleanup (x)"));
    }
    aborts({"libc.so.6:raise", "libc.so.6:abort", "libc.so.6:malloc_printerr", "libc.so.6:_int_malloc", "make"},
           "malloc(): corrupted top size");
    EXPECT_EQ(said(), "heap corrupted, found by glibc's allocator: malloc(): corrupted top size");
    // Somebody who talks like it.
    aborts({"libc.so.6:raise", "libc.so.6:abort", "my_allocator"}, "double free detected");
    EXPECT_EQ(said(), "my_allocator() called abort()");
}

TEST_F(SignalVerdict, TheGuardHasChanged) {
    aborts({"libc.so.6:raise", "libc.so.6:abort", "libc.so.6:__libc_message", "libc.so.6:__fortify_fail",
            "libc.so.6:__stack_chk_fail", "copy"});
    EXPECT_EQ(said(), "stack smashing detected: the guard on the stack of copy() had changed");
    aborts({"libc.so.6:raise", "libc.so.6:abort", "report", "libc.so.6:__stack_chk_fail", "copy"});
    EXPECT_EQ(said(), "report() called abort()"); // whatever led there
    aborts({"libc.so.6:raise", "handler", "<signal>", "libc.so.6:__stack_chk_fail", "copy"});
    EXPECT_EQ(said(), "");
}

TEST_F(SignalVerdict, Assertions) {
    const std::string message = "x: a.c:3: f: Assertion `n > 0' failed.";
    aborts({"libc.so.6:raise", "libc.so.6:abort", "libc.so.6:__assert_fail_base", "libc.so.6:__assert_fail", "f"},
           message);
    EXPECT_EQ(said(), "assertion failed: " + message);
    aborts({"libc.so.6:raise", "libc.so.6:abort", "f"}, "Assertion failed in my own words");
    EXPECT_EQ(said(), "f() called abort()");
    aborts({"libc.so.6:raise", "libc.so.6:abort", "handler", "<signal>", "libc.so.6:__assert_fail", "f"});
    EXPECT_EQ(said(), "handler() called abort()");
}

TEST_F(SignalVerdict, FortifiedFunctionsCheckMoreThanSizes) {
    aborts({"libc.so.6:raise", "libc.so.6:abort", "libc.so.6:__libc_message", "libc.so.6:__fortify_fail",
            "libc.so.6:__chk_fail", "libc.so.6:__fdelt_chk", "poll_all"},
           "*** buffer overflow detected ***: terminated");
    EXPECT_EQ(said(), "a check compiled in (_FORTIFY_SOURCE) has failed in __fdelt_chk(): *** buffer overflow detected "
                      "***: terminated");
    aborts({"libc.so.6:raise", "libc.so.6:abort", "check", "libc.so.6:__chk_fail", "f"});
    EXPECT_EQ(said(), "check() called abort()");
    aborts({"libc.so.6:raise", "<signal>", "libc.so.6:__chk_fail", "f"});
    EXPECT_EQ(said(), "");
}

class Terminated : public SignalVerdict {
protected:
    void terminates(const std::vector<std::string> &outside) {
        std::vector<std::string> all{"libc.so.6:raise", "libc.so.6:abort",
                                     "libstdc++.so.6:", "libstdc++.so.6:std::terminate"};
        all.insert(all.end(), outside.begin(), outside.end());
        aborts(all);
    }
};

TEST_F(Terminated, AnUncaughtException) {
    analysis.exception = Exception{"std::runtime_error", "empty"};
    terminates({"libstdc++.so.6:__cxa_throw", "take", "main"});
    EXPECT_EQ(said(), "uncaught C++ exception of type std::runtime_error: empty");
    EXPECT_THAT(verdict().claims[0].facts, Contains("thrown in take (x)"));
    terminates({"libstdc++.so.6:__cxa_rethrow", "again", "main"});
    EXPECT_EQ(said(), "uncaught C++ exception of type std::runtime_error: empty");
}

TEST_F(Terminated, WithoutAnExceptionThereIsNone) {
    terminates({"libstdc++.so.6:__cxa_rethrow", "main"}); // "throw;"
    EXPECT_EQ(said(), "std::terminate() was called");
    terminates({"worker", "libstdc++.so.6:__cxa_throw", "f"}); // called by somebody in between
    EXPECT_EQ(said(), "std::terminate() was called");
}

TEST_F(Terminated, ByTheLanguagesOwnRules) {
    terminates({"libstdc++.so.6:__cxa_pure_virtual", "f", "main"});
    EXPECT_EQ(said(), "a pure virtual function was called by f()");
    terminates({"std::thread::~thread", "stop", "main"});
    EXPECT_EQ(said(), "std::terminate() was called: a std::thread was destroyed that nobody had joined");
    terminates({"std::thread::operator=", "start", "main"});
    EXPECT_EQ(said(), "std::terminate() was called: a std::thread was assigned to that nobody had joined");
}

TEST_F(Terminated, AnExceptionThatMetNoexcept) {
    analysis.exception = Exception{"int", ""};
    terminates({"libstdc++.so.6:__cxa_call_terminate", "libstdc++.so.6:__gxx_personality_v0",
                "libgcc_s.so.1:_Unwind_RaiseException", "libstdc++.so.6:__cxa_throw", "f"});
    EXPECT_EQ(said(), "C++ exception that could not leave a function that lets none out, of type int");
    terminates({"libstdc++.so.6:__cxa_throw", "f"});
    EXPECT_THAT(said(), StartsWith("uncaught"));
    aborts({"libc.so.6:raise", "libc.so.6:abort", "libstdc++.so.6:", "libstdc++.so.6:__gxx_personality_v0",
            "libgcc_s.so.1:_Unwind_RaiseException", "libstdc++.so.6:__cxa_throw", "f"});
    EXPECT_THAT(said(), StartsWith("C++ exception that could not leave"));
}

TEST_F(SignalVerdict, PanicsOfOtherLanguages) {
    aborts({"libc.so.6:abort", "std::sys::pal::unix::abort_internal", "std::panicking::rust_panic_with_hook",
            "core::panicking::panic_fmt", "core::panicking::panic_bounds_check", "shapes::index", "shapes::main"});
    EXPECT_EQ(said(), "Rust panicked in shapes::index(): an index was out of bounds");
    // The first frame of the program's is where the panic's end.
    EXPECT_EQ(to_json(verdict())["claims"][0]["panic"], Json({{"of", "Rust"}, {"frames", 5}}));
    aborts({"runtime.raise.abi0", "runtime.dieFromSignal", "runtime.fatalpanic", "runtime.gopanic", "runtime.panicmem",
            "runtime.sigpanic", "main.null", "main.main"});
    EXPECT_EQ(said(), "Go panicked in main.null(): a nil pointer, or another bad address");
    EXPECT_EQ(to_json(verdict())["claims"][0]["panic"], Json({{"of", "Go"}, {"frames", 6}}));
    aborts({"libc.so.6:abort", "std::sys::pal::unix::abort_internal", "std::process::abort", "shapes::aborts"});
    EXPECT_EQ(said(), "shapes::aborts() called abort()");
    EXPECT_FALSE(to_json(verdict())["claims"][0].contains("panic"));
    for (const char *exported : {"raise_alarm", "abort_transfer", "rust_entry"}) { // which begin like the runtime's
        aborts({"libc.so.6:abort", "rust_panic", "core::panicking::panic_fmt", exported, "shapes::main"});
        EXPECT_EQ(said(), fmt::format("Rust panicked in {}()", exported));
    }
}

// As in a container: SIGABRT does not kill process 1, and abort(3) goes on to its hlt.
TEST_F(SignalVerdict, ProcessOneAborts) {
    const auto halts = [&](int ns_pid, const char *innermost) {
        fault(SIGSEGV, SI_KERNEL, "SI_KERNEL", 0);
        instruction("hlt");
        record["process"]["ns_pid"] = ns_pid;
        frames({innermost, "shapes::aborts", "main"});
    };
    halts(1, "libc.so.6:abort");
    EXPECT_EQ(said(), "shapes::aborts() called abort()");
    EXPECT_THAT(verdict().claims[0].facts, Contains(HasSubstr("SIGABRT does not kill process 1")));
    halts(1, "libc.so.6:__GI_abort");
    EXPECT_EQ(said(), "shapes::aborts() called abort()");
    halts(2, "libc.so.6:abort"); // which dies of SIGABRT
    EXPECT_EQ(said(), "");
    halts(1, "own_halt");
    EXPECT_EQ(said(), "");
    halts(1, "libc.so.6:abort");
    instruction("mov (%rax),%eax");
    EXPECT_EQ(said(), "");
}

TEST_F(SignalVerdict, ClonesThatACompilerHasMadeAreTheFunctions) {
    aborts({"__pthread_kill_implementation.constprop.0", "raise", "abort", "give_up", "main"}); // linked statically
    EXPECT_EQ(said(), "give_up() called abort()");
    aborts({"libc.so.6:raise", "libc.so.6:abort", "give_up.cold", "main"});
    EXPECT_EQ(said(), "give_up() called abort()");
}

TEST_F(SignalVerdict, WhoCalledAbort) {
    aborts({"libc.so.6:raise", "libc.so.6:abort", "give_up", "main"});
    EXPECT_EQ(said(), "give_up() called abort()");
    aborts({"libc.so.6:raise", "give_up", "main"}); // raise(SIGABRT)
    EXPECT_EQ(said(), "");
    aborts({"libc.so.6:raise", "handler", "<signal>", "libc.so.6:abort", "give_up"}); // raised again by a handler of it
    EXPECT_EQ(said(), "");
    sent_by(50, 51, SIGABRT, SI_USER, "SI_USER"); // from outside, while it was about to
    frames({"libc.so.6:abort", "give_up"});
    EXPECT_EQ(said(), "killed by killer[50], which sent it SIGABRT");
}

// --- those that live on

TEST_F(SignalVerdict, WaitsAndSlowCalls) {
    image.signal = 0;
    record["kind"] = "blocked";
    record["blocked"] = {{"elapsed_ns", 400'000'000},
                         {"state", "interruptible"},
                         {"syscall", "read"},
                         {"in_flight", false},
                         {"waker", {{"comm", "writer"}, {"pid", 9}, {"tid", 9}}}};
    EXPECT_EQ(said(), "thread 100 was blocked for 400 ms in read(), until writer[9] woke it");
    record["blocked"]["waker"]["in_interrupt"] = true; // whoever ran then has nothing to do with it
    EXPECT_EQ(said(), "thread 100 was blocked for 400 ms in read()");
    record["blocked"]["waker"] = nullptr;
    record["blocked"]["in_flight"] = true;
    EXPECT_EQ(said(), "thread 100 has been blocked for 400 ms in read()");

    record["kind"] = "latency";
    const auto spent = [&](std::uint64_t running, std::uint64_t blocked, std::uint64_t in_read) {
        record["latency"] = {{"elapsed_ns", 100'000'000},
                             {"spent", {{"running_ns", running}, {"runnable_ns", 0}, {"blocked_ns", blocked}}},
                             {"calls", {{"by_name", {{{"name", "read"}, {"count", 1}, {"ns", in_read}}}}}}};
    };
    spent(10'000'000, 90'000'000, 95'000'000);
    EXPECT_EQ(said(), "90 ms of the 100 ms went into blocked, mostly in read()");
    spent(50'000'000, 50'000'000, 50'000'000); // it may have computed within the call, and waited outside of it
    EXPECT_THAT(said(), Not(HasSubstr("mostly")));
    spent(40'000'000, 60'000'000, 60'000'000);
    EXPECT_THAT(said(), Not(HasSubstr("mostly")));
    spent(40'000'000, 40'000'000, 0); // no part has most of it
    EXPECT_EQ(said(), "");
}

} // namespace
} // namespace incident::postmortem::test
