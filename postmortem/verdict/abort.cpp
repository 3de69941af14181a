// Judges SIGABRT from the process's own abort(3): an assertion, one of glibc's checks, an exception that nobody caught.
#include "postmortem/verdict/evidence.h"
#include "postmortem/verdict/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

namespace incident::postmortem {

namespace {

constexpr std::string_view abort_itself[] = {"abort", "__GI_abort"};
// The functions between the one that aborts and the kernel, as glibc 2.36 and close versions name them, and Rust's.
constexpr std::string_view aborting[] = {"abort",
                                         "__GI_abort",
                                         "raise",
                                         "__GI_raise",
                                         "gsignal",
                                         "pthread_kill",
                                         "__pthread_kill",
                                         "__pthread_kill_implementation",
                                         "__pthread_kill_internal",
                                         "__GI___pthread_kill",
                                         "__libc_message",
                                         "__kernel_vsyscall", // i386's way into the kernel, in the vdso
                                         "std::process::abort",
                                         "std::sys::abort_internal",
                                         "std::sys::unix::abort_internal",
                                         "std::sys::pal::unix::abort_internal"};
constexpr std::string_view asserting[] = {"__assert_fail", "__GI___assert_fail", "__assert_fail_base", "__assert",
                                          "__assert_perror_fail"};
constexpr std::string_view locking[] = {"pthread_mutex_lock",
                                        "__pthread_mutex_lock",
                                        "___pthread_mutex_lock",
                                        "__pthread_mutex_lock_full",
                                        "__pthread_mutex_cond_lock",
                                        "__pthread_mutex_cond_lock_full",
                                        "pthread_mutex_trylock",
                                        "__pthread_mutex_trylock",
                                        "___pthread_mutex_trylock",
                                        "__pthread_mutex_timedlock",
                                        "__pthread_mutex_clocklock_common"};
constexpr std::string_view stack_checking[] = {"__stack_chk_fail", "__GI___stack_chk_fail"};
constexpr std::string_view fortifying[] = {"__chk_fail", "__GI___chk_fail", "__fortify_fail", "__GI___fortify_fail"};
constexpr std::string_view heap_checking[] = {"malloc_printerr"};
// The personality routine aborts in no other way than by std::terminate(), which may be nameless there.
constexpr std::string_view terminating[] = {"std::terminate", "__cxxabiv1::__terminate", "__gxx_personality_v0"};
constexpr std::string_view pure[] = {"__cxa_pure_virtual", "__cxxabiv1::__cxa_pure_virtual"};
constexpr std::string_view throwing[] = {"__cxa_throw", "__cxxabiv1::__cxa_throw"};
constexpr std::string_view rethrowing[] = {"__cxa_rethrow", "__cxxabiv1::__cxa_rethrow", "std::rethrow_exception"};

std::string_view file_of(const Frame &frame) {
    return std::string_view(frame.module).substr(frame.module.rfind('/') + 1);
}

std::string_view without_underscores(std::string_view name) {
    return name.substr(std::min(name.find_first_not_of('_'), name.size()));
}

bool is_glibcs(const Frame &frame) {
    return file_of(frame).starts_with("libc.so") || file_of(frame).starts_with("libc-");
}

// True for a frame on the way from the abort to the kernel: it has such a name, or is in a library and has none.
bool is_runtime(const Frame &frame) {
    const std::string_view name = source_name(frame), file = file_of(frame);
    return name.empty() || is_one_of(frame, aborting) || name.starts_with("__assert") || name.starts_with("_Unwind_") ||
           name.starts_with("__gxx_") || name.starts_with("__cxxabiv1::") || name.starts_with("__cxa_") ||
           name.starts_with("__gnu_cxx::__verbose_terminate_handler") || is_glibcs(frame) ||
           file.starts_with("libstdc++.so") || file.starts_with("libgcc_s.so");
}

class Abort {
public:
    explicit Abort(const Evidence &evidence) : e_(evidence) {}

