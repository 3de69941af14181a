#include "daemon/write/words_follower.h"

#include "capture/bundle/json_member.h"
#include "capture/core/core_handler.h"
#include "capture/os/process_ref.h"
#include "daemon/os/clocks.h"
#include "daemon/write/journal_search.h"
#include "rules/model/user.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <exception>
#include <map>
#include <utility>

namespace incident::daemon {

namespace {

constexpr std::chrono::hours nearby{1};
constexpr std::size_t word_bytes = 256u << 10; // up to the trigger, and as many after it
constexpr std::chrono::milliseconds search_deadline{1000}, hurried_deadline{200};
constexpr std::chrono::milliseconds nearby_deadline{500}, hurried_nearby_deadline{100}; // of incidents, and of cores
constexpr std::uint64_t batch_ns = 500'000'000; // after which those that have an answer are told

constexpr const char *not_wanted = "[capture] journal_lines is 0";

std::uint64_t number_at(const capture::Json &object, const char *key) {
    const capture::Json &value = capture::member(object, key);
    return value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
}

// As render_incident.cpp writes them.
capture::Clocks clocks_of(const capture::Json &times) {
    capture::Clocks clocks;
    clocks.monotonic = {number_at(times, "monotonic_ns")};
    clocks.boottime = {number_at(times, "boottime_ns")};
    clocks.realtime = {number_at(times, "realtime_ns")};
    const capture::Json &changes = capture::member(times, "changes");
    std::uint64_t slept_since = 0;
    for (auto change = changes.rbegin(); change != changes.rend(); ++change) { // the newest first
        capture::ClockChange &read = clocks.changes.emplace_back();
        read.at = {number_at(*change, "t_ns")};
        read.at_boot = clocks.boottime - (clocks.monotonic.ns - read.at.ns) - slept_since;
        read.slept_ns = number_at(*change, "slept_ns");
        if (const capture::Json &set = capture::member(*change, "set_by_ns"); set.is_number_integer())
            read.set_by_ns = set.get<std::int64_t>();
        slept_since += read.slept_ns;
    }
    std::ranges::reverse(clocks.changes);
    return clocks;
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
        plan.now.reason = "the incident was kept light";
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
        plan.now.reason = not_wanted;
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
    const capture::Clocks clocks = clocks_of(times);
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

capture::Past past_not_found(const WantedWords &wanted, const std::string &why) {
    capture::Past past;
    if (wanted.lines == 0) {
        past.words.reason = not_wanted;
    } else {
        past.words.state = capture::LastWords::State::Failed;
        past.words.reason = why;
    }
    past.incidents.problem = past.cores.problem = why;
    return past;
}

WordsFollower::WordsFollower(std::string state, capture::OsRoots os, std::string journal, SearchOne search)
    : os_(std::move(os)), journal_directory_(std::move(journal)), incidents_(std::move(state)),
      search_one_(std::move(search)) {}

// Those whose time has come: each user's oldest comes first, then each user's second, and so on.  Who had a turn least
// recently is before the others: a batch may end after one.
std::vector<WantedWords> WordsFollower::whose_turn(std::uint64_t now_ns) {
    std::vector<const WantedWords *> due;
    for (const WantedWords &one : waiting_)
        if (*hurried_ || now_ns >= one.due_ns)
            due.push_back(&one);
    std::ranges::stable_sort(due, {}, [](const WantedWords *one) { return one->instant; });
    std::map<std::uint32_t, std::size_t> before; // of this user
    std::map<const WantedWords *, std::size_t> rank;
    for (const WantedWords *one : due)
        rank[one] = before[one->user]++;
    std::ranges::stable_sort(due, {},
                             [&](const WantedWords *one) { return std::pair(rank[one], last_turn_[one->user]); });
    std::vector<WantedWords> turn;
    for (const WantedWords *one : due)
        if (turn.size() < most_searches)
            turn.push_back(*one);
    more_due_ = due.size() > turn.size();
    return turn;
}

std::vector<FoundWords> WordsFollower::look(std::uint64_t now_ns) {
    std::erase_if(waiting_, [&](const WantedWords &one) { return now_ns > one.give_up_ns + WordsSearch::patience_ns; });
    more_due_ = false;
    std::vector<FoundWords> answers;
    const std::uint64_t began_ns = clock_ns(CLOCK_MONOTONIC);
    for (const WantedWords &one : whose_turn(now_ns)) {
        if (!answers.empty() && clock_ns(CLOCK_MONOTONIC) - began_ns >= batch_ns) {
            more_due_ = true;
            break;
        }
        // Whatever becomes of the search, it is not begun again.
        std::erase_if(waiting_, [&](const WantedWords &waiting) { return waiting.bundle == one.bundle; });
        last_turn_[one.user] = ++turns_;
        answers.push_back({one.bundle, answer(one, now_ns), one.user});
    }
    if (waiting_.empty()) {
        journal_.reset(); // its maps, and files that were rotated away meanwhile
        last_turn_.clear();
    }
    return answers;
}

capture::Past WordsFollower::answer(const WantedWords &wanted, std::uint64_t now_ns) {
    try {
        return search_one_ ? search_one_(wanted) : search(wanted, now_ns);
    } catch (const std::exception &error) { // no memory: the answers that there are already are told all the same
        return past_not_found(wanted, error.what());
    }
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
    // The instant may be of an earlier boot, and later than now.
    const capture::MonotonicTime whole = wanted.instant + words_after_ns,
                                 until = *hurried_ ? std::clamp(capture::MonotonicTime{now_ns}, wanted.instant, whole)
                                                   : whole;
    const auto opened = open_journal();
    if (wanted.lines == 0) {
        words.reason = not_wanted;
    } else if (!opened) {
        words.state = capture::LastWords::State::Failed;
        words.reason = opened.error().what;
    } else {
        const auto expired = [this, began = std::chrono::steady_clock::now()] {
            return std::chrono::steady_clock::now() - began >= (*hurried_ ? hurried_deadline : search_deadline);
        };
        words = capture::find_last_words(*journal_, wanted.speaker, wanted.instant, until,
                                         {.lines = wanted.lines, .bytes = word_bytes}, expired);
        words.ended_early = words.state == capture::LastWords::State::Read && until < whole;
    }
    const auto deadline = [this] { return *hurried_ ? hurried_nearby_deadline : nearby_deadline; };
    past.incidents = incidents_.find(wanted.bundle, wanted.time, wanted.speaker, nearby, deadline());
    if (opened)
        past.cores = capture::find_nearby_cores(*journal_, wanted.speaker, capture::core_handler_here(os_),
                                                wanted.instant, wanted.time, nearby, deadline());
    else
        past.cores.problem = opened.error().what;
    return past;
}

} // namespace incident::daemon
