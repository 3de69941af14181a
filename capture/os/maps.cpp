#include "capture/os/maps.h"

#include "capture/os/lines.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace incident::capture {

namespace {

// Takes fields off the front of a line.
class Fields {
public:
    explicit Fields(std::string_view line) : rest_(line) {}

    template <typename Integer> bool number(Integer &value, int base, char until) {
        const auto [stop, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value, base);
        if (error != std::errc{})
            return false;
        rest_.remove_prefix(stop - rest_.data());
        return take(until);
    }

    bool permissions(Mapping &mapping) {
        if (rest_.size() < 5)
            return false;
        mapping.read = rest_[0] == 'r';
        mapping.write = rest_[1] == 'w';
        mapping.execute = rest_[2] == 'x';
        mapping.shared = rest_[3] == 's';
        rest_.remove_prefix(4);
        return take(' ');
    }

    std::string_view rest() {
        rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size()));
        return rest_;
    }

private:
    bool take(char until) {
        if (rest_.empty())
            return until == ' '; // the last number of an anonymous mapping
        if (rest_.front() != until)
            return false;
        rest_.remove_prefix(1);
        return true;
    }

    std::string_view rest_;
};

// "7f00-7f10 r-xp 00000000 08:01 1234    /usr/bin/x": fs/proc/task_mmu.c, show_map_vma()
std::optional<Mapping> parse_mapping(std::string_view line) {
    Mapping mapping;
    Fields fields(line);
    if (!fields.number(mapping.start.value, 16, '-') || !fields.number(mapping.end.value, 16, ' ') ||
        !fields.permissions(mapping) || !fields.number(mapping.offset.value, 16, ' ') ||
        !fields.number(mapping.major, 16, ':') || !fields.number(mapping.minor, 16, ' ') ||
        !fields.number(mapping.inode, 10, ' ') || mapping.end <= mapping.start)
        return std::nullopt;
    std::string_view path = fields.rest();
    constexpr std::string_view deleted = " (deleted)";
    if (path.ends_with(deleted)) {
        mapping.deleted = true;
        path.remove_suffix(deleted.size());
    }
    mapping.path = path;
    return mapping;
}

} // namespace

Maps Maps::parse(std::string_view text) {
    std::vector<Mapping> mappings;
    for (const std::string_view line : lines_of(text)) {
        if (mappings.size() == mappings_max)
            break;
        if (auto mapping = parse_mapping(line))
            mappings.push_back(std::move(*mapping));
    }
    return of(std::move(mappings));
}

Maps Maps::of(std::vector<Mapping> mappings) {
    Maps maps;
    std::ranges::stable_sort(mappings, {}, &Mapping::start);
    maps.mappings_ = std::move(mappings);
    return maps;
}

const Mapping *Maps::find(UserAddress address) const {
    auto it = std::ranges::upper_bound(mappings_, address, {}, &Mapping::start);
    if (it == mappings_.begin())
        return nullptr;
    --it;
    return address < it->end ? &*it : nullptr;
}

bool maps_end_early(std::string_view text, std::string_view own) {
    constexpr std::string_view last = "[vsyscall]\n";
    const std::string_view line = text.substr(0, text.find_last_not_of('\n') + 1);
    const Maps maps = Maps::parse(line.substr(line.find_last_of('\n') + 1));
    constexpr UserAddress end_of_32_bits{1ull << 32};
    return own.ends_with(last) && !text.ends_with(last) && !maps.empty() && maps.all().back().end > end_of_32_bits;
}

} // namespace incident::capture
