#include "postmortem/heap/describe.h"

#include "capture/render/timeline_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace incident::postmortem {

namespace {

std::string bytes(std::uint64_t count) {
    return fmt::format("{} byte{}", count, count == 1 ? "" : "s");
}

std::string span(std::uint64_t ns) {
    return capture::duration_text(static_cast<std::int64_t>(std::min<std::uint64_t>(ns, INT64_MAX)));
}

std::string size_words(const Life &life) {
    return life.size_known ? "of " + bytes(life.size) : "of unknown size";
}

std::string_view state_of(const Life &life) {
    switch (life.end) {
    case Life::End::freed:
        return "freed";
    case Life::End::reused:
        return "given out again, its free not recorded";
    case Life::End::unseen:
        return "no longer known as alive, its free not recorded";
    case Life::End::none:
        break;
    }
    return "alive";
}

std::string block_text(const HeapBlock &block) {
    return fmt::format("{} at {:#x}", bytes(block.size), block.start);
}

Json event_json(const std::optional<HeapEvent> &event, const HeapWords &words) {
    if (!event)
        return {};
    const std::string place = words.place(event->stack);
    const auto before = static_cast<std::int64_t>(words.t_ns - event->t_ns);
    return {{"t_ns", event->t_ns},
            {"before_ns", before},
            {"tid", event->tid},
            {"function", function_name_of(event->function)},
            {"stack", event->stack ? Json(fmt::format("{:#x}", event->stack)) : Json()},
            {"place", place.empty() ? Json() : Json(place)}};
}

Json block_json(const std::optional<HeapBlock> &block) {
    return block ? Json{{"start", fmt::format("{:#x}", block->start)}, {"size", block->size}} : Json();
}

Json life_json(const std::optional<Life> &life, const HeapWords &words) {
    if (!life)
        return {};
    Json again = Json::array();
    for (const HeapEvent &event : life->freed_again)
        again.push_back(event_json(event, words));
    return {{"start", fmt::format("{:#x}", life->start)},
            {"size", life->size_known ? Json(life->size) : Json()},
            {"state", state_of(*life)},
            {"allocated", event_json(life->allocated, words)},
            {"freed", event_json(life->freed, words)},
            {"freed_again", std::move(again)},
            {"resized_from", block_json(life->resized_from)},
            {"resized_to", block_json(life->resized_to)}};
}

} // namespace

std::string when_text(std::uint64_t t_ns, const HeapWords &words) {
    return t_ns <= words.t_ns ? span(words.t_ns - t_ns) + " before" : span(t_ns - words.t_ns) + " after";
}

std::string event_text(const HeapEvent &event, const HeapWords &words) {
    const std::string place = words.place(event.stack);
    const std::string_view function = function_name_of(event.function);
    std::string text = "by " + (place.empty() ? std::string("an unknown caller") : place);
    if (!function.empty() && function != "malloc" && function != "free")
        text += fmt::format(" with {}", function);
    return text + fmt::format(", in {}, {}", words.thread(event.tid), when_text(event.t_ns, words));
}

std::string where_text(const Biography &biography, const HeapWords &words) {
    if (biography.where == Biography::Where::unknown)
        return "in no allocation known";
    const Life &life = *biography.life;
    std::string text;
    if (biography.where == Biography::Where::before)
        text = bytes(biography.offset) + " before the start of";
    else if (biography.where == Biography::Where::past)
        text = biography.offset ? bytes(biography.offset) + " past the end of" : "the first byte past the end of";
    else
        text = biography.offset ? bytes(biography.offset) + " into" : "the start of";
    text += fmt::format(" an allocation {}", size_words(life));
    if (biography.where != Biography::Where::inside || biography.offset)
        text += fmt::format(" at {:#x}", life.start);
    if (life.end == Life::End::freed)
        return text + ", freed " + when_text(life.freed->t_ns, words);
    return text + fmt::format(", {}", state_of(life));
}

std::vector<std::string> life_lines(const Biography &biography, const HeapWords &words) {
    std::vector<std::string> lines;
    if (!biography.life)
        return lines;
    const Life &life = *biography.life;
    if (life.resized_from)
        lines.push_back(fmt::format("resized from {}, {}", block_text(*life.resized_from),
                                    life.allocated ? event_text(*life.allocated, words) : "when is not known"));
    else
        lines.push_back(life.allocated ? "allocated " + event_text(*life.allocated, words)
                                       : "allocated before the history begins");
    if (life.freed && life.resized_to)
        lines.push_back(fmt::format("resized to {}, {}", block_text(*life.resized_to), event_text(*life.freed, words)));
    else if (life.freed)
        lines.push_back("freed " + event_text(*life.freed, words));
    for (const HeapEvent &event : life.freed_again)
        lines.push_back("freed again " + event_text(event, words));
    if (biography.below)
        lines.push_back(fmt::format(
            "just below, {} at {:#x} alive, allocated {}", size_words(*biography.below), biography.below->start,
            biography.below->allocated ? event_text(*biography.below->allocated, words) : "before the history begins"));
    if (biography.next_above)
        lines.push_back("just above begins an allocation of " + block_text(*biography.next_above) + ", alive");
    if (const auto &previous = biography.previous) {
        std::string line =
            fmt::format("before that, an allocation {} at {:#x}", size_words(*previous), previous->start);
        if (previous->allocated)
            line += ", allocated " + event_text(*previous->allocated, words);
        if (previous->freed)
            line += ", freed " + event_text(*previous->freed, words);
        if (biography.earlier)
            line += fmt::format("; and {} earlier", biography.earlier);
        lines.push_back(std::move(line));
    }
    return lines;
}

std::string unknown_text(const Heap &heap, const HeapWords &words) {
    const capture::HeapSnapshot &known = heap.known;
    if (known.since_ns == 0)
        return "the heap was not recorded" + (known.reason.empty() ? "" : ": " + known.reason);
    std::string text = "recorded since " + when_text(known.since_ns, words);
    if (known.level != "history")
        return text + "; at level \"sizes\" only what is alive is known";
    return text + (known.history_from_ns ? "; the history reaches back to " + when_text(known.history_from_ns, words)
                                         : "; there is no history");
}

Json to_json(const Biography &biography, const HeapWords &words) {
    constexpr std::string_view places[] = {"unknown", "inside", "past", "before"};
    return {{"address", fmt::format("{:#x}", biography.address)},
            {"where", places[static_cast<std::size_t>(biography.where)]},
            {"offset", biography.offset},
            {"allocation", life_json(biography.life, words)},
            {"previous", life_json(biography.previous, words)},
            {"earlier", biography.earlier},
            {"below", life_json(biography.below, words)},
            {"text", where_text(biography, words)},
            {"lines", life_lines(biography, words)}};
}

} // namespace incident::postmortem
