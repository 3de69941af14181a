#include "capture/journal/last_words.h"

#include "capture/journal/word_fields.h"
#include "capture/os/mapped_faults.h"

#include <fmt/format.h>
#include <systemd/sd-id128.h>

#include <algorithm>
#include <deque>

namespace incident::capture {

namespace {

// The alternatives of the search, each a list of fields that must all hold.  source_of() decides by the same fields.
std::vector<std::vector<std::string>> matches_of(const Speaker &speaker) {
    const std::string boot = "_BOOT_ID=" + speaker.boot_id;
    std::vector<std::vector<std::string>> all;
    if (speaker.pid)
        all.push_back({boot, fmt::format("_PID={}", speaker.pid)});
    if (!speaker.container.empty())
        all.push_back({boot, fmt::format("_UID={}", speaker.container_uid), "CONTAINER_ID_FULL=" + speaker.container});
    if (!speaker.unit.empty() && !speaker.user) {
        all.push_back({boot, "_SYSTEMD_UNIT=" + speaker.unit});
        all.push_back({boot, "_PID=1", "_UID=0", "UNIT=" + speaker.unit});
        all.push_back({boot, "_TRANSPORT=driver", "OBJECT_SYSTEMD_UNIT=" + speaker.unit});
    } else if (!speaker.unit.empty()) {
        const std::string uid = fmt::format("_UID={}", *speaker.user);
        all.push_back({boot, uid, "_SYSTEMD_USER_UNIT=" + speaker.unit});
        all.push_back({boot, uid, "_SYSTEMD_UNIT=" + manager_unit(*speaker.user), "_SYSTEMD_USER_UNIT=init.scope",
                       "USER_UNIT=" + speaker.unit});
    } else if (speaker.has_cgroup()) {
        all.push_back({boot, "_SYSTEMD_CGROUP=" + speaker.cgroup});
    }
    return all;
}

class Search {
public:
    Search(Journal &journal, const Speaker &speaker, const WordLimits &limits, std::function<bool()> expired,
           LastWords &into)
        : journal_(journal), speaker_(speaker), limits_(limits), expired_(std::move(expired)), into_(into),
          field_([this](const char *name, std::size_t most) { return journal_.field(name, most); }) {}

    // Backwards from the newest entry, because the number of lines is counted from there.
    Status run() {
        const auto all = matches_of(speaker_);
        if (all.empty())
            return fail("the incident is about no process that could have written to it");
        if (auto matched = journal_.match(all.front()); !matched)
            return matched;
        for (std::size_t i = 1; i < all.size(); ++i)
            if (auto matched = journal_.or_match(all[i]); !matched)
                return matched;
        // More is read of a compressed field only to be thrown away.
        (void)::sd_journal_set_data_threshold(journal_.get(), limits_.line_bytes + sizeof("MESSAGE="));
        if (const int r = ::sd_journal_seek_tail(journal_.get()); r < 0)
            return fail(Error::system("search the journal", -r));
        Status walked = walk();
        into_.words.assign(std::move_iterator(before_.rbegin()), std::move_iterator(before_.rend()));
        into_.words.insert(into_.words.end(), std::move_iterator(after_.begin()), std::move_iterator(after_.end()));
        std::ranges::stable_sort(into_.words, {}, &Word::at);
        return walked;
    }

private:
    Status walk() {
        for (std::size_t looked = 0;; ++looked) {
            if (looked % 16 == 0 && expired_()) {
                into_.deadline_passed = true;
                return {};
            }
            if (looked == limits_.entries) {
                into_.entries_exceeded = true;
                return {};
            }
            const int r = ::sd_journal_previous(journal_.get());
            if (r < 0)
                return fail(Error::system("search the journal", -r));
            if (r == 0 || !look())
                return {};
        }
    }

    // false: there are enough.
    bool look() {
        std::uint64_t received_us = 0, shown_us = 0;
        sd_id128_t boot{}; // one of the matches
        if (::sd_journal_get_monotonic_usec(journal_.get(), &received_us, &boot) < 0 ||
            ::sd_journal_get_realtime_usec(journal_.get(), &shown_us) < 0) {
            ++into_.unreadable;
            return true;
        }
        const MonotonicTime received{received_us * 1000};
        const WallTime shown{shown_us * 1000};
        const MonotonicTime at = received - std::min(lag_of(field_, shown), received.ns);
        if (into_.until < at || !source_of(field_, at, speaker_))
            return true;
        if (at <= into_.instant && taken_before_ == limits_.lines) {
            into_.more_before = limits_.lines != 0;
            return false;
        }
        auto word = word_of(field_, received, shown, speaker_, limits_.line_bytes);
        if (!word)
            return true;
        if (word->message.empty() && is_unreadable())
            ++into_.unreadable;
        if (word->source == WordSource::Journald)
            into_.suppressed += number_in<std::uint64_t>(field_, "N_DROPPED").value_or(0);
        at <= into_.instant ? take_before(std::move(*word)) : take_after(std::move(*word));
        return true;
    }

