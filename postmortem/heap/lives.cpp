#include "postmortem/heap/lives.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace incident::postmortem {

namespace {

using capture::HeapHistoryRecord;
using capture::HeapLiveRecord;

HeapEvent event_of(const HeapHistoryRecord &record) {
    return {record.t_ns, record.stack, record.tid, record.function};
}

bool is_realloc(std::uint8_t function) {
    return function == bpf::HEAP_REALLOC || function == bpf::HEAP_REALLOCARRAY || function == bpf::HEAP_RALLOCX ||
           function == bpf::HEAP_XALLOCX;
}

class Collector {
public:
    Collector(const Heap &heap, std::span<const std::uint64_t> addresses)
        : heap_(heap), asked_(addresses.begin(), addresses.end()) {
        std::ranges::sort(asked_);
    }

    Lives collect() {
        choose();
        gather();
        for (const HeapLiveRecord &live : heap_.known.allocations)
            if (starts_.contains(live.address))
                add_live(live);
        std::erase_if(lives_, [](const auto &entry) { return entry.second.empty(); }); // records of no known kind
        if (heap_.live_read)
            for (auto &[start, lives] : lives_)
                close_unlisted(lives.back());
        return std::move(lives_);
    }

private:
    // True if one of the wanted addresses lies in or near it.
    bool wanted(std::uint64_t start, std::uint64_t size) const {
        const std::uint64_t low = start > heap_near ? start - heap_near : 0;
        const std::uint64_t reach = size > UINT64_MAX - heap_near ? UINT64_MAX : size + heap_near;
        const std::uint64_t high = reach > UINT64_MAX - start ? UINT64_MAX : start + reach;
        const auto next = std::ranges::lower_bound(asked_, low);
        return next != asked_.end() && *next <= high;
    }

    void choose() {
        for (const HeapHistoryRecord &record : heap_.known.history)
            if (wanted(record.address, record.size))
                starts_.insert(record.address);
        for (const HeapLiveRecord &live : heap_.known.allocations)
            if (wanted(live.address, live.size))
                starts_.insert(live.address);
    }

    // Records of one address and one time can stand in either order: a realloc's free is written when it returns.
    // What can have been comes first.
    void gather() {
        std::unordered_map<std::uint64_t, std::vector<const HeapHistoryRecord *>> records;
        for (const HeapHistoryRecord &record : heap_.known.history) {
            pair(record);
            if (starts_.contains(record.address))
                records[record.address].push_back(&record);
        }
        for (auto &[start, list] : records) {
            std::vector<Life> &lives = lives_[start];
            for (std::size_t i = 0; i < list.size(); ++i) {
                for (std::size_t j = i; j < list.size() && list[j]->t_ns == list[i]->t_ns; ++j)
                    if (fits(lives, *list[j])) {
                        std::rotate(list.begin() + static_cast<std::ptrdiff_t>(i),
                                    list.begin() + static_cast<std::ptrdiff_t>(j),
                                    list.begin() + static_cast<std::ptrdiff_t>(j) + 1);
                        break;
                    }
                add(lives, *list[i]);
            }
        }
    }

    static bool open(const std::vector<Life> &lives) { return !lives.empty() && lives.back().end == Life::End::none; }

    static bool fits(const std::vector<Life> &lives, const HeapHistoryRecord &record) {
        if (lives.empty()) // a known free ends what is older; of an unknown one nothing can be said
            return record.kind == bpf::HEAP_ALLOCATED || !(record.flags & bpf::HEAP_UNKNOWN);
        return open(lives) == (record.kind == bpf::HEAP_FREED);
    }

    void add(std::vector<Life> &lives, const HeapHistoryRecord &record) {
        if (record.kind == bpf::HEAP_ALLOCATED)
            add_allocation(lives, record);
        else if (record.kind == bpf::HEAP_FREED)
            add_free(lives, record);
    }

