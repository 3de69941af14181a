// A heap put together call by call, as the recorder would have seen it.
#pragma once

#include "postmortem/heap/describe.h"

#include <string>
#include <string_view>

namespace incident::postmortem::test {

class HeapLab {
public:
    HeapLab();

    // A call at a time, in ns; stack: any number but 0.
    HeapLab &malloc(std::uint64_t t_ns, std::uint64_t address, std::uint64_t size, std::uint64_t stack = 1,
                    std::uint32_t tid = 100, std::uint8_t flags = 0);
    HeapLab &free(std::uint64_t t_ns, std::uint64_t address, std::uint64_t stack = 2, std::uint32_t tid = 100);
    // Called at t_ns, returned at back_ns.
    HeapLab &realloc(std::uint64_t t_ns, std::uint64_t back_ns, std::uint64_t from, std::uint64_t to,
                     std::uint64_t size, std::uint64_t stack = 3, std::uint32_t tid = 100);
    // As if the ring had overwritten all before t_ns.
    HeapLab &forget(std::uint64_t t_ns);

    Heap heap() const; // with what is alive, in order
    Biography at(std::uint64_t address, std::uint64_t t_ns = 10'000) const;
    // Biography::lines and its first sentence, places "stack N", threads "thread N".
    std::string told(std::uint64_t address, std::uint64_t t_ns = 10'000) const;

    static HeapWords words(std::uint64_t t_ns);
    capture::HeapSnapshot snapshot; // history as the calls were written, live as it is now
};

} // namespace incident::postmortem::test
