#include "postmortem/heap/findings.h"

#include "postmortem/heap/call_stack_names.h"
#include "postmortem/unwind/place_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <unordered_set>

namespace incident::postmortem {

namespace {

constexpr std::string_view registers_looked_at[] = {"rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "r8",
                                                    "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};

constexpr std::uint64_t lowest_pointer = 65536; // vm.mmap_min_addr: below is a null pointer's offset, not a lost one

class Addresses {
public:
    void add(std::uint64_t address, std::string at) {
        for (HeapPointer &pointer : pointers_)
            if (pointer.biography.address == address) {
                pointer.at.push_back(std::move(at));
                return;
            }
        HeapPointer &pointer = pointers_.emplace_back();
        pointer.at.push_back(std::move(at));
        pointer.biography.address = address;
    }
    std::vector<HeapPointer> take() { return std::move(pointers_); }

private:
    std::vector<HeapPointer> pointers_;
};

std::vector<HeapPointer> pointers_at_hand(const Incident &incident, const CrashImage &image,
                                          const capture::HeapHistoryRecord *last) {
    Addresses addresses;
    if (incident.view()["signal"]["fatal"].flag(true))
        if (const auto fault = incident.view()["signal"]["address"].natural())
            addresses.add(*fault, "fault address");
    // The address at which the allocator's own check stopped the process.
    if (image.signal == SIGABRT && last && last->kind == bpf::HEAP_FREED)
        addresses.add(last->address, "last freed");
    if (image.threads.empty() || !image.threads.front().registers)
        return addresses.take();
    const user_regs_struct &registers = *image.threads.front().registers;
    for (const std::string_view name : registers_looked_at)
        if (const std::uint64_t value = register_value(registers, name).value_or(0))
            addresses.add(value, std::string(name));
    for (std::size_t i = 0; i < heap_stack_words; ++i) {
        const std::uint64_t offset = i * sizeof(std::uint64_t);
        if (const auto word = image.memory.word(registers.rsp + offset); word && *word)
            addresses.add(*word, offset ? fmt::format("rsp+{:#x}", offset) : "rsp");
    }
    return addresses.take();
}

std::int64_t difference(std::uint64_t more, std::uint64_t less) {
    return static_cast<std::int64_t>(more - less);
}
std::int64_t grown(const capture::HeapSums &sums) {
    return difference(sums.allocated_bytes, sums.freed_bytes);
}
std::int64_t grown_count(const capture::HeapSums &sums) {
    return difference(sums.allocations, sums.frees);
}

void tell(HeapFindings &findings) {
    std::vector<std::uint64_t> addresses;
    addresses.reserve(findings.pointers.size());
    for (const HeapPointer &pointer : findings.pointers)
        addresses.push_back(pointer.biography.address);
    const Lives lives = lives_about(findings.heap, addresses);
    for (HeapPointer &pointer : findings.pointers)
        pointer.biography = biography(lives, pointer.biography.address, findings.words.t_ns);
    std::erase_if(findings.pointers, [](const HeapPointer &pointer) {
        return pointer.biography.where == Biography::Where::unknown &&
               (pointer.at.front() != "fault address" || pointer.biography.address < lowest_pointer);
    });
}

bool is_unknown_free(const capture::HeapHistoryRecord &record) {
    return record.kind == bpf::HEAP_FREED && record.flags & bpf::HEAP_UNKNOWN;
}

// The return address of the call of free(): the first word on the stack at its entry.
std::uint64_t return_address(const capture::HeapStackRecord &stack) {
    std::uint64_t address = 0;
    if (stack.length >= sizeof address)
        std::memcpy(&address, stack.slice, sizeof address);
    return address;
}

// True if the allocator called free() for itself. A caller without a name in the allocator's own library counts as the
// allocator, because the functions that the library exports have names.
bool allocators_own(const capture::HeapStackRecord &stack, const CallStackNames &names, const CrashImage &image) {
    constexpr std::string_view emptying[] = {"tcache_thread_shutdown", "__malloc_arena_thread_freeres",
                                             "__libc_thread_freeres"};
    if (names.calls_through(stack.id, emptying))
        return true;
    const auto *function = image.maps.find(UserAddress(stack.ip)),
               *caller = image.maps.find(UserAddress(return_address(stack)));
    return names.caller(stack.id).empty() && function && caller && function->is_file() && function->path != image.exe &&
           function->path == caller->path && function->inode == caller->inode;
}

using Stacks = std::vector<const capture::HeapStackRecord *>;

Stacks by_growth(const HeapFindings &findings, capture::HeapSums capture::HeapStackRecord::*sums) {
    Stacks stacks;
    for (const capture::HeapStackRecord &stack : findings.heap.known.stacks)
        if (grown(stack.*sums) > 0)
            stacks.push_back(&stack);
    std::ranges::stable_sort(stacks, [&](const auto *a, const auto *b) { return grown(a->*sums) > grown(b->*sums); });
    return stacks;
}

Json stack_list(const Stacks &stacks, const CallStackNames &names, capture::HeapSums capture::HeapStackRecord::*sums) {
    constexpr std::size_t stacks_max = 10, frames_shown = 8;
    Json list = Json::array();
    for (std::size_t i = 0; i < std::min(stacks.size(), stacks_max); ++i) {
        const capture::HeapStackRecord &stack = *stacks[i];
        const std::string place = names.place(stack.id);
        list.push_back({{"stack", hex(stack.id)},
                        {"function", function_name_of(static_cast<std::uint8_t>(stack.function))},
                        {"bytes", grown(stack.*sums)},
                        {"count", grown_count(stack.*sums)},
                        {"live_bytes", grown(stack.total)},
                        {"live", grown_count(stack.total)},
                        {"place", place.empty() ? Json() : Json(place)},
                        {"frames", names.lines(stack.id, frames_shown)}});
    }
    return list;
}

std::string frames_file(const HeapFindings &findings, const Analysis &analysis) {
    Json frames = Json::array(), stacks = Json::object();
    for (const Frame &frame : analysis.call_frames)
        frames.push_back(to_json(frame));
    for (const CallStack &stack : analysis.call_stacks)
        stacks[hex(stack.id)] = {{"frames", stack.frames}, {"truncated", stack.truncated}, {"reason", stack.reason}};
    const std::size_t all = findings.heap.known.stacks.size(), named = analysis.call_stacks.size();
    Json own = Json::array();
    for (const std::uint64_t id : findings.allocators_own)
        own.push_back(hex(id));
    return dump_json(Json{{"frames", std::move(frames)},
                          {"stacks", std::move(stacks)},
                          {"allocators_own", std::move(own)},
                          {"not_unwound", all > named ? all - named : 0}}) +
           "\n";
}

std::string folded_file(const HeapFindings &findings, const CallStackNames &names) {
    std::map<std::string, std::int64_t> lines; // by name: call stacks of the same functions are one in a flame graph
    for (const capture::HeapStackRecord *stack : by_growth(findings, &capture::HeapStackRecord::window))
        lines[names.folded(stack->id)] += grown(stack->window);
    std::string text;
    for (const auto &[line, bytes] : lines)
        text += fmt::format("{} {}\n", line, bytes);
    return text;
}

} // namespace

const Biography *HeapFindings::of(std::uint64_t address) const {
    for (const HeapPointer &pointer : pointers)
        if (pointer.biography.address == address)
            return &pointer.biography;
    return nullptr;
}

const capture::HeapHistoryRecord *HeapFindings::last_call(std::uint32_t tid) const {
    const auto &history = heap.known.history;
    for (auto record = history.rbegin(); record != history.rend(); ++record)
        if (record->tid == tid && record->t_ns <= words.t_ns)
            return &*record;
    return nullptr;
}

std::optional<HeapFindings> find_heap(const capture::Bundle &bundle, const Incident &incident,
                                      const CrashImage &image) {
    auto heap = read_heap(bundle);
    if (!heap)
        return std::nullopt;
    return find_heap(std::move(*heap), incident, image);
}

HeapFindings find_heap(Heap heap, const Incident &incident, const CrashImage &image) {
    HeapFindings findings;
    findings.heap = std::move(heap);
    const std::int64_t trigger = incident.trigger_ns().value_or(0);
    findings.words.t_ns = trigger > 0 ? static_cast<std::uint64_t>(trigger) : findings.heap.known.read_ns;
    findings.words.place = [](std::uint64_t) { return std::string(); };
    findings.words.thread = [&image](std::uint32_t tid) {
        for (const ImageThread &thread : image.threads)
            if (thread.tid == tid)
                return fmt::format("{}[{}]", thread.comm, tid);
        return fmt::format("thread {}", tid); // it has ended
    };
    const auto *last = image.threads.empty() ? nullptr : findings.last_call(image.threads.front().tid);
    findings.pointers = pointers_at_hand(incident, image, last);
    tell(findings);
    return findings;
}

std::vector<const capture::HeapStackRecord *> stacks_by_need(const HeapFindings &findings) {
    Stacks ordered;
    std::unordered_set<std::uint64_t> seen;
    const auto add = [&](const capture::HeapStackRecord *stack) {
        if (stack && seen.insert(stack->id).second)
            ordered.push_back(stack);
    };
    const auto add_event = [&](const std::optional<HeapEvent> &event) {
        if (event)
            add(findings.heap.stack(event->stack));
    };
    for (const HeapPointer &pointer : findings.pointers)
        for (const auto *life : {&pointer.biography.life, &pointer.biography.previous, &pointer.biography.below})
            if (*life) {
                add_event((*life)->allocated);
                add_event((*life)->freed);
                for (const HeapEvent &again : (*life)->freed_again)
                    add_event(again);
            }
    for (const capture::HeapHistoryRecord &record : findings.heap.known.history)
        if (is_unknown_free(record))
            add(findings.heap.stack(record.stack));
    for (const auto sums : {&capture::HeapStackRecord::window, &capture::HeapStackRecord::total})
        for (const capture::HeapStackRecord *stack : by_growth(findings, sums))
            add(stack);
    for (const capture::HeapStackRecord &stack : findings.heap.known.stacks)
        add(&stack);
    return ordered;
}

void add_names(HeapFindings &findings, const Analysis &analysis, const CrashImage &image) {
    const auto names = std::make_shared<CallStackNames>(analysis);
    findings.words.place = [names](std::uint64_t id) { return names->place(id); };
    std::unordered_map<std::uint64_t, bool> own;
    const auto is_own = [&](const capture::HeapHistoryRecord &record) {
        if (!is_unknown_free(record))
            return false;
        const auto [it, fresh] = own.try_emplace(record.stack, false);
        if (const auto *stack = fresh ? findings.heap.stack(record.stack) : nullptr)
            it->second = allocators_own(*stack, *names, image);
        return it->second;
    };
    if (std::erase_if(findings.heap.known.history, is_own) == 0)
        return;
    for (const auto &[id, of_allocator] : own)
        if (of_allocator)
            findings.allocators_own.push_back(id);
    std::ranges::sort(findings.allocators_own);
    tell(findings);
}

Json heap_document(const HeapFindings &findings, const Analysis &analysis) {
    const CallStackNames names(analysis);
    Json pointers = Json::array();
    for (const HeapPointer &pointer : findings.pointers) {
        Json json = to_json(pointer.biography, findings.words);
        json["at"] = pointer.at;
        pointers.push_back(std::move(json));
    }
    const auto list = [&](capture::HeapSums capture::HeapStackRecord::*sums) {
        return stack_list(by_growth(findings, sums), names, sums);
    };
    const std::size_t all = findings.heap.known.stacks.size();
    return {{"as_of_ns", findings.words.t_ns},
            {"reach", unknown_text(findings.heap, findings.words)},
            {"pointers", std::move(pointers)},
            {"growing", list(&capture::HeapStackRecord::window)},
            {"largest", list(&capture::HeapStackRecord::total)},
            {"unwound", {{"stacks", all}, {"named", analysis.call_stacks.size()}}},
            {"notes", findings.heap.notes}};
}

capture::BundleFiles heap_analysis_files(const HeapFindings &findings, const Analysis &analysis) {
    capture::BundleFiles files;
    if (findings.heap.known.stacks.empty())
        return files;
    files.emplace_back("heap/frames.json", frames_file(findings, analysis));
    if (std::string folded = folded_file(findings, CallStackNames(analysis)); !folded.empty())
        files.emplace_back("heap/growth.folded", std::move(folded));
    return files;
}

} // namespace incident::postmortem
