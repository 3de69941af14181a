#include "postmortem/heap/view.h"

#include "postmortem/terminal/escape.h"
#include "postmortem/terminal/times.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace incident::postmortem {

namespace {

constexpr std::size_t pointers_shown = 8, stacks_shown = 3, frames_shown = 5;

std::string text_of(JsonView json) {
    return printable(json.shown());
}

std::string allocations(std::uint64_t count) {
    return fmt::format("{} allocation{}", count, count == 1 ? "" : "s");
}

std::string events(JsonView sums, std::string_view verb, std::string_view count, std::string_view bytes) {
    return fmt::format("{} {} ({})", sums[count].count(), verb, size_text(sums[bytes].count()));
}

std::string grown_text(std::int64_t bytes) {
    return fmt::format("{}{}", bytes < 0 ? "-" : "+",
                       size_text(static_cast<std::uint64_t>(bytes < 0 ? -bytes : bytes)));
}

std::string joined(JsonView list) {
    std::string text;
    list.each([&](JsonView item) { text += (text.empty() ? "" : ", ") + text_of(item); });
    return text;
}

std::int64_t difference(JsonView more, JsonView less) {
    return static_cast<std::int64_t>(more.count() - less.count());
}

// Which allocation a pointer is about: those of one address follow each other.
std::string identity(JsonView allocation) {
    return text_of(allocation["start"]) + "@" + text_of(allocation["allocated"]["t_ns"]) + "@" +
           text_of(allocation["freed"]["t_ns"]);
}

} // namespace

std::vector<std::string> heap_account_lines(JsonView heap) {
    std::vector<std::string> lines;
    if (!heap.is_object())
        return lines;
    const std::string reason = text_of(heap["reason"]), asked = text_of(heap["asked"]), level = text_of(heap["level"]);
    const std::string why = reason.empty() ? "" : ": " + reason;
    const std::uint64_t since = heap["since_ns"].count(), read = heap["read_ns"].count();
    if (since == 0) {
        lines.push_back(fmt::format("not recorded, though {} is asked for{}", asked, why));
        return lines;
    }
    std::string head = fmt::format("{}, recorded for {}", level, span_text(read > since ? read - since : 0));
    if (const std::uint64_t exec = heap["exec_ns"].count(); exec && exec <= since)
        head += fmt::format(", from {} after its start on", span_text(since - exec));
    if (asked != level)
        head += fmt::format("; {} is asked for{}", asked, why);
    lines.push_back(std::move(head));
    const JsonView account = heap["account"], window = heap["in_window"];
    lines.push_back(fmt::format("{} alive ({}); {}, {}", allocations(account["live"].count()),
                                size_text(account["live_bytes"].count()),
                                events(account, "made in all", "allocations", "allocated_bytes"),
                                events(account, "freed", "frees", "freed_bytes")));
    lines.push_back(fmt::format("in the last {}: {}, {}: {}", span_text(heap["window"]["ns"].count()),
                                events(window, "made", "allocations", "allocated_bytes"),
                                events(window, "freed", "frees", "freed_bytes"),
                                grown_text(difference(window["allocated_bytes"], window["freed_bytes"]))));
    heap["notes"].each([&](JsonView note) { lines.push_back(text_of(note)); });
    const std::uint64_t stacks = heap["unwound"]["stacks"].count(), named = heap["unwound"]["named"].count();
    if (named < stacks)
        lines.push_back(
            fmt::format("{} of {} call stacks were not unwound: there was no time", stacks - named, stacks));
    return lines;
}

std::vector<std::string> heap_growth_lines(JsonView heap) {
    std::vector<std::string> lines;
    const bool grew = heap["growing"].size() > 0;
    const JsonView stacks = heap[grew ? "growing" : "largest"];
    for (std::size_t i = 0; i < std::min(stacks.size(), stacks_shown); ++i) {
        const JsonView stack = stacks.at(i);
        const std::string alive =
            fmt::format("{} in {} alive", size_text(stack["live_bytes"].count()), allocations(stack["live"].count()));
        const std::int64_t bytes = stack["bytes"].integer().value_or(0);
        lines.push_back(
            fmt::format("{} by {}", grew ? grown_text(bytes) + ", " + alive : alive, text_of(stack["function"])));
        const JsonView frames = stack["frames"];
        for (std::size_t j = 0; j < std::min(frames.size(), frames_shown); ++j)
            lines.push_back("  " + text_of(frames.at(j)));
        if (frames.size() == 0)
            lines.push_back("  its call stack " + text_of(stack["stack"]) + " was not unwound");
    }
    if (stacks.size() > stacks_shown)
        lines.push_back(grew ? "… more in heap/growth.folded" : "… more in incidentctl --json info");
    return lines;
}

std::vector<std::string> heap_pointer_lines(JsonView heap) {
    std::vector<std::string> lines;
    std::set<std::string> described;
    const JsonView pointers = heap["pointers"];
    for (std::size_t i = 0; i < std::min(pointers.size(), pointers_shown); ++i) {
        const JsonView pointer = pointers.at(i), allocation = pointer["allocation"];
        const bool known = allocation.is_object();
        const bool fresh = known && described.insert(identity(allocation)).second;
        std::string head =
            fmt::format("{} {}: {}", joined(pointer["at"]), text_of(pointer["address"]), text_of(pointer["text"]));
        if (!known)
            head += "; " + text_of(heap["reach"]);
        lines.push_back(std::move(head));
        if (fresh)
            pointer["lines"].each([&](JsonView line) { lines.push_back("  " + text_of(line)); });
    }
    if (pointers.size() > pointers_shown)
        lines.push_back(fmt::format("… {} more (incidentctl threads)", pointers.size() - pointers_shown));
    return lines;
}

std::vector<std::string> heap_register_lines(JsonView heap) {
    std::vector<std::string> lines;
    heap["pointers"].each([&](JsonView pointer) {
        std::string line =
            fmt::format("{} {}: {}", joined(pointer["at"]), text_of(pointer["address"]), text_of(pointer["text"]));
        const JsonView allocation = pointer["allocation"];
        for (const char *what : {"freed", "allocated"})
            if (const std::string place = text_of(allocation[what]["place"]); !place.empty())
                line += fmt::format(", {} by {}", what, place);
        lines.push_back(std::move(line));
    });
    return lines;
}

} // namespace incident::postmortem
