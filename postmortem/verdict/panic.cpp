// Judges the SIGABRT at the end of a panic of Rust's or Go's, or of what Go's runtime calls a fatal error: whose panic
// it was, and where its runtime's functions say so, what for.
#include "postmortem/verdict/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

namespace incident::postmortem {

namespace {

struct Reason {
    std::string_view function; // of the runtime, which calls it in this case alone
    std::string_view words;
};

struct Runtime {
    Sentence panicked;
    std::span<const std::string_view> own; // what the names of its functions begin with
    std::span<const std::string_view> panicking;
    std::span<const Reason> reasons;
    bool handles; // its handler of SIGABRT, which it sends itself, is part of the way
};

// library/core/src and library/std/src, of versions from 1.63 on. Names without a path are matched whole: a program may
// export functions of its own that begin like them.
constexpr std::string_view of_rust[] = {"std::",    "core::", "alloc::",       "<std::",         "<core::",
                                        "<alloc::", "<T as ", "panic_abort::", "panic_unwind::", "__rustc::"};
constexpr std::string_view by_rust[] = {"rust_panic", "rust_begin_unwind", "__rust_start_panic", "__rust_abort"};
constexpr std::string_view of_libc[] = {"abort",
                                        "__GI_abort",
                                        "raise",
                                        "__GI_raise",
                                        "gsignal",
                                        "pthread_kill",
                                        "__pthread_kill",
                                        "__GI___pthread_kill",
                                        "__pthread_kill_implementation",
                                        "__pthread_kill_internal"};
constexpr std::string_view rust_panicking[] = {"core::panicking::", "std::panicking::"};
constexpr Reason rust_reasons[] = {
    {"core::panicking::panic_bounds_check", "an index was out of bounds"},
    {"core::option::unwrap_failed", "an Option that had to have a value was None"},
    {"core::option::expect_failed", "an Option that had to have a value was None"},
    {"core::result::unwrap_failed", "a Result that had to be Ok or Err was the other"},
    {"core::panicking::assert_failed", "two values were compared by an assertion, which failed"},
    {"core::panicking::panic_const::panic_const_div_by_zero", "division by zero"},
    {"core::slice::index::slice_start_index_len_fail", "a slice's range was out of bounds"},
    {"core::slice::index::slice_end_index_len_fail", "a slice's range was out of bounds"},
    {"core::cell::panic_already_borrowed", "a RefCell was borrowed already"},
    {"core::cell::panic_already_mutably_borrowed", "a RefCell was borrowed already"}};

// src/runtime/panic.go, of Go 1.19 on.
constexpr std::string_view of_go[] = {"runtime."};
constexpr std::string_view go_panicking[] = {"runtime.gopanic"};
constexpr Reason go_reasons[] = {{"runtime.goPanicIndex", "an index was out of range"},
                                 {"runtime.goPanicIndexU", "an index was out of range"},
                                 {"runtime.panicIndex", "an index was out of range"},
                                 {"runtime.goPanicSliceAlen", "a slice's bounds were out of range"},
                                 {"runtime.goPanicSliceAcap", "a slice's bounds were out of range"},
                                 {"runtime.goPanicSliceB", "a slice's bounds were out of range"},
                                 {"runtime.panicdivide", "integer division by zero"},
                                 {"runtime.panicmem", "a nil pointer, or another bad address"},
                                 {"runtime.panicmemAddr", "a nil pointer, or another bad address"},
                                 {"runtime.panicdottypeE", "an interface held another type than was asserted"},
                                 {"runtime.panicdottypeI", "an interface held another type than was asserted"}};

constexpr Runtime runtimes[] = {{Sentence::rust_panicked, of_rust, rust_panicking, rust_reasons, false},
                                {Sentence::go_panicked, of_go, go_panicking, go_reasons, true}};

// Go's assembly names the ABI, and a generic function its types.
std::string_view bare(std::string_view name) {
    return name.substr(0, name.find(".abi"));
}

bool begins(std::string_view name, std::span<const std::string_view> with) {
    return std::ranges::any_of(with, [&](std::string_view one) { return name.starts_with(one); });
}

// The frames from the kernel out to the panic are the runtime's alone; the first that is not its own has panicked.
std::optional<Claim> panic_of(const Runtime &runtime, const ThreadStack &stack) {
    const Frame *panicking = nullptr;
    const Reason *reason = nullptr;
    for (const Frame &frame : stack.frames) {
        const std::string_view name = bare(frame.symbol);
        if (frame.signal_frame && !runtime.handles)
            return std::nullopt;
        if (name.empty() && panicking)
            return std::nullopt; // it may be the program's
        if (name.empty() || frame.signal_frame || begins(name, runtime.own) || is_one_of(frame, by_rust) ||
            is_one_of(frame, of_libc)) {
            if (begins(name, runtime.panicking))
                panicking = &frame;
            if (const auto found = std::ranges::find(runtime.reasons, name, &Reason::function);
                found != runtime.reasons.end())
                reason = &*found;
            continue;
        }
        if (!panicking)
            return std::nullopt;
        Claim claim = runtime.panicked == Sentence::rust_panicked
                          ? Claim::of<Sentence::rust_panicked>(function_text(frame))
                          : Claim::of<Sentence::go_panicked>(function_text(frame));
        claim.panic_frames = static_cast<std::size_t>(&frame - stack.frames.data());
        claim.panic_of = runtime.panicked == Sentence::rust_panicked ? "Rust" : "Go";
        if (reason)
            claim.add<Sentence::panic_reason>(reason->words);
        claim.facts = {fmt::format("on the stack: {}, and outside of the runtime's own functions {}",
                                   place_text(*panicking), place_text(frame))};
        return claim;
    }
    return std::nullopt;
}

// Of throw() and fatal(), which end the program without a panic: the frames from the kernel out to what both call are
// those of dying, and nobody else calls it (src/runtime/panic.go, since Go 1.10).
std::optional<Claim> gave_up(const Evidence &evidence, const ThreadStack &stack) {
    constexpr std::string_view dying[] = {"runtime.raise",      "runtime.raiseproc", "runtime.dieFromSignal",
                                          "runtime.crash",      "runtime.sigfwdgo",  "runtime.sigtrampgo",
                                          "runtime.sigtramp",   "runtime.sigreturn", "runtime.sigreturn__sigaction",
                                          "runtime.cgoSigtramp"};
    constexpr std::string_view giving_up[] = {"runtime.fatalthrow", "runtime.fatalthrow.func1"};
    for (const Frame &frame : stack.frames) {
        const std::string_view name = bare(frame.symbol);
        if (frame.signal_frame || std::ranges::find(dying, name) != std::end(dying))
            continue;
        if (std::ranges::find(giving_up, name) == std::end(giving_up))
            return std::nullopt;
        auto claim = Claim::of<Sentence::go_gave_up>();
        claim.facts = {
            fmt::format("on the stack: {}, to which only throw() and fatal() of Go's runtime come", place_text(frame))};
        if (const std::string &says = evidence.analysis.go_fatal_error; !says.empty()) {
            claim.add<Sentence::go_says>(says);
            claim.facts.push_back(fmt::format("in the frame of that call: \"fatal error: {}\"", says));
        }
        return claim;
    }
    return std::nullopt;
}

} // namespace

std::optional<Claim> judge_panic(const Evidence &evidence) {
    const ThreadStack *stack = evidence.stack();
    if ((!evidence.aborted_itself() && !evidence.halted_in_abort()) || !stack)
        return std::nullopt;
    for (const Runtime &runtime : runtimes)
        if (auto claim = panic_of(runtime, *stack)) {
            claim->facts.insert(claim->facts.begin(), evidence.how_it_aborted());
            return claim;
        }
    auto claim = gave_up(evidence, *stack);
    if (claim)
        claim->facts.insert(claim->facts.begin(), evidence.how_it_aborted());
    return claim;
}

} // namespace incident::postmortem