    void add_allocation(std::vector<Life> &lives, const HeapHistoryRecord &record) {
        if (open(lives)) {
            lives.back().end = Life::End::reused;
            lives.back().over_ns = record.t_ns;
        }
        Life &life = lives.emplace_back();
        life.start = record.address;
        life.size = record.size;
        life.allocated = event_of(record);
        if (record.flags & bpf::HEAP_UNLISTED)
            unlisted_.insert({record.address, record.t_ns});
        if (const auto found = partners_.find(&record); found != partners_.end())
            life.resized_from = HeapBlock{found->second->address, found->second->size};
    }

    void add_free(std::vector<Life> &lives, const HeapHistoryRecord &record) {
        const bool unknown = record.flags & bpf::HEAP_UNKNOWN;
        if (!open(lives) && unknown && !lives.empty() && lives.back().freed) {
            lives.back().freed_again.push_back(event_of(record));
            return;
        }
        if (!open(lives)) { // what was allocated is older than the history, or its record lost
            Life &life = lives.emplace_back();
            life.start = record.address;
            life.size = record.size;
            life.size_known = !unknown;
        }
        Life &life = lives.back();
        life.freed = event_of(record);
        life.over_ns = record.t_ns;
        life.end = Life::End::freed;
        if (const auto found = partners_.find(&record); found != partners_.end())
            life.resized_to = HeapBlock{found->second->address, found->second->size};
    }

    // The two records of a realloc: a thread's free by one, and its next record an allocation by the same call.
    void pair(const HeapHistoryRecord &record) {
        const HeapHistoryRecord *&before = last_[record.tid];
        if (before && record.kind == bpf::HEAP_ALLOCATED && before->kind == bpf::HEAP_FREED &&
            is_realloc(record.function) && before->function == record.function && before->stack == record.stack &&
            (starts_.contains(record.address) || starts_.contains(before->address))) {
            partners_.emplace(&record, before);
            partners_.emplace(before, &record);
        }
        before = &record;
    }

    void add_live(const HeapLiveRecord &live) {
        const HeapEvent event{live.t_ns, live.stack, live.tid, static_cast<std::uint8_t>(live.function)};
        std::vector<Life> &lives = lives_[live.address];
        listed_.insert({live.address, live.t_ns});
        for (Life &life : lives) {
            if (life.allocated && life.allocated->t_ns == live.t_ns)
                return; // freed since, where history says so
            // Freed after the live ones were read, or its own record was overwritten.
            if (!life.allocated && life.freed && live.t_ns <= life.freed->t_ns) {
                life.allocated = event;
                life.size = live.size;
                life.size_known = true;
                return;
            }
            if (life.allocated && life.allocated->t_ns > live.t_ns)
                return; // long over
        }
        if (open(lives)) {
            lives.back().end = Life::End::reused;
            lives.back().over_ns = live.t_ns;
        }
        Life &life = lives.emplace_back();
        life.start = live.address;
        life.size = live.size;
        life.allocated = event;
    }

    void close_unlisted(Life &life) const {
        if (life.end != Life::End::none || !life.allocated)
            return;
        const std::pair key{life.start, life.allocated->t_ns};
        if (!listed_.contains(key) && !unlisted_.contains(key) && life.allocated->t_ns <= heap_.known.read_ns)
            life.end = Life::End::unseen;
    }

    struct HashPair {
        std::size_t operator()(const std::pair<std::uint64_t, std::uint64_t> &pair) const {
            return std::hash<std::uint64_t>()(pair.first * 31 + pair.second);
        }
    };
    using Allocations = std::unordered_set<std::pair<std::uint64_t, std::uint64_t>, HashPair>; // address, t_ns

    const Heap &heap_;
    std::vector<std::uint64_t> asked_;
    std::unordered_set<std::uint64_t> starts_;
    std::unordered_map<std::uint32_t, const HeapHistoryRecord *> last_;
    std::unordered_map<const HeapHistoryRecord *, const HeapHistoryRecord *> partners_;
    Allocations listed_, unlisted_;
    Lives lives_;
};

} // namespace

Lives lives_about(const Heap &heap, std::span<const std::uint64_t> addresses) {
    return Collector(heap, addresses).collect();
}

} // namespace incident::postmortem
