// [privacy] redact: what the administrator's patterns match is replaced by "[redacted]" before
// anything is written.  Internal to capture/.
//
// Patterns run over text that the watched process chose, so they must not be able to hang or crash the daemon.  RE2
// finds one match in a time that grows with the text only.  All matches of a text can still take the square of that:
// where each is decided at the end of the text alone ("a.*b|a").  So each text, and each bundle as a whole, has a
// budget of bytes looked at; what it does not suffice for is left out of the bundle.
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
    // Bytes of one text that are looked at; what lies beyond is left out of the bundle.
    static constexpr std::size_t examined_max = 64 * 1024;

    // Times a byte is looked at, all patterns together.  About 1 ns each, 20 where RE2 cannot keep its states.
    static constexpr std::uint64_t steps_max = 256'000'000;

    // A pattern that does not compile makes problem() non-empty and every text "[redacted]":
    // better an incident without paths than one with a secret.
    explicit Redactor(const std::vector<std::string> &patterns, std::uint64_t steps = steps_max);

    bool active() const { return !patterns_.empty() || !problem_.empty(); }
    const std::string &problem() const { return problem_; }
    // Texts that were left out because matching them took too long.
    std::uint64_t given_up() const { return given_up_; }

    // A path, a command line, a name.
    std::string text(std::string_view original) const;
    // Strings separated by NUL (cmdline, environ): patterns see each string alone and the whole
    // with spaces for NULs, so that "--password \\S+" works too.
    std::string separated(std::string_view original) const;
    // A collected file, by its bundle path: process/cmdline, environ, fds, maps, exe, cwd, root,
    // mountinfo.  Others are returned as they are.
    std::string file(const std::string &bundle_path, const std::string &bytes) const;
    // Memory: printable runs that match are overwritten with 'X', lengths stay.
    void memory(std::string &bytes) const;

private:
    using Ranges = std::vector<std::pair<std::size_t, std::size_t>>; // [begin, end)
    Ranges matches(std::string_view text) const;
    void matches_in_line(std::string_view text, std::size_t begin, std::size_t end, Ranges &ranges) const;
    std::string lines(std::string_view bytes, std::string (Redactor::*line)(std::string_view) const) const;
    std::string fields_line(std::string_view line) const;
    std::string maps_line(std::string_view line) const;
    std::string fds_line(std::string_view line) const;

    std::list<RE2> patterns_; // each stays where it is
    std::string problem_;
    mutable std::uint64_t steps_left_, given_up_ = 0;
    mutable std::unordered_map<std::string, std::string> known_; // short texts come again and again
};

} // namespace incident::capture
