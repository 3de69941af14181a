#include "capture/render/render_parts.h"

#include "capture/decode/syscalls.h"
#include "capture/os/page_size.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace incident::capture {

namespace {

constexpr std::size_t curve_parts = 256; // of a curve too long to be written out

struct Point {
    std::uint64_t t_ns, bytes;
    bool operator==(const Point &) const = default;
};

// Keeps the lowest and the highest point of each part of the curve, in the order of time.
std::vector<Point> thinned(const std::vector<Point> &all) {
    if (all.size() <= 2 * curve_parts)
        return all;
    const std::uint64_t span = (all.back().t_ns - all.front().t_ns) / curve_parts + 1;
    std::vector<Point> kept;
    for (auto begin = all.begin(); begin != all.end();) {
        const std::uint64_t part = (begin->t_ns - all.front().t_ns) / span;
        const auto end =
            std::find_if(begin, all.end(), [&](const Point &p) { return (p.t_ns - all.front().t_ns) / span != part; });
        auto [low, high] =
            std::minmax_element(begin, end, [](const Point &a, const Point &b) { return a.bytes < b.bytes; });
        if (high < low)
            std::swap(low, high);
        kept.push_back(*low);
        if (high != low)
            kept.push_back(*high);
        begin = end;
    }
    return kept;
}

class Pages {
public:
    explicit Pages(const IncidentInput &input)
        : input_(input), process_(input.process), entry_(input.process.entry ? &*input.process.entry : nullptr),
          end_ns_(input.process.event.h.t_ns) {
        if (entry_)
            start_ns_ = entry_->exec_ns ? entry_->exec_ns : entry_->fork_ns;
        from_ns_ = start_ns_ ? start_ns_ : born_ns();
    }

    Json render() {
        find_beginning();
        for (const ThreadSnapshot &thread : process_.threads)
            if (thread.rings)
                count(thread);
        Json json;
        json["from_ns"] = from_ns_ ? Json(from_ns_) : Json();
        json["complete"] = because_.empty();
        json["incomplete_because"] = because_;
        json["growth_bytes"] = static_cast<std::int64_t>(growth_);
        json["minor_faults"] = minor_faults_;
        json["major_faults"] = major_faults_;
        for (const Call &call : calls_)
            json["by_call"][call.name] = {{"calls", call.calls}, {"bytes", static_cast<std::int64_t>(call.bytes)}};
        const std::vector<Point> curve = this->curve();
        json["rss_points"] = curve.size();
        json["rss_curve"] = Json::array();
        for (const Point &point : thinned(curve))
            json["rss_curve"].push_back({{"t_ns", point.t_ns}, {"rss_bytes", point.bytes}});
        return json;
    }

private:
    // From when on every call is known: what came before was overwritten, went with a thread, or was not recorded.
    void find_beginning() {
        std::size_t overwritten = 0, late = 0, unkept = 0, unknown = 0;
        for (const ThreadSnapshot &thread : process_.threads) {
            if (!thread.rings) {
                ++unknown; // one of a living process that has made no call since is not expected to have any
                continue;
            }
            const bpf::thread_slot &slot = thread.rings->slot;
            if (!slot.since_birth) {
                ++late;
                not_before(slot.first_ns);
            }
            const std::vector<bpf::memory_record> &kept = thread.rings->memory;
            const bool cut = slot.memory_events > kept.size();
            if (cut && kept.empty()) {
                ++unkept;
                not_before(end_ns_);
            } else if (cut && kept.front().t_ns > start_ns_) { // else they are of what ran before the exec
                ++overwritten;
                not_before(kept.front().t_ns);
            }
        }
        because(overwritten, "made more than {} such calls; the earlier ones are overwritten", MEMORY_RECORDS);
        because(late, "ran before the recording began");
        because(unkept, "made such calls that the rule does not keep (context.memory)");
        because(unknown, "left no records");
        if (entry_) {
            because(entry_->memory_ended, "ended before, and took their records with them");
            not_before(entry_->memory_ended_ns);
            because(entry_->threads_unrecorded, "found no slot and made calls unrecorded");
        }
        if (!entry_ || !start_ns_)
            because_.push_back("the process is older than the recording");
    }

