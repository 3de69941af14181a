#include "daemon/write/words_follower.h"

#include "capture/bundle/json_member.h"
#include "capture/core/core_handler.h"
#include "capture/os/process_ref.h"
#include "daemon/os/clocks.h"
#include "rules/model/user.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>

namespace incident::daemon {

namespace {

constexpr std::chrono::hours nearby{1};
constexpr std::size_t word_bytes = 256u << 10; // up to the trigger, and as many after it
constexpr std::chrono::milliseconds search_deadline{1000}, hurried_deadline{200};

std::uint64_t number_at(const capture::Json &object, const char *key) {
    const capture::Json &value = capture::member(object, key);
    return value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
}

std::string text_at(const capture::Json &object, const char *key) {
    const capture::Json &value = capture::member(object, key);
    return value.is_string() ? value.get<std::string>() : std::string();
}

} // namespace

WordsPlan plan_words(const std::string &bundle, const capture::IncidentInput &input, const rules::ProcessFacts &facts,
                     std::uint32_t lines) {
    const auto &event = input.process.event;
    WordsPlan plan;
    if (input.light) {
        plan.now.reason = "kept light, as one of many similar incidents";
        return plan;
    }
    WantedWords wanted;
    wanted.speaker =
        capture::speaker_of(input.clocks.boot_id, input.clocks, capture::process_of(event.h), facts.unit, facts.cgroup);
    if (wanted.speaker.pid == 0 && wanted.speaker.unit.empty() && !wanted.speaker.has_cgroup()) {
        plan.now.reason = "the incident is about no process that could have written to the journal";
        return plan;
    }
    wanted.bundle = bundle;
    wanted.instant = {event.h.t_ns};
    wanted.time = input.clocks.wall_of(wanted.instant);
    wanted.lines = lines;
    wanted.user = rules::user_of(facts);
    wanted.due_ns = lines == 0 ? 0 : wanted.instant.ns + words_after_ns + journald_slack_ns;
    wanted.give_up_ns = std::max(wanted.due_ns, input.clocks.monotonic.ns);
    if (lines == 0) {
        plan.now.reason = "[capture] journal_lines is 0";
    } else {
        plan.now.state = capture::LastWords::State::Pending;
        plan.now.reason = "the journal is read when 2 s have passed since the trigger";
        plan.now.instant = wanted.instant;
        plan.now.until = wanted.instant + words_after_ns;
    }
    plan.wanted = std::move(wanted);
    return plan;
}

std::optional<WantedWords> words_left_over(const capture::Bundle &bundle, std::uint32_t lines) {
    constexpr std::uint64_t incident_json_max = 8u << 20;
    const auto text = bundle.read("incident.json", incident_json_max);
    const capture::Json document = capture::Json::parse(text ? *text : "", nullptr, false);
    const capture::Json &process = capture::member(document, "process"), &times = capture::member(document, "clocks");
    if (text_at(capture::member(document, "last_words"), "state") != "pending")
        return std::nullopt;
    capture::Clocks clocks;
    clocks.monotonic = {number_at(times, "monotonic_ns")};
    clocks.boottime = {number_at(times, "boottime_ns")};
    clocks.realtime = {number_at(times, "realtime_ns")};
    const auto pid = static_cast<std::uint32_t>(number_at(process, "pid"));
    WantedWords wanted;
    wanted.bundle = bundle.name();
    wanted.speaker =
        capture::speaker_of(text_at(document, "boot_id"), clocks, {pid, {number_at(process, "tgid_start_ns")}},
                            text_at(process, "unit"), text_at(process, "cgroup"));
    wanted.instant = {number_at(times, "trigger_ns")};
    wanted.time = clocks.wall_of(wanted.instant);
    wanted.lines = lines;
    wanted.user = rules::user_of(static_cast<std::uint32_t>(number_at(process, "uid")));
    // Never later than if it was just now: the clock may have begun anew.
    const std::uint64_t now = clock_ns(CLOCK_MONOTONIC), span = words_after_ns + journald_slack_ns;
    wanted.due_ns = wanted.give_up_ns = std::min(wanted.instant.ns, now) + span;
    return wanted;
}

WordsFollower::WordsFollower(std::string state, capture::OsRoots os, std::string journal)
    : os_(std::move(os)), journal_directory_(std::move(journal)), incidents_(std::move(state)) {}

std::vector<FoundWords> WordsFollower::look(std::uint64_t now_ns) {
    std::vector<const WantedWords *> due;
    for (const WantedWords &one : waiting_)
        if (hurried_ || now_ns >= one.due_ns)
            due.push_back(&one);
    // Each user's oldest comes first, then each user's second, and so on.
    std::ranges::stable_sort(due, {}, [](const WantedWords *one) { return one->instant; });
    std::map<std::uint32_t, std::size_t> before; // of this user
    std::map<const WantedWords *, std::size_t> rank;
    for (const WantedWords *one : due)
        rank[one] = before[one->user]++;
    std::ranges::stable_sort(due, {}, [&](const WantedWords *one) { return rank[one]; });
    due.resize(std::min(due.size(), most_searches));
    std::vector<FoundWords> answers;
    std::set<std::string> done;
    for (const WantedWords *one : due) {
        answers.push_back({one->bundle, search(*one, now_ns), one->user});
        done.insert(one->bundle);
    }
    std::erase_if(waiting_, [&](const WantedWords &one) { return done.contains(one.bundle); });
    if (waiting_.empty())
        journal_.reset(); // its maps, and files that were rotated away meanwhile
    return answers;
}

Status WordsFollower::open_journal() {
    if (journal_)
        return {};
    auto opened = capture::Journal::open(journal_directory_);
    if (!opened) // descriptors or memory may be short for a moment
        return fail(std::move(opened.error()));
    journal_ = std::move(*opened);
    return {};
}

capture::Past WordsFollower::search(const WantedWords &wanted, std::uint64_t now_ns) {
    capture::Past past;
    capture::LastWords &words = past.words;
    const capture::MonotonicTime whole = wanted.instant + words_after_ns,
                                 until = hurried_ ? std::min(whole, capture::MonotonicTime{now_ns}) : whole;
    const auto opened = open_journal();
    if (wanted.lines == 0) {
        words.reason = "[capture] journal_lines is 0";
    } else if (!opened) {
        words.state = capture::LastWords::State::Failed;
        words.reason = opened.error().what;
    } else {
        words = capture::find_last_words(
            *journal_, wanted.speaker, wanted.instant, until,
            {.lines = wanted.lines, .bytes = word_bytes, .deadline = hurried_ ? hurried_deadline : search_deadline});
        words.ended_early = words.state == capture::LastWords::State::Read && until < whole;
    }
    past.incidents = incidents_.find(wanted.bundle, wanted.time, wanted.speaker, nearby);
    if (opened)
        past.cores = capture::find_nearby_cores(*journal_, wanted.speaker, capture::core_handler_here(os_),
                                                wanted.instant, wanted.time, nearby);
    else
        past.cores.problem = opened.error().what;
    return past;
}

} // namespace incident::daemon