    // Whether the entry has a message that cannot be read, and not none at all.
    bool is_unreadable() const {
        const void *data = nullptr;
        std::size_t length = 0;
        const int r = ::sd_journal_get_data(journal_.get(), "MESSAGE", &data, &length);
        return r < 0 && r != -ENOENT;
    }

    // The newest come first: what is beyond the limit is older.
    void take_before(Word word) {
        ++taken_before_;
        const std::size_t bytes = size_of(word);
        if (bytes_before_ + bytes > limits_.bytes || into_.left_out_before) {
            ++into_.left_out_before;
            return;
        }
        bytes_before_ += bytes;
        before_.push_back(std::move(word));
    }

    // Those nearest to the instant come last, and stay.
    void take_after(Word word) {
        bytes_after_ += size_of(word);
        after_.push_front(std::move(word));
        while (after_.size() > limits_.lines || bytes_after_ > limits_.bytes) {
            bytes_after_ -= size_of(after_.back());
            after_.pop_back();
            ++into_.left_out_after;
        }
    }

    static std::size_t size_of(const Word &word) { return word.message.size() + word.identifier.size(); }

    Journal &journal_;
    const Speaker &speaker_;
    const WordLimits &limits_;
    std::function<bool()> expired_;
    LastWords &into_;
    JournalField field_;
    std::vector<Word> before_; // newest first
    std::deque<Word> after_;   // oldest first
    std::size_t taken_before_ = 0, bytes_before_ = 0, bytes_after_ = 0;
};

// The oldest entry of the boot that is still there.
MonotonicTime begin_of(const Journal &journal, const std::string &boot_id) {
    sd_id128_t boot{};
    std::uint64_t from_us = 0, to_us = 0;
    if (::sd_id128_from_string(boot_id.c_str(), &boot) < 0 ||
        ::sd_journal_get_cutoff_monotonic_usec(journal.get(), boot, &from_us, &to_us) <= 0)
        return {};
    return {from_us * 1000};
}

} // namespace

const char *name_of(LastWords::State state) {
    constexpr const char *names[] = {"none", "pending", "failed", "read"};
    return names[static_cast<std::size_t>(state)];
}

std::size_t LastWords::count_before() const {
    return static_cast<std::size_t>(std::ranges::count_if(words, [&](const Word &word) { return word.at <= instant; }));
}

std::size_t LastWords::count_cut() const {
    return static_cast<std::size_t>(std::ranges::count_if(words, &Word::cut));
}

std::string LastWords::losses() const {
    std::string text;
    const auto add = [&](bool so, const std::string &what) {
        if (so)
            text += (text.empty() ? "" : "; ") + what;
    };
    add(state == State::Failed, reason);
    add(deadline_passed, "the deadline passed: older lines may be missing");
    add(entries_exceeded, "too many entries to look at: older lines may be missing");
    add(left_out_before, fmt::format("{} older lines left out: too many bytes", left_out_before));
    add(left_out_after, fmt::format("{} later lines left out: too many", left_out_after));
    add(unreadable, fmt::format("{} entries not readable", unreadable));
    add(suppressed, fmt::format("{} lines of the unit not taken by journald (RateLimitBurst=)", suppressed));
    add(rotated, "the journal begins only after the process's start: older lines are not in it, or not any more");
    add(ended_early, "later lines were not waited for: incidentd ended");
    add(redaction_gave_up, fmt::format("{} texts left out by redaction", redaction_gave_up));
    return text;
}

LastWords find_last_words(Journal &journal, const Speaker &speaker, MonotonicTime instant, MonotonicTime until,
                          const WordLimits &limits, std::function<bool()> expired) {
    Speaker living = speaker;
    living.lived = instant;
    LastWords found;
    found.state = LastWords::State::Read;
    found.instant = instant;
    found.until = until;
    const auto began = std::chrono::steady_clock::now();
    if (!expired)
        expired = [end = began + limits.deadline] { return std::chrono::steady_clock::now() >= end; };
    const MappedFaults faults;
    if (journal.get() && journal.blind()) // journald may have begun since it was opened
        (void)journal.refresh();
    if (journal.get() && journal.blind()) {
        found.state = LastWords::State::None;
        found.reason = "there is no journal on this host";
        return found;
    }
    const auto failed = [&](std::string reason) {
        found.state = LastWords::State::Failed;
        found.reason = std::move(reason);
        found.words.clear(); // a page that is not to be had reads as zeros
    };
    if (auto fresh = journal.process(); !fresh)
        failed(std::move(fresh.error().what));
    else if (auto searched = Search(journal, living, limits, std::move(expired), found).run(); !searched)
        failed(std::move(searched.error().what));
    if (faults.met()) {
        journal.mark_stale();
        failed("a page of the journal's files is not to be had");
    }
    if (found.state == LastWords::State::Read) {
        found.journal_begins = begin_of(journal, speaker.boot_id);
        found.rotated = speaker.pid && found.count_before() < limits.lines && speaker.started < found.journal_begins;
    }
    const auto took = std::chrono::steady_clock::now() - began;
    found.took_us = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(took).count());
    return found;
}

} // namespace incident::capture