    // When the process was born, by the clock of the records; 0: not known.
    std::uint64_t born_ns() const {
        const Clocks &clocks = input_.clocks;
        const BootTime start{process_.event.h.process_start_boot_ns};
        const MonotonicTime born = clocks.monotonic_of(start);
        return start.ns == 0 || born > clocks.monotonic ? 0 : born.ns;
    }

    void not_before(std::uint64_t t_ns) { from_ns_ = std::max(from_ns_, t_ns); }

    template <typename... Arguments>
    void because(std::uint64_t threads, fmt::format_string<Arguments...> text, Arguments &&...arguments) {
        if (threads)
            because_.push_back(fmt::format("{} thread{} {}", threads, threads == 1 ? "" : "s",
                                           fmt::format(text, std::forward<Arguments>(arguments)...)));
    }

    void count(const ThreadSnapshot &thread) {
        const bpf::memory_record *first = nullptr;
        for (const bpf::memory_record &record : thread.rings->memory) {
            if (record.t_ns < from_ns_)
                continue;
            first = first ? first : &record;
            const std::string name = syscall_name(record.nr, record.flags & bpf::SYSCALL_COMPAT);
            const auto call = std::ranges::find_if(calls_, [&](const Call &c) { return name.starts_with(c.name); });
            if (call == calls_.end())
                continue;
            ++call->calls;
            call->bytes += static_cast<std::uint64_t>(record.delta);
            growth_ += static_cast<std::uint64_t>(record.delta);
        }
        if (!first)
            return;
        const bpf::memory_record &last = thread.rings->memory.back();
        const std::uint64_t minor = thread.event ? thread.event->minor_faults : last.minor_faults;
        const std::uint64_t major = thread.event ? thread.event->major_faults : last.major_faults;
        minor_faults_ += minor - std::min<std::uint64_t>(minor, first->minor_faults);
        major_faults_ += major - std::min<std::uint64_t>(major, first->major_faults);
    }

    std::vector<Point> curve() const {
        std::vector<Point> points;
        const auto add = [&](std::uint64_t t_ns, std::uint64_t bytes) {
            if (t_ns >= start_ns_ && bytes)
                points.push_back({t_ns, bytes});
        };
        for (const ThreadSnapshot &thread : process_.threads)
            for (std::size_t i = 0; thread.rings && i < thread.rings->memory.size(); ++i)
                add(thread.rings->memory[i].t_ns, thread.rings->memory[i].rss_pages * page_size);
        if (const auto *memory = std::get_if<MemoryTrigger>(&input_.trigger))
            for (const auto &[t_ns, bytes] : memory->samples)
                add(t_ns, bytes);
        const bpf::death_event &event = process_.event;
        add(end_ns_, (event.rss_file_pages + event.rss_anon_pages + event.rss_shmem_pages) * page_size);
        std::ranges::stable_sort(points, {}, &Point::t_ns);
        points.erase(std::unique(points.begin(), points.end()), points.end());
        return points;
    }

    struct Call {
        const char *name;
        std::uint64_t calls = 0, bytes = 0; // bytes and growth_: sums of signed numbers, which wrap
    };

    const IncidentInput &input_;
    const ProcessSnapshot &process_;
    const bpf::process_entry *entry_;
    std::uint64_t end_ns_, start_ns_ = 0, from_ns_ = 0;
    std::vector<std::string> because_;
    std::array<Call, 4> calls_{{{"brk"}, {"mmap"}, {"munmap"}, {"mremap"}}};
    std::uint64_t growth_ = 0, minor_faults_ = 0, major_faults_ = 0;
};

} // namespace

Json pages_json(const IncidentInput &input) {
    return Pages(input).render();
}

} // namespace incident::capture