    std::optional<Claim> judge() const {
        const ThreadStack *stack = e_.stack();
        // The innermost that reports is what aborted: further out are those that led there, and what a signal handler
        // interrupted has not aborted at all.
        for (std::size_t i = 0; stack && i < stack->frames.size() && !stack->frames[i].signal_frame; ++i) {
            const Frame &frame = stack->frames[i];
            if (is_one_of(frame, stack_checking))
                return stack_smashed(frame);
            if (is_one_of(frame, asserting))
                return assertion(frame);
            if (is_one_of(frame, heap_checking))
                return heap(frame);
            if (is_one_of(frame, fortifying)) { // by which __stack_chk_fail() reports, too
                const Frame *reporter = e_.caller_of(frame, fortifying);
                return reporter && is_one_of(*reporter, stack_checking) ? stack_smashed(*reporter) : fortified(frame);
            }
            if (is_one_of(frame, terminating))
                return terminated(i);
            if (!is_runtime(frame))
                break;
        }
        return unreported();
    }

private:
    const std::string &message() const { return e_.image.abort_message; }

    template <Sentence said, typename... Args> Claim claim(const Args &...args) const {
        auto claim = Claim::of<said>(args...);
        claim.facts = {e_.how_it_aborted()};
        if (!message().empty())
            claim.facts.push_back(fmt::format("glibc's abort message: {}", message()));
        return claim;
    }

    void add_message(Claim &claim) const {
        if (!message().empty())
            claim.add<Sentence::glibcs_words>(message());
    }

    // The outermost of the frames that report, then the function they report about.
    void blame(Claim &claim, const Frame &frame, Names reporters, std::string_view what) const {
        if (const Frame *caller = e_.caller_of(frame, reporters))
            claim.facts.push_back(fmt::format("{} {}", what, place_text(*caller)));
    }

    // The verdict does not say what changed the guard. It may be a write past a buffer of that function, of one that it
    // called, or any other write.
    Claim stack_smashed(const Frame &frame) const {
        const Frame *caller = e_.caller_of(frame, stack_checking);
        Claim made = caller ? claim<Sentence::stack_smashed>(function_text(*caller))
                            : claim<Sentence::stack_smashed_somewhere>();
        blame(made, frame, stack_checking, "__stack_chk_fail was called by");
        return made;
    }

    // glibc asserts what its own calls have left in a mutex (nptl/pthread_mutex_lock.c and others).
    Claim assertion(const Frame &frame) const {
        const Frame *by = e_.caller_of(frame, asserting);
        if (by && is_one_of(*by, locking) && message().find("Assertion `mutex->__data.") != std::string::npos) {
            Claim made = claim<Sentence::mutex_damaged>(std::string(without_underscores(by->symbol)));
            blame(made, *by, locking, "called by");
            return made;
        }
        Claim made = claim<Sentence::assertion_failed>();
        add_message(made);
        blame(made, frame, asserting, "asserted in");
        return made;
    }

    // True if the recorded heap has missed nothing and says that the freed address was allocated.
    bool freed_alive() const {
        const auto *last = e_.free_under_way();
        return last && !(last->flags & bpf::HEAP_UNKNOWN) && e_.heap->heap.unrecorded() == 0;
    }

    // glibc's message leaves several causes open (malloc/malloc.c). A double free is certain only if glibc has this
    // very chunk among its free chunks. If it finds something wrong with a chunk that was given to free() or realloc(),
    // or with its neighbours, the chunk may be overwritten, or may be no chunk at all.
    Claim what_heap() const {
        constexpr std::string_view given[] = {"_int_free",    "free",        "__libc_free",    "__GI___libc_free",
                                              "_int_realloc", "realloc",     "__libc_realloc", "__GI___libc_realloc",
                                              "munmap_chunk", "mremap_chunk"};
        const std::string &text = message();
        if (text.empty()) // it was not captured
            return claim<Sentence::allocator_any>();
        if (text.find("double free detected") != std::string::npos)
            return claim<Sentence::allocator_double_free>();
        if (freed_alive())
            return claim<Sentence::allocator_corrupted>();
        if (text.find("double free or corruption") != std::string::npos)
            return claim<Sentence::allocator_corrupted_or_twice>();
        const bool of_pointer = e_.frame_of(given) || text.starts_with("free()") || text.starts_with("realloc()") ||
                                text.starts_with("munmap_chunk()") || text.starts_with("mremap_chunk()");
        return of_pointer ? claim<Sentence::allocator_corrupted_or_wrong>() : claim<Sentence::allocator_corrupted>();
    }

