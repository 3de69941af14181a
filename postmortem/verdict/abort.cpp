// SIGABRT by the process's own abort(3): an assertion, one of glibc's checks, an exception nobody caught.
#include "postmortem/verdict/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

namespace incident::postmortem {

namespace {

constexpr std::string_view abort_itself[] = {"abort", "__GI_abort"};
// What stands between whoever aborts and the kernel, as glibc 2.36 and its neighbours name it.
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
                                         "__libc_message"};
constexpr std::string_view asserting[] = {"__assert_fail", "__GI___assert_fail", "__assert_fail_base", "__assert",
                                          "__assert_perror_fail"};
constexpr std::string_view stack_checking[] = {"__stack_chk_fail", "__GI___stack_chk_fail"};
constexpr std::string_view fortifying[] = {"__chk_fail", "__GI___chk_fail", "__fortify_fail", "__GI___fortify_fail"};
constexpr std::string_view heap_checking[] = {"malloc_printerr"};
// The personality routine aborts in no other way than by std::terminate(), which may be nameless there.
constexpr std::string_view terminating[] = {"std::terminate", "__cxxabiv1::__terminate", "__gxx_personality_v0"};
constexpr std::string_view throwing[] = {"__cxa_throw", "__cxxabiv1::__cxa_throw"};
constexpr std::string_view rethrowing[] = {"__cxa_rethrow", "__cxxabiv1::__cxa_rethrow", "std::rethrow_exception"};

bool is_one_of(const Frame &frame, Names names) {
    return std::ranges::find(names, frame.symbol) != names.end();
}

// What aborting goes through on its way to the kernel: named as such, or nameless in a library.
bool is_runtime(const Frame &frame) {
    const std::string_view name = frame.symbol;
    const std::string_view file = std::string_view(frame.module).substr(frame.module.rfind('/') + 1);
    return name.empty() || is_one_of(frame, aborting) || name.starts_with("__assert") || name.starts_with("_Unwind_") ||
           name.starts_with("__gxx_") || name.starts_with("__cxxabiv1::") || name.starts_with("__cxa_") ||
           name.starts_with("__gnu_cxx::__verbose_terminate_handler") || file.starts_with("libc.so") ||
           file.starts_with("libc-") || file.starts_with("libstdc++.so") || file.starts_with("libgcc_s.so");
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
        return by_message();
    }

private:
    const std::string &message() const { return e_.image.abort_message; }

    Claim claim(std::string text) const {
        Claim claim{std::move(text), {fmt::format("it sent itself SIGABRT ({})", e_.signal()["code_name"].text())}};
        if (!message().empty())
            claim.facts.push_back(fmt::format("glibc's abort message: {}", message()));
        return claim;
    }

    // The outermost of the frames that report, then the function they report about.
    void blame(Claim &claim, const Frame &frame, Names reporters, std::string_view what) const {
        if (const Frame *caller = e_.caller_of(frame, reporters))
            claim.facts.push_back(fmt::format("{} {}", what, place_text(*caller)));
    }

    // What changed the guard may be a write past the end of a buffer of that function, of one it called, or any other.
    Claim stack_smashed(const Frame &frame) const {
        const Frame *caller = e_.caller_of(frame, stack_checking);
        Claim made = claim(fmt::format("stack smashing detected: the guard on the stack of {} had changed",
                                       caller ? function_text(*caller) : "a function"));
        blame(made, frame, stack_checking, "__stack_chk_fail was called by");
        return made;
    }

    Claim assertion(const Frame &frame) const {
        Claim made = claim("assertion failed" + (message().empty() ? "" : ": " + message()));
        blame(made, frame, asserting, "asserted in");
        return made;
    }

    // What was being freed was allocated, as the recorded heap has it, which has missed nothing.
    bool freed_alive() const {
        const auto *last =
            e_.heap && !e_.image.threads.empty() ? e_.heap->last_call(e_.image.threads.front().tid) : nullptr;
        return last && last->kind == bpf::HEAP_FREED && !(last->flags & bpf::HEAP_UNKNOWN) &&
               e_.heap->heap.unrecorded() == 0;
    }

