// What an incident still awaits when it is written: its core, its past, its verdict.  Then it is reported.
#include "daemon/write/delivery.h"

#include "daemon/os/clocks.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <thread>
#include <utility>

namespace incident::daemon {

namespace {

constexpr std::uint64_t overdue_look_ns = 5'000'000'000;
constexpr std::chrono::seconds words_patience{2}; // at the end

} // namespace

void Delivery::on_amended(const WriteResult &result) {
    switch (result.news) {
    case News::Core:
        spdlog::debug("core of {}: {}", result.name, result.summary);
        return no_longer_awaits(result.name, Awaited::Core);
    case News::Past:
        spdlog::debug("last words of {}: {}", result.name, result.summary);
        return no_longer_awaits(result.name, Awaited::Past);
    default:
        if (!result.summary.empty())
            spdlog::info("verdict on {}: {}", result.name, result.summary);
        return no_longer_awaits(result.name, Awaited::Analysis);
    }
}

// An incident is reported once, when its core, its past and its verdict are known or will not come.
void Delivery::no_longer_awaits(const std::string &bundle, Awaited known) {
    const auto found = unreported_.find(bundle);
    if (found == unreported_.end())
        return; // reported
    found->second.awaited.erase(known);
    if (!found->second.awaited.empty())
        return;
    const std::uint32_t user = found->second.user;
    unreported_.erase(found);
    writer_->submit(ReportJob{bundle, user});
}

void Delivery::on_cores() {
    for (auto &found : cores_->take_found())
        writer_->submit(AmendJob{std::move(found.bundle), std::move(found.link), found.user});
}

void Delivery::follow_words(WantedWords wanted) {
    const std::string bundle = wanted.bundle;
    look_for_overdue();
    words_awaited_.insert_or_assign(bundle, wanted);
    if (!words_->follow(std::move(wanted)))
        without_words(bundle, "the journal does not answer");
}

void Delivery::on_words() {
    for (auto &found : words_->take_found())
        if (words_awaited_.erase(found.bundle)) // else it was given up
            writer_->submit(
                AmendJob{std::move(found.bundle), std::move(found.past), found.user, config_.privacy.redact});
}

// The bundle says that its last words are not in it, and why.
void Delivery::without_words(const std::string &bundle, const std::string &why) {
    const auto wanted = words_awaited_.extract(bundle);
    if (wanted.empty())
        return;
    writer_->submit(
        AmendJob{bundle, past_not_found(wanted.mapped(), why), wanted.mapped().user, config_.privacy.redact});
}

// Bundles whose core is overdue are reported with a core that is pending; readers search for it themselves.
void Delivery::on_overdue() {
    const std::uint64_t now = clock_ns(CLOCK_MONOTONIC);
    for (const std::string &bundle : cores_->overdue(now)) {
        spdlog::error("incident {}: the search for its core has not ended: the journal does not answer", bundle);
        no_longer_awaits(bundle, Awaited::Core);
    }
    for (const std::string &bundle : words_->overdue(now)) {
        spdlog::error("incident {}: its last words cannot be read: the journal does not answer", bundle);
        without_words(bundle, "the journal does not answer");
    }
    if (cores_->waiting() || words_->waiting())
        look_for_overdue();
}

void Delivery::look_for_overdue() {
    search_timer_.arm_in_unless_armed(overdue_look_ns);
}

// What the journal has by now is taken; an incident that it does not answer for in time says so.
void Delivery::finish_words(const std::function<void()> &alive) {
    words_->hurry();
    alive();
    const auto until = std::chrono::steady_clock::now() + words_patience;
    for (; !words_awaited_.empty() && std::chrono::steady_clock::now() < until; on_words())
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    while (!words_awaited_.empty())
        without_words(std::string(words_awaited_.begin()->first), "incidentd ended before the journal was read");
}

// Incidents the last daemon wrote and could not tell of.
void Delivery::report_late() {
    const auto names = incidents_.unreported();
    if (!names) {
        spdlog::error("{}", names.error().what);
        return;
    }
    for (const std::string &name : *names) {
        spdlog::info("incident {} was not reported before; it is now", name);
        const auto bundle = incidents_.bundle(name);
        auto words = bundle ? words_left_over(*bundle, config_.capture.journal_lines) : std::nullopt;
        if (!words) {
            writer_->submit(ReportJob{name, std::nullopt});
            continue;
        }
        unreported_[name] = {{Awaited::Past}, words->user};
        follow_words(std::move(*words));
    }
}

} // namespace incident::daemon