    // The caller that is not the allocator's own.
    Claim heap(const Frame &frame) const {
        constexpr std::string_view allocator[] = {"malloc_printerr",
                                                  "_int_free",
                                                  "_int_malloc",
                                                  "_int_realloc",
                                                  "_int_memalign",
                                                  "malloc_consolidate",
                                                  "unlink_chunk",
                                                  "tcache_double_free_verify",
                                                  "sysmalloc",
                                                  "munmap_chunk",
                                                  "mremap_chunk",
                                                  "free_perturb",
                                                  "__libc_malloc",
                                                  "__libc_free",
                                                  "__libc_realloc",
                                                  "__libc_calloc",
                                                  "__GI___libc_free",
                                                  "__GI___libc_malloc",
                                                  "__GI___libc_realloc",
                                                  "tcache_get",
                                                  "systrim",
                                                  "_int_free_merge_chunk",
                                                  "_int_free_create_chunk",
                                                  "operator delete",
                                                  "operator delete[]",
                                                  "operator new",
                                                  "operator new[]",
                                                  "free",
                                                  "malloc",
                                                  "realloc",
                                                  "calloc",
                                                  "_int_free_maybe_consolidate"};
        Claim made = what_heap();
        add_message(made);
        blame(made, frame, allocator, "noticed in a call by");
        return made;
    }

    // __chk_fail() is the end of checks of many kinds: sizes of copies, of descriptor sets, of format strings.
    Claim fortified(const Frame &frame) const {
        const Frame *caller = e_.caller_of(frame, fortifying);
        Claim made = claim<Sentence::fortify_failed>(caller ? function_text(*caller) : "a fortified function");
        add_message(made);
        if (caller)
            blame(made, *caller, fortifying, "called by");
        return made;
    }

    // The frame next outside of std::terminate() that is not the C++ library's.
    static const Frame *thrower_outside(const ThreadStack &stack, std::size_t terminate, bool &unwinding) {
        for (std::size_t i = terminate + 1; i < stack.frames.size(); ++i) {
            const Frame &frame = stack.frames[i];
            if (is_one_of(frame, throwing) || is_one_of(frame, rethrowing))
                return &frame;
            const std::string_view name = frame.symbol;
            unwinding = unwinding || name.starts_with("__gxx_personality") || name.ends_with("__cxa_call_terminate");
            if (!is_runtime(frame) && !is_one_of(frame, terminating))
                return nullptr;
        }
        return nullptr;
    }

    // std::thread's destructor and assignment call std::terminate() in no other case ([thread.thread.destr]).
    static std::string_view what_of_thread(const Frame &frame) {
        return frame.symbol == "std::thread::~thread"     ? "destroyed"
               : frame.symbol == "std::thread::operator=" ? "assigned to"
                                                          : "";
    }

    Claim terminated(std::size_t at) const {
        const Frame *caller = e_.caller_of(e_.stack()->frames[at], terminating);
        if (caller && is_one_of(*caller, pure))
            if (const Frame *function = e_.caller_of(*caller, pure)) {
                Claim made = claim<Sentence::pure_virtual>(function_text(*function));
                blame(made, *caller, pure, "__cxa_pure_virtual was called by");
                return made;
            }
        Claim made = of_exception(at);
        if (const std::string_view what = caller ? what_of_thread(*caller) : ""; !what.empty()) {
            made.add<Sentence::joinable_thread>(what);
            made.facts.push_back("std::terminate() was called by " + place_text(*caller));
        }
        return made;
    }

