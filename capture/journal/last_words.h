// Searches the journal for the last lines of a unit and of a process up to an instant, and for those shortly after it.
//
// Anybody can send an entry with any fields.  So a line counts only by the fields that journald itself sets, whose
// names begin with an underscore (systemd.journal-fields(7), "Trusted Journal Fields"): the unit, the control group or
// the pid of its sender.  What the manager says of a unit (UNIT=) counts because journald attests that it comes from
// pid 1, and what journald says of one (OBJECT_SYSTEMD_UNIT=) because it is journald's own.  What a container has
// written to its standard output its runtime sends (CONTAINER_ID_FULL=: podman's conmon, dockerd), and that counts if
// journald attests the runtime's user.
#pragma once

#include "capture/collect/snapshot.h"
#include "capture/journal/journal.h"
#include "capture/os/process_ref.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace incident::capture {

// Whose lines are meant.
struct Speaker {
    std::string boot_id;                 // 32 hex digits
    std::string unit;                    // "" in none
    std::optional<std::uint32_t> user{}; // whose manager runs the unit; nullopt: the system's
    std::string cgroup;                  // "" or "/": no one's own
    std::uint32_t pid = 0;
    MonotonicTime started;      // of the process; earlier lines of its pid are another's
    MonotonicTime lived{~0ull}; // it did until then; later lines of its pid may be another's

    std::string container;           // id of the one it is in, 64 hex digits; "" none
    std::uint32_t container_uid = 0; // whose runtime it is

    bool has_cgroup() const { return cgroup.size() > 1; }
};

Speaker speaker_of(const std::string &boot_id, const Clocks &clocks, const ProcessRef &process, const std::string &unit,
                   const std::string &cgroup);

enum class WordSource { Unit, Process, Manager, Journald, Container };
const char *name_of(WordSource source); // "unit"

// One entry of the journal.  Its texts are hostile bytes.
struct Word {
    WordSource source = WordSource::Unit;
    MonotonicTime at; // when it was sent where journald knows that, else when journald took it
    WallTime shown;   // what the clock showed then
    std::optional<std::uint32_t> pid, uid;
    std::optional<int> priority;
    std::string identifier, transport, message;
    bool cut = false; // of the message only the beginning was read
};

struct WordLimits {
    std::size_t lines = 200;                  // up to the instant, and as many after it
    std::size_t line_bytes = 16u << 10;       // read of each message
    std::size_t bytes = 1u << 20;             // of all messages up to the instant, and as many after it
    std::size_t entries = 100'000;            // looked at
    std::chrono::milliseconds deadline{1000}; // of the search
};

// A field of an entry, or its first `most` bytes; nullopt: the entry has none.
using JournalField = std::function<std::optional<std::string>(const char *name, std::size_t most)>;
// Reads an entry.  nullopt: what journald attests of it does not make it one of the speaker's.  received, shown: when
// journald took it.
std::optional<Word> word_of(const JournalField &field, MonotonicTime received, WallTime shown, const Speaker &speaker,
                            std::size_t line_bytes = WordLimits().line_bytes);
// Without the texts, which are most of the work.
std::optional<WordSource> source_of(const JournalField &field, MonotonicTime at, const Speaker &speaker);

struct LastWords {
    enum class State {
        None,    // they are not looked for, reason says why
        Pending, // they are looked for when the time after the instant has passed
        Failed,  // the journal could not be read, reason says why
        Read,
    };
    State state = State::None;
    std::string reason;
    MonotonicTime instant, until; // lines up to `instant` are "before", those up to `until` "after"
    std::vector<Word> words;      // in the order of their times
    bool more_before = false;     // there are older ones than were wanted
    // What there is and is not here, and why.
    std::uint64_t left_out_before = 0, left_out_after = 0;  // beyond the limits of bytes and, after, of lines
    std::uint64_t unreadable = 0;                           // entries whose message could not be read
    std::uint64_t suppressed = 0;                           // that journald did not take, because they were too many
    bool deadline_passed = false, entries_exceeded = false; // older ones may be missing
    MonotonicTime journal_begins;                           // the oldest entry of this boot; 0: not known
    bool rotated = false;     // … is younger than the process, whose first lines may be missing
    bool ended_early = false; // `until` is earlier than it should be
    std::uint64_t redaction_gave_up = 0;
    std::uint64_t took_us = 0;

    std::size_t count_before() const;
    std::size_t count_cut() const;
    // "" or what is missing, in words.
    std::string losses() const;
};
const char *name_of(LastWords::State state); // "read"

// The answer says itself how far the search came.  expired: a test's instead of the deadline.
LastWords find_last_words(Journal &journal, const Speaker &speaker, MonotonicTime instant, MonotonicTime until,
                          const WordLimits &limits, std::function<bool()> expired = {});

} // namespace incident::capture
