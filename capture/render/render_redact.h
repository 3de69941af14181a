// Replaces what the administrator's patterns match ([privacy] redact) by "[redacted]" before anything is written.
// Internal to capture/.
//
// The watched process chooses the text, so a pattern must not be able to hang or crash the daemon.  RE2 finds one match
// in a time that grows only with the text.  But to find all matches can take the square of that time, if each match is
// decided only at the end of the text ("a.*b|a").  So each text, and each bundle as a whole, has a budget of bytes that
// are read. A text for which the budget is too small is left out of the bundle.
#pragma once

#include "capture/collect/snapshot.h"

#include <re2/re2.h>

#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace incident::capture {

class Redactor {
public:
    static constexpr std::string_view mark = "[redacted]";
    // How many bytes of one text are read; the rest of the text is left out of the bundle.
    static constexpr std::size_t examined_max = 64 * 1024;

    // How often all patterns together read a byte.  Each time takes about 1 ns, or 20 ns if RE2 cannot keep its states.
    static constexpr std::uint64_t steps_max = 256'000'000;

    // If a pattern does not compile, problem() is not empty and every text becomes "[redacted]", because an incident
    // without paths is better than one with a secret.
    explicit Redactor(const std::vector<std::string> &patterns, std::uint64_t steps = steps_max);

    bool active() const { return !patterns_.empty() || !problem_.empty(); }
    const std::string &problem() const { return problem_; }
    // How many texts were left out because matching them took too long.
    std::uint64_t given_up() const { return given_up_; }

    // Redacts a path, a command line or a name.
    std::string text(std::string_view original) const;
    // Redacts strings that are separated by NUL (cmdline, environ).  Patterns are tried on each string, and on the
    // whole with spaces instead of NULs, so that "--password \\S+" works too.
    std::string separated(std::string_view original) const;
    // Redacts a collected file, by its path in the bundle: process/cmdline, environ, fds, maps, exe, cwd, root,
    // mountinfo, stdout, stderr.  Other files are returned as they are.
    std::string file(const std::string &bundle_path, const std::string &bytes) const;
    // Redacts memory: printable texts that match are overwritten with 'X', so that lengths stay.
    void memory(std::string &bytes) const;

private:
    using Ranges = std::vector<std::pair<std::size_t, std::size_t>>; // [begin, end)
    Ranges matches(std::string_view text) const;
    void matches_in_line(std::string_view text, std::size_t begin, std::size_t end, Ranges &ranges) const;
    std::string lines(std::string_view bytes, std::string (Redactor::*line)(std::string_view) const) const;
    std::string fields_line(std::string_view line) const;
    std::string maps_line(std::string_view line) const;
    std::string fds_line(std::string_view line) const;

    std::list<RE2> patterns_; // a list, because an RE2 cannot move
    std::string problem_;
    mutable std::uint64_t steps_left_, given_up_ = 0;
    mutable std::unordered_map<std::string, std::string> known_; // the results for short texts, which occur often
};

} // namespace incident::capture
