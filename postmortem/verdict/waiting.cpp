// Judges a process that lives on but waits: what it waits for, and where the time of a slow call went.
#include "postmortem/verdict/evidence.h"

#include "postmortem/terminal/times.h"

#include <fmt/format.h>

namespace incident::postmortem {

namespace {

bool shows_page_fault(JsonView kernel_stack) {
    for (std::size_t i = 0; i < kernel_stack.size(); ++i)
        if (kernel_stack.at(i)["symbol"].text().find("page_fault") != std::string_view::npos)
            return true;
    return false;
}

// "nanosleep()", "a page fault"; what the thread waited in.
std::string wait_of(JsonView blocked) {
    const std::string_view call = blocked["syscall"].text(), state = blocked["state"].text();
    if (state == "stopped")
        return "a stop (SIGSTOP or one of its kin)";
    if (state == "traced")
        return "a stop by whoever traces it";
    if (!call.empty())
        return std::string(call) + "()";
    return shows_page_fault(blocked["kernel_stack"]) ? "a page fault" : "the kernel, outside of any system call";
}

Claim blocked_claim(const Evidence &e, JsonView blocked) {
    const std::uint64_t tid = e.incident.tid();
    const std::string span = span_text(blocked["elapsed_ns"].count());
    Claim claim = blocked["in_flight"].flag() ? Claim::of<Sentence::has_been_blocked>(tid, span, wait_of(blocked))
                                              : Claim::of<Sentence::was_blocked>(tid, span, wait_of(blocked));
    claim.facts.push_back(fmt::format("off the CPU ({}) since {} before the incident", blocked["state"].text(), span));
    const JsonView waker = blocked["waker"];
    if (waker.is_object() && waker["in_interrupt"].flag())
        claim.facts.push_back("an interrupt woke it");
    else if (waker.is_object() && !blocked["in_flight"].flag()) {
        claim.add<Sentence::woken_by>(waker["comm"].text(), waker["pid"].count());
        claim.facts.push_back(fmt::format("woken by thread {} of {}[{}]", waker["tid"].count(), waker["comm"].text(),
                                          waker["pid"].count()));
    }
    return claim;
}

// Says where a slow call's time went, if most of it went to one thing.
std::optional<Claim> slow_call(JsonView latency) {
    const std::uint64_t elapsed = latency["elapsed_ns"].count();
    const JsonView spent = latency["spent"], calls = latency["calls"];
    if (!spent.is_object() || elapsed == 0)
        return std::nullopt;
    struct Part {
        const char *key, *text;
        Claim (*claim)(const std::string &part_of, const std::string &all);
    };
    constexpr Part parts[] = {
        {"running_ns", "computing",
         [](const auto &part_of, const auto &all) { return Claim::of<Sentence::spent_computing>(part_of, all); }},
        {"runnable_ns", "waiting for a CPU",
         [](const auto &part_of, const auto &all) { return Claim::of<Sentence::spent_runnable>(part_of, all); }},
        {"blocked_ns", "blocked",
         [](const auto &part_of, const auto &all) { return Claim::of<Sentence::spent_blocked>(part_of, all); }}};
    for (const Part &part : parts) {
        const std::uint64_t ns = spent[part.key].count();
        if (ns < elapsed / 2 || ns > elapsed)
            continue;
        Claim claim = part.claim(span_text(ns), span_text(elapsed));
        for (const Part &each : parts)
            claim.facts.push_back(fmt::format("{}: {}", each.text, span_text(spent[each.key].count())));
        if (const JsonView in_call = calls["in_flight"]; in_call.is_object())
            claim.facts.push_back(fmt::format("it is in {}() since {}", in_call["name"].text(),
                                              span_text(in_call["elapsed_ns"].count())));
        if (const JsonView top = calls["by_name"].at(0); top.is_object() && top["ns"].count() >= elapsed / 2) {
            // at least so much of both lies in the same time; most of the wait has to
            const std::uint64_t both = ns + std::min(top["ns"].count(), elapsed);
            if (std::string_view(part.key) == "blocked_ns" && both > elapsed && both - elapsed > ns / 2)
                claim.add<Sentence::mostly_in_call>(top["name"].text());
            claim.facts.push_back(fmt::format("{} calls of {}() took {} of it", top["count"].count(),
                                              top["name"].text(), span_text(top["ns"].count())));
        }
        return claim;
    }
    return std::nullopt;
}

} // namespace

std::optional<Claim> judge_waiting(const Evidence &e) {
    const JsonView view = e.incident.view();
    if (view["kind"].text() == "blocked" && view["blocked"].is_object())
        return blocked_claim(e, view["blocked"]);
    if (view["kind"].text() == "latency" && view["latency"].is_object())
        return slow_call(view["latency"]);
    return std::nullopt;
}

} // namespace incident::postmortem
