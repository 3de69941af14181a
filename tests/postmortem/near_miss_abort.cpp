// abort(3) by the process itself, and facts close to it.
#include "near_miss.h"

namespace incident::postmortem::test {

namespace {

using S = Sentence;

constexpr auto *assertion = "x: a.c:3: f: Assertion `n > 0' failed.";

// One of glibc's checks of its heap, in a call of cleanup().
void checked(LabEvidence &f, const std::string &message,
             const std::vector<std::string> &allocator = {"libc.so.6:_int_free", "libc.so.6:free"}) {
    std::vector<std::string> names{"libc.so.6:raise", "libc.so.6:abort", "libc.so.6:malloc_printerr"};
    names.insert(names.end(), allocator.begin(), allocator.end());
    names.insert(names.end(), {"cleanup", "main"});
    f.aborts(names, message);
}

void smashed(LabEvidence &f) {
    f.aborts({"libc.so.6:raise", "libc.so.6:abort", "libc.so.6:__libc_message", "libc.so.6:__fortify_fail",
              "libc.so.6:__stack_chk_fail", "copy"});
}

// No frame of glibc's has a name but abort(3).
void nameless(LabEvidence &f, const std::string &message) {
    f.aborts({"libc.so.6:raise", "libc.so.6:abort", "libc.so.6:", "libc.so.6:", "f"}, message);
}

void asserts(LabEvidence &f) {
    f.aborts({"libc.so.6:raise", "libc.so.6:abort", "libc.so.6:__assert_fail_base", "libc.so.6:__assert_fail", "f"},
             assertion);
}

void finds_a_mutex_damaged(LabEvidence &f) {
    f.aborts({"libc.so.6:raise", "libc.so.6:abort", "libc.so.6:__assert_fail_base", "libc.so.6:__assert_fail",
              "libc.so.6:___pthread_mutex_lock", "take_lock", "main"},
             "x: pthread_mutex_lock.c:94: ___pthread_mutex_lock: Assertion `mutex->__data.__owner == 0' failed.");
}

void fortified(LabEvidence &f) {
    f.aborts({"libc.so.6:raise", "libc.so.6:abort", "libc.so.6:__libc_message", "libc.so.6:__fortify_fail",
              "libc.so.6:__chk_fail", "libc.so.6:__memcpy_chk", "f"},
             "*** buffer overflow detected ***: terminated");
}

void gives_up(LabEvidence &f) {
    f.aborts({"libc.so.6:raise", "libc.so.6:abort", "give_up", "main"});
}

void terminates(LabEvidence &f, const std::vector<std::string> &outside) {
    std::vector<std::string> names{"libc.so.6:raise", "libc.so.6:abort",
                                   "libstdc++.so.6:", "libstdc++.so.6:std::terminate"};
    names.insert(names.end(), outside.begin(), outside.end());
    f.aborts(names);
}

void pure_called(LabEvidence &f) {
    terminates(f, {"libstdc++.so.6:__cxa_pure_virtual", "call_it", "main"});
}

void uncaught(LabEvidence &f) {
    f.analysis.exception = Exception{"std::runtime_error", "empty"};
    terminates(f, {"libstdc++.so.6:__cxa_throw", "take", "main"});
}

void kept_in(LabEvidence &f) {
    f.analysis.exception = Exception{"int", ""};
    terminates(f, {"libstdc++.so.6:__cxa_call_terminate", "libstdc++.so.6:__gxx_personality_v0",
                   "libgcc_s.so.1:_Unwind_RaiseException", "libstdc++.so.6:__cxa_throw", "f"});
}

void rust_panics(LabEvidence &f) {
    f.aborts({"libc.so.6:raise", "libc.so.6:abort", "std::sys::unix::abort_internal", "__rust_start_panic",
              "rust_panic", "std::panicking::rust_panic_with_hook", "core::panicking::panic_fmt",
              "core::panicking::panic_bounds_check", "shapes::index", "shapes::main"});
}

void go_panics(LabEvidence &f) {
    f.aborts({"runtime.raise.abi0", "runtime.dieFromSignal", "runtime.sigtramp.abi0", "<signal>", "runtime.raise.abi0",
              "runtime.dieFromSignal", "runtime.crash", "runtime.fatalpanic", "runtime.gopanic", "runtime.goPanicIndex",
              "main.index", "main.main"});
}

void go_gives_up(LabEvidence &f) {
    f.analysis.go_fatal_error = "all goroutines are asleep - deadlock!";
    f.aborts({"runtime.raise.abi0", "runtime.dieFromSignal", "runtime.sigfwdgo", "runtime.sigtrampgo",
              "runtime.sigtramp.abi0", "<signal>", "runtime.raise.abi0", "runtime.dieFromSignal", "runtime.crash",
              "runtime.fatalthrow.func1", "runtime.fatalthrow", "runtime.fatal", "runtime.checkdead"});
}

// The heap was recorded, and what is being freed is alive there.
void recorded(LabEvidence &f) {
    checked(f, "double free or corruption (out)");
    f.heap.emplace().malloc(1000, 0x50000, 24).free(9000, 0x50000, 5);
}

const std::vector<NearMiss> of_another_call = {
    {"the message is an earlier call's: this one is the program's own",
     [](LabEvidence &f) {
         f.frames({"libc.so.6:raise", "libc.so.6:abort", "give_up", "main"});
     }},
    {"raised by the program without abort(3)",
     [](LabEvidence &f) {
         f.frames({"libc.so.6:raise", "give_up", "main"});
     }},
    {"a handler of something else raised it",
     [](LabEvidence &f) {
         f.frames({"libc.so.6:raise", "handler", "<signal>", "use", "main"});
     }},
    {"somebody sent it", [](LabEvidence &f) { f.sent_by(50, 51, SIGABRT, SI_USER, "SI_USER"); }},
};

} // namespace

std::vector<SentenceCase> abort_cases() {
    return {
        {S::stack_smashed, smashed,
         and_also(of_another_call, {{"which function's is not known",
                                     [](LabEvidence &f) { f.analysis.threads[0].frames.pop_back(); }}})},
        {S::stack_smashed_somewhere, [](LabEvidence &f) { nameless(f, "*** stack smashing detected ***: terminated"); },
         and_also(
             of_another_call,
             {{"another message", [](LabEvidence &f) { f.image.abort_message = "*** buffer overflow detected ***"; }},
              {"no frames, and the process has aborted before, and come back from its handler",
               [](LabEvidence &f) {
                   f.frames({});
                   f.signal_line(5'000, SIGABRT, -6, "SI_TKILL", {}, "delivered", "handled");
               }}})},
        {S::assertion_failed, asserts,
         and_also(of_another_call, {{"the assertion was interrupted by a signal, whose handler aborts",
                                     [](LabEvidence &f) {
                                         f.frames({"libc.so.6:raise", "libc.so.6:abort", "handler", "<signal>",
                                                   "libc.so.6:__assert_fail", "f"});
                                     }}})},
        {S::mutex_damaged, finds_a_mutex_damaged,
         and_also(of_another_call,
                  {{"an assertion of the program's own, in a function that is named like it",
                    [](LabEvidence &f) { f.image.abort_message = assertion; }},
                   {"the program asserts something of that name elsewhere",
                    [](LabEvidence &f) {
                        f.aborts({"libc.so.6:raise", "libc.so.6:abort", "libc.so.6:__assert_fail", "check", "main"},
                                 f.image.abort_message);
                    }},
                   {"the message was not captured", [](LabEvidence &f) { f.image.abort_message.clear(); }}})},
        {S::glibcs_words,
         asserts,
         {{"the message was not captured", [](LabEvidence &f) { f.image.abort_message.clear(); }},
          {"the message is an earlier call's",
           [](LabEvidence &f) {
               f.frames({"libc.so.6:raise", "libc.so.6:abort", "give_up", "main"});
           }},
          {"the message is an earlier call's: std::terminate() has none",
           [](LabEvidence &f) {
               terminates(f, {"main"});
               f.image.abort_message = assertion;
           }}}},
        {S::allocator_double_free,
         [](LabEvidence &f) { checked(f, "free(): double free detected in tcache 2"); },
         {{"it may be one", [](LabEvidence &f) { checked(f, "double free or corruption (!prev)"); }},
          {"a program that talks like it",
           [](LabEvidence &f) {
               f.frames({"libc.so.6:raise", "libc.so.6:abort", "cleanup"});
           }},
          {"the message was not captured", [](LabEvidence &f) { checked(f, ""); }}}},
        {S::allocator_corrupted_or_twice,
         [](LabEvidence &f) { checked(f, "double free or corruption (out)"); },
         {{"the recorded heap has it as alive, which leaves one of the two", recorded},
          {"another message", [](LabEvidence &f) { checked(f, "free(): invalid pointer"); }},
          {"a program that talks like it",
           [](LabEvidence &f) {
               f.frames({"libc.so.6:raise", "libc.so.6:abort", "cleanup"});
           }}}},
        {S::allocator_corrupted_or_wrong,
         [](LabEvidence &f) { checked(f, "free(): invalid pointer"); },
         {{"no pointer was given",
           [](LabEvidence &f) {
               checked(f, "malloc(): corrupted top size", {"libc.so.6:_int_malloc", "libc.so.6:malloc"});
           }},
          {"it may have been freed twice as well",
           [](LabEvidence &f) { checked(f, "double free or corruption (out)"); }},
          {"the recorded heap has what is freed as alive",
           [](LabEvidence &f) { f.heap.emplace().malloc(1000, 0x50000, 24).free(9000, 0x50000, 5); }}}},
        {S::allocator_any,
         [](LabEvidence &f) { checked(f, ""); },
         {{"the message says which", [](LabEvidence &f) { f.image.abort_message = "free(): invalid pointer"; }},
          {"no check of the allocator's", gives_up}}},
        {S::allocator_corrupted,
         [](LabEvidence &f) {
             checked(f, "malloc(): corrupted top size", {"libc.so.6:_int_malloc", "libc.so.6:malloc"});
         },
         {{"the message was not captured", [](LabEvidence &f) { f.image.abort_message.clear(); }},
          {"what seem to be neighbours of what was given to free()",
           [](LabEvidence &f) { checked(f, "corrupted size vs. prev_size"); }},
          {"given to realloc(), of which the heap has no record before it returns",
           [](LabEvidence &f) {
               recorded(f);
               checked(f, "double free or corruption (out)", {"libc.so.6:_int_free", "libc.so.6:realloc"});
           }},
          {"calls were not recorded",
           [](LabEvidence &f) {
               recorded(f);
               f.heap->snapshot.unfinished = 1;
           }}}},
        {S::fortify_failed, fortified,
         and_also(of_another_call,
                  {{"by which the stack's guard is reported, too", smashed},
                   {"called by one that aborts by itself",
                    [](LabEvidence &f) {
                        f.frames({"libc.so.6:raise", "libc.so.6:abort", "check", "libc.so.6:__chk_fail"});
                    }}})},
        {S::terminate_called,
         [](LabEvidence &f) {
             terminates(f, {"worker", "main"});
         },
         and_also(of_another_call,
                  {{"an exception was thrown just outside of it",
                    [](LabEvidence &f) {
                        terminates(f, {"libstdc++.so.6:__cxa_throw", "f"});
                    }},
                   {"a handler of std::terminate()'s that aborts by itself",
                    [](LabEvidence &f) {
                        f.frames({"libc.so.6:raise", "libc.so.6:abort", "own", "libstdc++.so.6:std::terminate", "f"});
                    }}})},
        {S::pure_virtual, pure_called,
         and_also(
             of_another_call,
             {{"an exception was thrown in between",
               [](LabEvidence &f) {
                   terminates(f, {"libstdc++.so.6:__cxa_throw", "libstdc++.so.6:__cxa_pure_virtual", "f"});
               }},
              {"by whom is not known", [](LabEvidence &f) { terminates(f, {"libstdc++.so.6:__cxa_pure_virtual"}); }},
              {"a handler of std::terminate()'s that aborts by itself",
               [](LabEvidence &f) {
                   f.frames({"libc.so.6:raise", "libc.so.6:abort", "own", "libstdc++.so.6:std::terminate",
                             "libstdc++.so.6:__cxa_pure_virtual", "f"});
               }}})},
        {S::joinable_thread,
         [](LabEvidence &f) {
             terminates(f, {"std::thread::~thread", "stop", "main"});
         },
         and_also(of_another_call, {{"called by something that the destructor of another thing called",
                                     [](LabEvidence &f) {
                                         terminates(f, {"give_up", "std::thread::~thread", "main"});
                                     }},
                                    {"another class of that name",
                                     [](LabEvidence &f) {
                                         terminates(f, {"own::thread::~thread", "main"});
                                     }}})},
        {S::exception_uncaught,
         uncaught,
         {{"\"throw;\" without one",
           [](LabEvidence &f) {
               f.analysis.exception.reset();
               terminates(f, {"libstdc++.so.6:__cxa_rethrow", "main"});
           }},
          {"called by somebody in between",
           [](LabEvidence &f) {
               terminates(f, {"worker", "libstdc++.so.6:__cxa_throw", "take"});
           }},
          {"it was being unwound", kept_in}}},
        {S::exception_kept_in,
         kept_in,
         {{"nobody was there to catch it", uncaught},
          {"none was thrown",
           [](LabEvidence &f) {
               terminates(f, {"libstdc++.so.6:__cxa_pure_virtual", "f", "main"});
           }}}},
        {S::exception_type,
         uncaught,
         {{"its type is not known", [](LabEvidence &f) { f.analysis.exception->type.clear(); }},
          {"none was thrown: one is under way elsewhere",
           [](LabEvidence &f) {
               terminates(f, {"worker", "main"});
           }}}},
        {S::exception_what,
         uncaught,
         {{"it has no text", [](LabEvidence &f) { f.analysis.exception->what.clear(); }},
          {"none was thrown: one is under way elsewhere",
           [](LabEvidence &f) {
               terminates(f, {"worker", "main"});
           }}}},
        {S::rust_panicked, rust_panics,
         and_also(of_another_call,
                  {{"a function of the program has no name, and may be the one",
                    [](LabEvidence &f) {
                        f.frames({"libc.so.6:abort", "rust_panic", "core::panicking::panic_fmt", "", "shapes::main"});
                    }},
                   {"the runtime aborts without a panic",
                    [](LabEvidence &f) {
                        f.frames({"libc.so.6:abort", "std::process::abort", "f"});
                    }},
                   {"the panic calls back, and that aborts",
                    [](LabEvidence &f) {
                        f.frames({"libc.so.6:abort", "hook", "std::panicking::rust_panic_with_hook", "f"});
                    }}})},
        {S::go_panicked, go_panics,
         and_also(of_another_call, {{"the runtime gives up by itself",
                                     [](LabEvidence &f) {
                                         f.frames({"runtime.raise.abi0", "runtime.dieFromSignal", "runtime.throw",
                                                   "runtime.checkdead", "main.f"});
                                     }}})},
        {S::go_gave_up, go_gives_up,
         and_also(of_another_call,
                  {{"a panic", go_panics},
                   {"the runtime dies of a signal that it got",
                    [](LabEvidence &f) {
                        f.frames({"runtime.raise.abi0", "runtime.dieFromSignal", "runtime.crash", "runtime.sighandler",
                                  "runtime.fatalthrow"});
                    }},
                   {"a function of the program of that name",
                    [](LabEvidence &f) {
                        f.frames({"runtime.raise.abi0", "runtime.dieFromSignal", "runtime.crash",
                                  "example.com/runtime.fatalthrow", "main.main"});
                    }},
                   {"it is not known who called the function that dies",
                    [](LabEvidence &f) {
                        f.frames({"runtime.raise.abi0", "runtime.dieFromSignal", "", "runtime.fatalthrow"});
                    }}})},
        {S::go_says,
         go_gives_up,
         {{"its words could not be read", [](LabEvidence &f) { f.analysis.go_fatal_error.clear(); }},
          {"it panicked", [](LabEvidence &f) { go_panics(f); }}}},
        {S::panic_reason,
         rust_panics,
         {{"which is not known",
           [](LabEvidence &f) {
               f.frames({"libc.so.6:abort", "std::panicking::begin_panic_handler", "core::panicking::panic_fmt", "f"});
           }},
          {"further out than the panic",
           [](LabEvidence &f) {
               f.frames({"libc.so.6:abort", "core::panicking::panic_fmt", "f", "core::panicking::panic_bounds_check"});
           }}}},
        {S::abort_called,
         gives_up,
         {{"raise(SIGABRT)",
           [](LabEvidence &f) {
               f.frames({"libc.so.6:raise", "give_up", "main"});
           }},
          {"raised by one that was called from a function of that name",
           [](LabEvidence &f) {
               f.frames({"libc.so.6:raise", "give_up", "abort", "main"});
           }},
          {"raised again by a handler of it",
           [](LabEvidence &f) {
               f.frames({"libc.so.6:raise", "handler", "<signal>", "libc.so.6:abort", "give_up"});
           }},
          {"somebody sent it", [](LabEvidence &f) { f.sent_by(50, 51, SIGABRT, SI_USER, "SI_USER"); }}}},
    };
}

} // namespace incident::postmortem::test
