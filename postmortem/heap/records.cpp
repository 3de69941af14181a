#include "postmortem/heap/records.h"

#include "postmortem/read/json_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace incident::postmortem {

namespace {

constexpr std::size_t functions_max = 1024;

capture::HeapSums sums_of(JsonView json) {
    return {json["allocations"].count(), json["allocated_bytes"].count(), json["frees"].count(),
            json["freed_bytes"].count()};
}

void read_account(JsonView json, capture::HeapSnapshot &heap) {
    heap.level = json["level"].text();
    heap.asked = json["asked"].text();
    heap.reason = json["reason"].text();
    heap.exec_ns = json["exec_ns"].count();
    heap.since_ns = json["since_ns"].count();
    heap.read_ns = json["read_ns"].count();
    heap.window_from_ns = json["window"]["from_ns"].count();
    heap.history_from_ns = json["history"]["from_ns"].count();
    heap.history_written = json["history"]["written"].count();
    heap.window = sums_of(json["in_window"]);
    const JsonView account = json["account"];
    heap.total = sums_of(account);
    for (const auto &[name, member] : capture::heap_account)
        heap.*member = account[name].count();
    heap.calls = json["cost"]["calls"].count();
    heap.calls_ns = json["cost"]["ns"].count();
    json["functions"].each([&](JsonView function) {
        if (heap.functions.size() < functions_max)
            heap.functions.push_back({std::string(function["name"].text()), std::string(function["path"].text()),
                                      std::string(function["problem"].text()), function["probed"].flag()});
    });
}

// True if all records have been read; the size of the file says how many there are.
template <typename Record>
bool read_records(const capture::Bundle &bundle, const std::string &path, std::uint64_t announced,
                  std::vector<Record> &into, std::vector<std::string> &notes) {
    const auto bytes = bundle.read(path, heap_file_max);
    if (!bytes && bytes.error().code == ENOENT) {
        if (announced)
            notes.push_back(fmt::format("{} is missing; heap.json speaks of {} records", path, announced));
        return announced == 0;
    }
    if (!bytes) {
        notes.push_back(bytes.error().what);
        return false;
    }
    into.resize(bytes->size() / sizeof(Record));
    if (!into.empty())
        std::memcpy(static_cast<void *>(into.data()), bytes->data(), into.size() * sizeof(Record));
    if (bytes->size() % sizeof(Record))
        notes.push_back(fmt::format("{} ends within a record", path));
    if (into.size() != announced)
        notes.push_back(fmt::format("{} has {} records, heap.json speaks of {}", path, into.size(), announced));
    return into.size() >= announced && bytes->size() % sizeof(Record) == 0;
}

} // namespace

const capture::HeapStackRecord *Heap::stack(std::uint64_t id) const {
    const auto found = std::ranges::lower_bound(known.stacks, id, {}, &capture::HeapStackRecord::id);
    return found != known.stacks.end() && found->id == id && id != 0 ? &*found : nullptr;
}

std::uint64_t Heap::unrecorded() const {
    return known.unfinished + known.unentered + known.no_frame;
}

void order(Heap &heap) {
    if (!std::ranges::is_sorted(heap.known.stacks, {}, &capture::HeapStackRecord::id))
        std::ranges::stable_sort(heap.known.stacks, {}, &capture::HeapStackRecord::id);
    if (!std::ranges::is_sorted(heap.known.allocations, {}, &capture::HeapLiveRecord::address))
        std::ranges::stable_sort(heap.known.allocations, {}, &capture::HeapLiveRecord::address);
    if (!std::ranges::is_sorted(heap.known.history, {}, &capture::HeapHistoryRecord::t_ns))
        std::ranges::stable_sort(heap.known.history, {}, &capture::HeapHistoryRecord::t_ns);
}

std::optional<Heap> read_heap(const capture::Bundle &bundle) {
    if (!bundle.has("heap.json"))
        return std::nullopt;
    Heap heap;
    const auto text = bundle.read("heap.json", heap_json_max);
    const auto document = text ? parse_json(*text) : Result<Json>(fail(text.error()));
    if (!document) {
        heap.notes.push_back("heap.json: " + document.error().what);
        return heap;
    }
    const JsonView json(*document);
    read_account(json, heap.known);
    if (json["layout"].integer() != capture::HEAP_FILE_LAYOUT) {
        heap.notes.push_back(fmt::format("heap/*.bin are not read: their layout is {}, known is {}",
                                         json["layout"].shown(), capture::HEAP_FILE_LAYOUT));
        return heap;
    }
    const JsonView files = json["files"];
    read_records(bundle, "heap/stacks.bin", files["stacks"].count(), heap.known.stacks, heap.notes);
    heap.live_read = read_records(bundle, "heap/live.bin", files["live"].count(), heap.known.allocations, heap.notes) &&
                     (!heap.known.allocations.empty() || heap.known.live == 0); // a light bundle has the account alone
    read_records(bundle, "heap/history.bin", files["history"].count(), heap.known.history, heap.notes);
    order(heap);
    return heap;
}

} // namespace incident::postmortem
