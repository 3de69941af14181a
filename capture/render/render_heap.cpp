#include "capture/collect/heap.h"

#include "capture/decode/decode_text.h"
#include "capture/render/render_parts.h"

#include <nlohmann/json.hpp>

#include <cstddef>

namespace incident::capture {

namespace {

Json sums_json(const HeapSums &sums) {
    return {{"allocations", sums.allocations},
            {"allocated_bytes", sums.allocated_bytes},
            {"frees", sums.frees},
            {"freed_bytes", sums.freed_bytes}};
}

Json account_json(const HeapSnapshot &heap) {
    Json account = sums_json(heap.total);
    for (const auto &[name, member] : heap_account)
        account[name] = heap.*member;
    return account;
}

// As heap_class says: 0 is size 0, c > 0 is 2^(c-1) .. 2^c - 1, the last all above.
Json sizes_json(const HeapSnapshot &heap) {
    Json list = Json::array();
    for (std::size_t i = 0; i < HEAP_CLASSES; ++i) {
        const HeapSnapshot::Class &all = heap.sizes[i], &window = heap.sizes_in_window[i];
        if (all.allocations == 0 && window.allocations == 0)
            continue;
        const std::uint64_t from = i == 0 ? 0 : 1ull << (i - 1);
        const std::uint64_t to = i == 0 ? 0 : from * 2 - 1;
        list.push_back({{"from", from},
                        {"to", i + 1 == HEAP_CLASSES ? Json() : Json(to)},
                        {"allocations", all.allocations},
                        {"bytes", all.bytes},
                        {"window_allocations", window.allocations},
                        {"window_bytes", window.bytes}});
    }
    return list;
}

Json document(const HeapSnapshot &heap, bool light, const Redactor &redactor) {
    const std::uint64_t window_ns = heap.read_ns > heap.window_from_ns ? heap.read_ns - heap.window_from_ns : 0;
    Json functions = Json::array();
    for (const HeapFunction &function : heap.functions)
        functions.push_back({{"name", valid_utf8(function.name)},
                             {"path", valid_utf8(redactor.text(function.path))},
                             {"probed", function.probed},
                             {"problem", valid_utf8(redactor.text(function.problem))}});
    return {{"layout", HEAP_FILE_LAYOUT},
            {"level", valid_utf8(heap.level)},
            {"asked", valid_utf8(heap.asked)},
            {"reason", valid_utf8(redactor.text(heap.reason))},
            {"exec_ns", heap.exec_ns},
            {"since_ns", heap.since_ns},
            {"read_ns", heap.read_ns},
            {"window", {{"from_ns", heap.window_from_ns}, {"ns", window_ns}}},
            {"functions", std::move(functions)},
            {"account", account_json(heap)},
            {"in_window", sums_json(heap.window)},
            {"history",
             {{"from_ns", heap.history_from_ns}, {"records", heap.history.size()}, {"written", heap.history_written}}},
            {"files",
             {{"stacks", light ? 0 : heap.stacks.size()},
              {"live", light ? 0 : heap.allocations.size()},
              {"history", light ? 0 : heap.history.size()}}},
            {"cost", {{"calls", heap.calls}, {"ns", heap.calls_ns}}},
            {"sizes", sizes_json(heap)}};
}

template <typename Record> std::string bytes_of(const std::vector<Record> &records) {
    return {reinterpret_cast<const char *>(records.data()), records.size() * sizeof(Record)};
}

// What lay on the stack is memory of the process, as memory.bin's bytes are.
std::string stack_bytes(const std::vector<HeapStackRecord> &stacks, const Redactor &redactor) {
    std::string bytes = bytes_of(stacks);
    if (!redactor.active())
        return bytes;
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(HeapStackRecord)) {
        std::string slice = bytes.substr(at + offsetof(HeapStackRecord, slice), HEAP_SLICE);
        redactor.memory(slice);
        bytes.replace(at + offsetof(HeapStackRecord, slice), HEAP_SLICE, slice);
    }
    return bytes;
}

} // namespace

std::vector<std::pair<std::string, std::string>> render_heap(const HeapSnapshot &heap, bool light,
                                                             const Redactor &redactor) {
    std::vector<std::pair<std::string, std::string>> files;
    files.emplace_back("heap.json", json_text(document(heap, light, redactor)));
    if (light)
        return files;
    if (!heap.stacks.empty())
        files.emplace_back("heap/stacks.bin", stack_bytes(heap.stacks, redactor));
    if (!heap.allocations.empty())
        files.emplace_back("heap/live.bin", bytes_of(heap.allocations));
    if (!heap.history.empty())
        files.emplace_back("heap/history.bin", bytes_of(heap.history));
    return files;
}

Json heap_summary(const HeapSnapshot &heap, bool light, const Redactor &redactor) {
    Json summary = document(heap, light, redactor);
    for (const char *key : {"layout", "functions", "cost", "sizes"})
        summary.erase(key);
    return summary;
}

std::vector<Loss> heap_losses(const HeapSnapshot &heap) {
    std::vector<Loss> losses;
    const auto lost = [&](std::string reason, std::uint64_t count) {
        if (count)
            losses.push_back({"heap", std::move(reason), count});
    };
    const std::string why = heap.reason.empty() ? "" : ": " + heap.reason;
    if (heap.since_ns == 0)
        lost("not recorded, though a rule asks for \"" + heap.asked + "\"" + why, 1);
    else if (heap.level != heap.asked)
        lost("recorded at level \"" + heap.level + "\", a rule asks for \"" + heap.asked + "\"" + why, 1);
    for (const HeapFunction &function : heap.functions)
        if (heap.since_ns != 0 && !function.probed)
            lost(function.name + " of " + function.path + " has no probe" +
                     (function.problem.empty() ? "" : ": " + function.problem),
                 1);
    lost("allocations not remembered as live: no room", heap.lost);
    lost("allocations and frees whose call stack was not kept", heap.no_stack);
    lost("calls not recorded: no room for the thread's frame", heap.no_frame);
    lost("calls that were never seen to return", heap.unfinished);
    lost("calls that were under way when the recording began", heap.unentered);
    lost("calls after another program was executed", heap.strangers);
    return losses;
}

} // namespace incident::capture