    // What glibc's words leave open (malloc/malloc.c): it finds a chunk freed twice for certain only where it has that
    // very chunk among those it keeps; what it finds wrong about a chunk that is given to free() or realloc() may be
    // overwritten, or no chunk at all.
    std::string what_heap() const {
        const std::string &text = message();
        if (text.find("double free detected") != std::string::npos)
            return "double free";
        if (text.find("double free or corruption") != std::string::npos)
            return freed_alive() ? "heap corrupted, found by glibc's allocator"
                                 : "heap corrupted or freed twice, found by glibc's allocator";
        const bool of_pointer = text.starts_with("free()") || text.starts_with("realloc()") ||
                                text.starts_with("munmap_chunk()") || text.starts_with("mremap_chunk()");
        return of_pointer ? "heap corrupted or a wrong pointer given to it, found by glibc's allocator"
                          : "heap corrupted, found by glibc's allocator";
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
        Claim made = claim(what_heap() + (message().empty() ? "" : ": " + message()));
        blame(made, frame, allocator, "noticed in a call by");
        return made;
    }

    // __chk_fail() is the end of checks of many kinds: sizes of copies, of descriptor sets, of format strings.
    Claim fortified(const Frame &frame) const {
        const Frame *caller = e_.caller_of(frame, fortifying);
        Claim made = claim(fmt::format("a check compiled in (_FORTIFY_SOURCE) has failed in {}{}",
                                       caller ? function_text(*caller) : "a fortified function",
                                       message().empty() ? "" : ": " + message()));
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

    Claim terminated(std::size_t at) const {
        const ThreadStack &stack = *e_.stack();
        bool unwinding = stack.frames[at].symbol == "__gxx_personality_v0";
        const Frame *thrower = thrower_outside(stack, at, unwinding);
        const auto &exception = e_.analysis.exception;
        const bool known = exception && !exception->type.empty();
        Claim made;
        // "throw;" with nothing to throw goes the same way as one that is thrown on and not caught.
        if (!thrower || (is_one_of(*thrower, rethrowing) && !known)) {
            made = claim("std::terminate() was called");
            if (thrower)
                made.facts.push_back("by " + place_text(*thrower) +
                                     ": an exception thrown on that nobody caught, or none there to be thrown on");
        } else {
            std::string text = unwinding ? "C++ exception that could not leave a function that lets none out"
                                         : "uncaught C++ exception";
            if (known)
                text += (unwinding ? ", of type " : " of type ") + exception->type;
            if (exception && !exception->what.empty())
                text += ": " + exception->what;
            made = claim(std::move(text));
        }
        if (thrower) {
            std::vector<std::string_view> both(std::begin(throwing), std::end(throwing));
            both.insert(both.end(), std::begin(rethrowing), std::end(rethrowing));
            blame(made, *thrower, both, is_one_of(*thrower, rethrowing) ? "thrown on in" : "thrown in");
        }
        made.facts.push_back("on the stack: " + place_text(stack.frames[at]));
        return made;
    }

    // Without names for the frames glibc's own words must do, and they are quite its own.
    std::optional<Claim> by_message() const {
        if (message().find("*** stack smashing detected ***") != std::string::npos)
            return claim("stack smashing detected: the guard on a function's stack had changed");
        if (message().find(": Assertion `") != std::string::npos && message().ends_with("' failed."))
            return claim("assertion failed: " + message());
        const Frame *abort = e_.frame_of(abort_itself);
        if (!abort || e_.behind_signal_frame(*abort))
            return std::nullopt;
        const Frame *caller = e_.caller_of(*abort, aborting);
        if (!caller)
            return std::nullopt;
        Claim made = claim(
            fmt::format("{} called abort(){}", function_text(*caller), message().empty() ? "" : ": " + message()));
        made.facts.push_back("on the stack: abort(), called by " + place_text(*caller));
        return made;
    }

    const Evidence &e_;
};

} // namespace

std::optional<Claim> judge_abort(const Evidence &evidence) {
    // abort(3) raises by tgkill(2): from itself
    const bool own = evidence.sender() == evidence.image.pid && evidence.signal()["code_name"].text() == "SI_TKILL";
    if (evidence.image.signal != SIGABRT || !own)
        return std::nullopt;
    return Abort(evidence).judge();
}

} // namespace incident::postmortem
