// SIGABRT by the process's own abort(3): an assertion, one of glibc's checks, an exception nobody caught.
#include "postmortem/verdict/evidence.h"

#include <fmt/format.h>

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
constexpr std::string_view terminating[] = {"std::terminate", "__cxxabiv1::__terminate"};
constexpr std::string_view throwing[] = {"__cxa_throw", "__cxxabiv1::__cxa_throw", "__cxa_rethrow",
                                         "__cxxabiv1::__cxa_rethrow"};

class Abort {
public:
    explicit Abort(const Evidence &evidence) : e_(evidence) {}

    std::optional<Claim> judge() const {
        if (const Frame *frame = e_.frame_of(stack_checking))
            return stack_smashed(*frame);
        if (const Frame *frame = e_.frame_of(asserting))
            return assertion(*frame);
        if (const Frame *frame = e_.frame_of(heap_checking))
            return heap(*frame);
        if (const Frame *frame = e_.frame_of(fortifying))
            return fortified(*frame);
        if (const Frame *frame = e_.frame_of(terminating))
            return terminated(*frame);
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

    Claim stack_smashed(const Frame &frame) const {
        const Frame *caller = e_.caller_of(frame, stack_checking);
        Claim made = claim(fmt::format("stack smashing: past the end of a buffer on the stack of {} was written",
                                       caller ? function_text(*caller) : "a function"));
        blame(made, frame, stack_checking, "__stack_chk_fail found the canary changed in");
        return made;
    }

    Claim assertion(const Frame &frame) const {
        Claim made = claim("assertion failed" + (message().empty() ? "" : ": " + message()));
        blame(made, frame, asserting, "asserted in");
        return made;
    }

    // What was being freed was allocated, as the recorded heap has it.
    bool freed_alive() const {
        const auto *last =
            e_.heap && !e_.image.threads.empty() ? e_.heap->last_call(e_.image.threads.front().tid) : nullptr;
        return last && last->kind == bpf::HEAP_FREED && !(last->flags & bpf::HEAP_UNKNOWN);
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
        // "double free or corruption" may be either; freed while it was alive, it was not the former.
        const bool either = message().find("or corruption") != std::string::npos;
        const bool twice = message().find("double free") != std::string::npos && !(either && freed_alive());
        Claim made = claim(fmt::format("{}{}", twice ? "double free" : "heap corrupted, found by glibc's allocator",
                                       message().empty() ? "" : ": " + message()));
        blame(made, frame, allocator, twice ? "freed again by" : "noticed in");
        return made;
    }

    Claim fortified(const Frame &frame) const {
        const Frame *caller = e_.caller_of(frame, fortifying);
        Claim made = claim(fmt::format("buffer overflow prevented: {} was to write past the end of its buffer",
                                       caller ? function_text(*caller) : "a fortified function"));
        if (caller)
            blame(made, *caller, fortifying, "called by");
        return made;
    }

    Claim terminated(const Frame &frame) const {
        const Frame *thrower = e_.frame_of(throwing);
        const auto &exception = e_.analysis.exception;
        Claim made;
        if (!thrower) {
            made = claim("std::terminate() was called");
        } else {
            std::string text = "uncaught C++ exception";
            if (exception && !exception->type.empty())
                text += " of type " + exception->type;
            if (exception && !exception->what.empty())
                text += ": " + exception->what;
            made = claim(std::move(text));
            blame(made, *thrower, throwing, "thrown in");
        }
        made.facts.push_back("on the stack: " + place_text(frame));
        return made;
    }

    // Without names for the frames glibc's own words must do, and they are quite its own.
    std::optional<Claim> by_message() const {
        if (message().find("*** stack smashing detected ***") != std::string::npos)
            return claim("stack smashing: past the end of a buffer on a function's stack was written");
        if (message().find(": Assertion `") != std::string::npos && message().ends_with("' failed."))
            return claim("assertion failed: " + message());
        const Frame *abort = e_.frame_of(abort_itself);
        if (!abort)
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
