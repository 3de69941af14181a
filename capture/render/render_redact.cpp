#include "capture/render/render_redact.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace incident::capture {

namespace {

// How often a search of these bytes at worst looks at a byte: once, or, where the pattern is so large that RE2 does not
// keep its states, once for each of some of its instructions.
std::uint64_t steps_of(const RE2 &pattern, std::size_t bytes) {
    constexpr std::uint64_t instructions_at_once = 16;
    return bytes * (1 + static_cast<std::uint64_t>(pattern.ProgramSize()) / instructions_at_once);
}

// Sorted and merged ranges replaced by the mark.
std::string replaced(std::string_view text, std::vector<std::pair<std::size_t, std::size_t>> ranges) {
    std::ranges::sort(ranges);
    std::string out;
    std::size_t done = 0;
    for (const auto &[begin, end] : ranges) {
        if (end <= done)
            continue;
        if (begin >= done) {
            out.append(text.substr(done, begin - done));
            out += Redactor::mark;
        }
        done = end;
    }
    return out.append(text.substr(done));
}

} // namespace

Redactor::Redactor(const std::vector<std::string> &patterns, std::uint64_t steps) : steps_left_(steps) {
    RE2::Options options(RE2::Latin1); // bytes: what a process writes need not be UTF-8
    options.set_log_errors(false);
    for (const std::string &pattern : patterns)
        if (!patterns_.emplace_back(pattern, options).ok())
            problem_ =
                "pattern \"" + pattern + "\" cannot be used (" + patterns_.back().error() + "): all text left out";
}

void Redactor::matches_in_line(std::string_view text, std::size_t begin, std::size_t end, Ranges &ranges) const {
    constexpr std::uint64_t searches_max = 2048; // over all of a text, each pattern
    constexpr std::uint64_t steps_least = 1'000'000;
    const re2::StringPiece line(text.data() + begin, end - begin);
    for (const RE2 &pattern : patterns_) {
        std::uint64_t allowed = std::max(steps_least, searches_max * steps_of(pattern, line.size()));
        re2::StringPiece match;
        for (std::size_t at = 0; at < line.size();) {
            const std::uint64_t steps = steps_of(pattern, line.size() - at);
            if (steps > std::min(allowed, steps_left_)) {
                if (steps > steps_left_)
                    steps_left_ = 0; // the bundle's: the texts to come are lost as well, short ones too
                ++given_up_;
                ranges.emplace_back(begin, end);
                return;
            }
            allowed -= steps;
            steps_left_ -= steps;
            if (!pattern.Match(line, at, line.size(), RE2::UNANCHORED, &match, 1))
                break;
            const std::size_t found = static_cast<std::size_t>(match.data() - line.data());
            at = found + std::max<std::size_t>(match.size(), 1);
            if (!match.empty())
                ranges.emplace_back(begin + found, begin + at);
        }
    }
}

Redactor::Ranges Redactor::matches(std::string_view text) const {
    Ranges ranges;
    // a match never spans a line: each has a budget of its own
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        matches_in_line(text, begin, end, ranges);
        begin = end + 1;
    }
    return ranges;
}

std::string Redactor::text(std::string_view original) const {
    if (!active() || original.empty())
        return std::string(original);
    if (!problem_.empty())
        return std::string(mark);
    constexpr std::size_t short_text = 512, remembered_max = 4096;
    const bool remember = original.size() <= short_text;
    if (remember)
        if (const auto it = known_.find(std::string(original)); it != known_.end())
            return it->second;
    const std::string_view examined = original.substr(0, examined_max);
    std::string result = replaced(examined, matches(examined));
    if (original.size() > examined_max)
        result += mark;
    if (remember && known_.size() < remembered_max)
        known_.emplace(original, result);
    return result;
}

std::string Redactor::separated(std::string_view original) const {
    if (!active() || original.empty())
        return std::string(original);
    if (!problem_.empty())
        return std::string(mark);
    const std::string_view examined = original.substr(0, examined_max);
    std::string joined(examined);
    std::ranges::replace(joined, '\0', ' ');
    Ranges ranges = matches(joined);
    for (std::size_t begin = 0; begin < examined.size();) {
        const std::size_t end = std::min(examined.find('\0', begin), examined.size());
        for (const auto &[from, to] : matches(examined.substr(begin, end - begin)))
            ranges.emplace_back(begin + from, begin + to);
        begin = end + 1;
    }
    std::string result = replaced(examined, std::move(ranges));
    if (original.size() > examined_max)
        result += mark;
    return result;
}

std::string Redactor::lines(std::string_view bytes, std::string (Redactor::*line)(std::string_view) const) const {
    std::string out;
    while (!bytes.empty()) {
        const std::size_t end = bytes.find('\n');
        out += (this->*line)(bytes.substr(0, end));
        if (end == std::string_view::npos)
            break;
        out += '\n';
        bytes.remove_prefix(end + 1);
    }
    return out;
}

std::string Redactor::fields_line(std::string_view line) const {
    std::string out;
    while (!line.empty()) {
        const std::size_t end = std::min(line.find(' '), line.size());
        out += text(line.substr(0, end));
        line.remove_prefix(end);
        if (!line.empty()) {
            out += ' ';
            line.remove_prefix(1);
        }
    }
    return out;
}

// "start-end perms offset dev inode      path": only the path is the process's to choose
std::string Redactor::maps_line(std::string_view line) const {
    const std::size_t path = line.find_first_of("/[");
    if (path == std::string_view::npos)
        return std::string(line);
    return std::string(line.substr(0, path)) + text(line.substr(path));
}

// {"fd":3,"target":"…",…}: redacted inside the JSON string, not across it
std::string Redactor::fds_line(std::string_view line) const {
    auto object = nlohmann::ordered_json::parse(line, nullptr, false);
    if (!object.is_object())
        return std::string(line.empty() ? line : mark);
    for (auto &[key, value] : object.items())
        if (value.is_string())
            value = text(value.get_ref<const std::string &>());
    return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string Redactor::file(const std::string &bundle_path, const std::string &bytes) const {
    if (!active())
        return bytes;
    if (bundle_path == "process/cmdline" || bundle_path == "process/environ")
        return separated(bytes);
    if (bundle_path == "process/stdout" || bundle_path == "process/stderr" || bundle_path == "process/exe" ||
        bundle_path == "process/cwd" || bundle_path == "process/root")
        return text(bytes);
    if (bundle_path == "process/maps")
        return lines(bytes, &Redactor::maps_line);
    if (bundle_path == "process/mountinfo")
        return lines(bytes, &Redactor::fields_line);
    if (bundle_path == "process/fds" || bundle_path == "process/sockets")
        return lines(bytes, &Redactor::fds_line);
    return bytes;
}

void Redactor::memory(std::string &bytes) const {
    constexpr std::size_t run_min = 4;
    if (!active())
        return;
    const auto printable = [](char c) { return c >= 0x20 && c < 0x7f; };
    for (std::size_t begin = 0; begin < bytes.size();) {
        if (!printable(bytes[begin])) {
            ++begin;
            continue;
        }
        std::size_t end = begin;
        while (end < bytes.size() && printable(bytes[end]))
            ++end;
        if (end - begin >= run_min) {
            Ranges ranges{{0, end - begin}};
            if (problem_.empty())
                ranges = matches(std::string_view(bytes).substr(begin, end - begin));
            for (const auto &[from, to] : ranges)
                std::fill(bytes.begin() + begin + from, bytes.begin() + begin + to, 'X');
        }
        begin = end;
    }
}

} // namespace incident::capture