    Claim of_exception(std::size_t at) const {
        const ThreadStack &stack = *e_.stack();
        bool unwinding = stack.frames[at].symbol == "__gxx_personality_v0";
        const Frame *thrower = thrower_outside(stack, at, unwinding);
        const auto &exception = e_.analysis.exception;
        const bool known = exception && !exception->type.empty();
        Claim made;
        // "throw;" with nothing to throw goes the same way as one that is thrown on and not caught.
        if (!thrower || (is_one_of(*thrower, rethrowing) && !known)) {
            made = claim<Sentence::terminate_called>();
            if (thrower)
                made.facts.push_back("by " + place_text(*thrower) +
                                     ": an exception thrown on that nobody caught, or none there to be thrown on");
        } else {
            made = unwinding ? claim<Sentence::exception_kept_in>() : claim<Sentence::exception_uncaught>();
            if (known)
                made.add<Sentence::exception_type>(unwinding ? "," : "", exception->type);
            if (exception && !exception->what.empty())
                made.add<Sentence::exception_what>(exception->what);
        }
        if (thrower) {
            std::vector<std::string_view> both(std::begin(throwing), std::end(throwing));
            both.insert(both.end(), std::begin(rethrowing), std::end(rethrowing));
            blame(made, *thrower, both, is_one_of(*thrower, rethrowing) ? "thrown on in" : "thrown in");
        }
        made.facts.push_back("on the stack: " + place_text(stack.frames[at]));
        return made;
    }

    // A handler of SIGABRT may have come back, by longjmp(3): then the words are those of an earlier abort(3).
    bool aborted_before() const {
        return std::ranges::any_of(signal_lines(e_.bundle), [](const SignalLine &line) {
            return line.number == SIGABRT && line.delivered && !line.trigger;
        });
    }

    // A claim from glibc's own message, about the call that aborts according to the stack.
    std::optional<Claim> by_words() const {
        if (message().find("*** stack smashing detected ***") != std::string::npos)
            return claim<Sentence::stack_smashed_somewhere>();
        if (message().find(": Assertion `") == std::string::npos || !message().ends_with("' failed."))
            return std::nullopt;
        Claim made = claim<Sentence::assertion_failed>();
        add_message(made);
        return made;
    }

    // Without names for the frames glibc's own words must do, and they are quite its own.
    std::optional<Claim> by_message() const { return aborted_before() ? std::nullopt : by_words(); }

    // The frame of abort(3), with nothing but the runtime inside of it; null: none.
    const Frame *abort_from(std::size_t at) const {
        const auto &frames = e_.stack()->frames;
        for (; at < frames.size() && !frames[at].signal_frame && is_runtime(frames[at]); ++at)
            if (is_one_of(frames[at], abort_itself))
                return &frames[at];
        return nullptr;
    }

    // abort(3) says nothing: the message is its caller's in glibc, or an earlier one's.
    std::optional<Claim> unreported() const {
        const ThreadStack *stack = e_.stack();
        if (!stack || stack->frames.empty())
            return by_message();
        const auto &frames = stack->frames;
        if (const Frame *abort = abort_from(0)) {
            const Frame *caller = e_.caller_of(*abort, aborting);
            if (!caller)
                return by_message();
            const bool glibcs = is_glibcs(*caller);
            auto words = glibcs ? by_words() : std::nullopt;
            return words ? words : called_abort(*caller, glibcs);
        }
        // A handler of SIGABRT that raises it again, while abort(3) has not come back.
        const auto trampoline = std::ranges::find_if(frames, &Frame::signal_frame);
        if (trampoline != frames.end()) {
            const Frame *abort = abort_from(static_cast<std::size_t>(trampoline - frames.begin()) + 1);
            const Frame *caller = abort ? e_.caller_of(*abort, aborting) : nullptr;
            return caller && is_glibcs(*caller) ? by_words() : std::nullopt;
        }
        return std::ranges::all_of(frames, is_runtime) ? by_message() : std::nullopt;
    }

    Claim called_abort(const Frame &caller, bool glibcs) const {
        Claim made = claim<Sentence::abort_called>(function_text(caller));
        if (glibcs)
            add_message(made);
        else
            made.facts.resize(1); // the message is another call's
        made.facts.push_back("on the stack: abort(), called by " + place_text(caller));
        return made;
    }

    const Evidence &e_;
};

} // namespace

std::optional<Claim> judge_abort(const Evidence &evidence) {
    if (!evidence.aborted_itself() && !evidence.halted_in_abort())
        return std::nullopt;
    return Abort(evidence).judge();
}

} // namespace incident::postmortem
