// Describes a biography in words and as JSON.
#pragma once

#include "postmortem/heap/biography.h"
#include "postmortem/read/json_view.h"

#include <functional>
#include <string>
#include <vector>

namespace incident::postmortem {

// What a biography needs in order to name threads, places and times. Texts may hold bytes of the process.
struct HeapWords {
    std::uint64_t t_ns = 0;                           // the time it is told at
    std::function<std::string(std::uint64_t)> place;  // names a call stack: "make_node (list.c:41)"; "" not known
    std::function<std::string(std::uint32_t)> thread; // "worker[1234]"
};

// "1.2 ms before", "30 µs after"
std::string when_text(std::uint64_t t_ns, const HeapWords &words);
// "by make_node (list.c:41) with malloc, in worker[1234], 1.2 ms before"
std::string event_text(const HeapEvent &event, const HeapWords &words);
// "16 bytes into an allocation of 64 bytes, freed 0.3 ms before"
std::string where_text(const Biography &biography, const HeapWords &words);
// The events of the allocation, one on each line: allocated, resized, freed, freed again, and what was there before.
std::vector<std::string> life_lines(const Biography &biography, const HeapWords &words);
// Why nothing is known about an address, and how far back the records reach.
std::string unknown_text(const Heap &heap, const HeapWords &words);

// {address, where, offset, allocation{start, size, state, allocated, freed, freed_again[], resized_from, resized_to},
//  previous, earlier, below, text, lines[]}; an event is {t_ns, before_ns, tid, function, stack, place}
Json to_json(const Biography &biography, const HeapWords &words);

} // namespace incident::postmortem
