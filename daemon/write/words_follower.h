// Searches for the past of each incident, once the time after its trigger has passed from which lines are wanted too:
// the last words in the journal, and other incidents and cores of the unit within the hour.  The bundle is amended
// once.
//
// Each search has a deadline and limits.  There are so many at once, in which users take turns.  Nobody waits for more
// than half a second of others' searches to be told what was found.
#pragma once

#include "capture/journal/journal.h"
#include "capture/render/merge_words.h"
#include "daemon/write/nearby_incidents.h"
#include "rules/model/rule.h"

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace incident::daemon {

inline constexpr std::uint64_t words_after_ns = 2'000'000'000; // from the trigger, in which lines are wanted
// How long after the end of that time journald may take to write down what it has got.
inline constexpr std::uint64_t journald_slack_ns = 250'000'000;

struct WantedWords {
    std::string bundle;
    capture::Speaker speaker;
    capture::MonotonicTime instant; // of the trigger
    capture::WallTime time;         // the same
    std::uint32_t lines = 200;      // 0: none
    std::uint32_t user = 0;
    std::uint64_t due_ns = 0;     // when to search, CLOCK_MONOTONIC
    std::uint64_t give_up_ns = 0; // when the answer should be there
};

struct FoundWords {
    std::string bundle;
    capture::Past past;
    std::uint32_t user = 0;
};

// What is to be said until then; nullopt for `wanted`: nothing will be searched for.
struct WordsPlan {
    capture::LastWords now;
    std::optional<WantedWords> wanted;
};
WordsPlan plan_words(const std::string &bundle, const capture::IncidentInput &input, const rules::ProcessFacts &facts,
                     std::uint32_t lines);

// Of a bundle whose words are still pending, because the daemon that wrote it was killed; nullopt: of none such.
std::optional<WantedWords> words_left_over(const capture::Bundle &bundle, std::uint32_t lines);

// Of one whose search has no answer.
capture::Past past_not_found(const WantedWords &wanted, const std::string &why);

class WordsFollower {
public:
    using Wanted = WantedWords;
    using Found = FoundWords;
    static constexpr const char *thread_name = "words search";
    static constexpr std::size_t most_searches = 8;

    using SearchOne = std::function<capture::Past(const WantedWords &)>;
    // state: the state directory.  journal: a directory for tests; "": the host's.  search: a test's.
    WordsFollower(std::string state, capture::OsRoots os, std::string journal = "", SearchOne search = {});

    void follow(WantedWords wanted) { waiting_.push_back(std::move(wanted)); }
    // Searches for those whose time has come, or for as many as have their turn.  Those that were given up meanwhile
    // are dropped.
    std::vector<FoundWords> look(std::uint64_t now_ns);
    bool more_due() const { return more_due_; } // than the last look has searched for
    // From now on all are searched for at once, because the daemon ends.  Any thread may call it, also during a look.
    void hurry() { *hurried_ = true; }
    bool waiting() const { return !waiting_.empty(); }

private:
    std::vector<WantedWords> whose_turn(std::uint64_t now_ns);
    capture::Past answer(const WantedWords &wanted, std::uint64_t now_ns);
    capture::Past search(const WantedWords &wanted, std::uint64_t now_ns);
    Status open_journal();

    capture::OsRoots os_;
    std::string journal_directory_;
    std::optional<capture::Journal> journal_; // opened at the first need
    IncidentsOfUnits incidents_;
    std::vector<WantedWords> waiting_;
    SearchOne search_one_;
    bool more_due_ = false;
    std::map<std::uint32_t, std::uint64_t> last_turn_; // of each user: which of all searches
    std::uint64_t turns_ = 0;
    std::shared_ptr<std::atomic<bool>> hurried_ = std::make_shared<std::atomic<bool>>(false);
};

template <typename Follower> class JournalSearch; // journal_search.h
using WordsSearch = JournalSearch<WordsFollower>;

} // namespace incident::daemon
