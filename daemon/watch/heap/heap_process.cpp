#include "daemon/watch/heap/heap_process.h"

#include "capture/collect/collectors.h"
#include "capture/os/maps.h"
#include "capture/os/process_dir.h"
#include "capture/os/process_files.h"
#include "daemon/os/clocks.h"
#include "daemon/watch/heap/heap_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>

namespace incident::daemon {

namespace {

constexpr unsigned sites_max = 256; // told apart by the attach cookie
constexpr std::size_t maps_bytes_max = 16 << 20;
constexpr std::chrono::milliseconds maps_patience{1000}, file_patience{2000};

const char *name_of(rules::Allocations level) {
    return level == rules::Allocations::History ? "history" : level == rules::Allocations::Sizes ? "sizes" : "pages";
}

// /proc/PID/maps; a process that hangs with its mmap_lock held hangs its reader.
std::optional<capture::Maps> read_maps(const capture::OsRoots &os, std::uint32_t pid) {
    auto text = std::make_shared<std::string>();
    const auto ran = capture::run_bounded(
        capture::subject_of(os, pid),
        [text, path = fmt::format("{}/{}/maps", os.proc, pid)] {
            std::ifstream file(path, std::ios::binary);
            std::string part(64 * 1024, '\0');
            while (text->size() < maps_bytes_max &&
                   (file.read(part.data(), static_cast<std::streamsize>(part.size())) || file.gcount() > 0))
                text->append(part, 0, static_cast<std::size_t>(file.gcount()));
        },
        capture::Clock::now() + maps_patience);
    if (ran != capture::Ran::Done)
        return std::nullopt;
    return capture::Maps::parse(*text);
}

// Where return addresses may point: the executable mappings as few ranges, over the narrowest gaps.
void set_ranges(const capture::Maps &maps, bpf::heap_account &settings) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
    for (const auto &mapping : maps.all())
        if (mapping.execute && mapping.path != "[vsyscall]")
            ranges.emplace_back(mapping.start.value, mapping.end.value);
    while (ranges.size() > HEAP_RANGES) {
        std::size_t narrowest = 0;
        for (std::size_t i = 0; i + 1 < ranges.size(); ++i)
            if (ranges[i + 1].first - ranges[i].second < ranges[narrowest + 1].first - ranges[narrowest].second)
                narrowest = i;
        ranges[narrowest].second = ranges[narrowest + 1].second;
        ranges.erase(ranges.begin() + static_cast<std::ptrdiff_t>(narrowest) + 1);
    }
    for (std::size_t i = 0; i < HEAP_RANGES; ++i)
        settings.range[i] = {i < ranges.size() ? ranges[i].first : 0,
                             i < ranges.size() ? ranges[i].second - ranges[i].first : 0};
}

// The mapped file itself.
Result<TargetFile> open_mapping(const capture::OsRoots &os, std::uint32_t pid, const capture::Mapping &mapping) {
    return capture::within<TargetFile>(capture::subject_of(os, pid), file_patience,
                                       [os, pid, mapping]() -> Result<TargetFile> {
                                           const auto process = capture::ProcessDir::open(os, pid);
                                           if (!process)
                                               return fail(process.error());
                                           auto file = capture::open_mapped(process->fd(), mapping);
                                           if (!file)
                                               return fail(std::move(file.error()).in(mapping.path));
                                           const auto identity = identify(file->get());
                                           if (!identity)
                                               return fail(identity.error());
                                           return TargetFile{std::move(*file), *identity, mapping.path};
                                       });
}

} // namespace

const Result<std::vector<HeapSite>> &HeapFunctionCache::of(const TargetFile &file) {
    if (known_.size() >= most)
        known_.clear();
    const auto found = known_.find(file.identity);
    if (found != known_.end())
        return found->second;
    return known_.emplace(file.identity, find_heap_functions(file.fd.get(), abilities_)).first->second;
}

HeapProcess::HeapProcess(const capture::ProcessRef &process, std::uint64_t exec_ns, HeapWish wish,
                         std::unique_ptr<HeapSlot> slot, std::optional<HeapMaps> maps, std::string reason)
    : process_(process), exec_ns_(exec_ns), wish_(wish), reason_(std::move(reason)), maps_(std::move(maps)),
      slot_(std::move(slot)), level_(wish.level) {}

bool HeapProcess::put(const HeapSite &site, const TargetFile &file, capture::HeapFunction &function) {
    const bool frees = site.function == bpf::HEAP_FREE || site.function == bpf::HEAP_DELETE;
    const std::string path = fmt::format("/proc/self/fd/{}", file.fd.get());
    const std::uint64_t cookie = slot_->number() |
                                 static_cast<std::uint64_t>(site.function) << HEAP_COOKIE_FUNCTION_SHIFT |
                                 static_cast<std::uint64_t>(sites_ % sites_max) << HEAP_COOKIE_SITE_SHIFT |
                                 (site.returns.empty() ? 0 : HEAP_LEAVE_AT_RET);
    ++sites_;
    // The leaving probes first: a call that is entered unseen is only counted, one that is never left holds a frame.
    std::vector<LatencyKernel::Link> links;
    const auto attach = [&](HeapKernel::Role role, capture::FileOffset offset) {
        auto link = slot_->kernel().attach(role, path, offset, process_.pid, cookie);
        if (!link) {
            function.problem = link.error().what;
            return false;
        }
        links.push_back(std::move(*link));
        return true;
    };
    bool ok = true;
    for (const auto returns : site.returns)
        ok = ok && attach(HeapKernel::Role::LeaveAtRet, returns);
    if (!frees && site.returns.empty())
        ok = ok && attach(HeapKernel::Role::Leave, site.offset);
    ok = ok && attach(frees ? HeapKernel::Role::Free : HeapKernel::Role::Enter, site.offset);
    if (!ok)
        return false; // those that were put go again
    links_.insert(links_.end(), links.begin(), links.end());
    return true;
}

bool HeapProcess::look(const capture::OsRoots &os, HeapFunctionCache &cache) {
    if (!slot_ || ended_)
        return true;
    const auto maps = read_maps(os, process_.pid);
    std::vector<capture::HeapFunction> found;
    std::string problem = maps ? "" : "its mappings could not be read in time";
    if (maps) {
        bpf::heap_account settings{};
        set_ranges(*maps, settings);
        slot_->kernel().set_ranges(slot_->number(), settings);
    }
    for (const auto &mapping : maps ? maps->all() : std::vector<capture::Mapping>{}) {
        if (!mapping.is_file() || !mapping.execute || ended_ ||
            std::ranges::find(files_, std::pair(mapping.inode, mapping.path)) != files_.end())
            continue;
        auto file = open_mapping(os, process_.pid, mapping);
        if (!file) {
            problem = file.error().what;
            continue;
        }
        const auto &sites = cache.of(*file);
        if (!sites)
            unread_ = fmt::format(" ({} {})", mapping.path, sites.error().what); // a 32-bit program's, as a rule
        for (const HeapSite &site : sites ? *sites : std::vector<HeapSite>{}) {
            capture::HeapFunction function{site.name, mapping.path, site.problem.empty() ? site.remark : site.problem,
                                           false};
            if (site.problem.empty() && sites_ < sites_max)
                function.probed = put(site, *file, function);
            else if (site.problem.empty())
                function.problem = fmt::format("{} places are probed already", sites_max);
            found.push_back(std::move(function));
        }
        files_.emplace_back(mapping.inode, mapping.path);
    }
    const std::lock_guard lock(mutex_);
    std::ranges::move(found, std::back_inserter(functions_));
    const bool any = std::ranges::any_of(functions_, &capture::HeapFunction::probed);
    if (any && !since_ns_)
        since_ns_ = clock_ns(CLOCK_MONOTONIC);
    problem_ = any               ? ""
               : problem.empty() ? "no function of the malloc family was found in what it has mapped" + unread_
                                 : std::move(problem);
    return any;
}

void HeapProcess::retire(Detacher &detacher) {
    if (!slot_)
        return;
    std::shared_ptr<HeapSlot> slot = slot_;
    {
        const std::lock_guard lock(mutex_);
        last_ = slot->kernel().account(slot->number());
        slot_.reset();
    }
    // Each takes the kernel a while, several at once no longer than one.  The slot goes with the last.
    constexpr std::size_t parts = 16;
    std::array<std::vector<LatencyKernel::Link>, parts> shares;
    for (std::size_t i = 0; i < links_.size(); ++i)
        shares[i % parts].push_back(std::move(links_[i]));
    links_.clear();
    for (auto &share : shares) {
        if (share.empty())
            continue;
        share.push_back(slot);
        detacher.drop(std::move(share));
    }
}

void HeapProcess::limit(rules::Allocations level, std::string why, std::uint64_t now) {
    const std::lock_guard lock(mutex_);
    limited_ = std::move(why);
    if (level == level_)
        return;
    level_ = level;
    if (!slot_ || !wish_.sizes.history)
        return;
    const bool history = level == rules::Allocations::History;
    if (history)
        history_since_ns_ = now;
    slot_->kernel().set_history_mask(slot_->number(), history ? wish_.sizes.history - 1 : ~0ull);
}

HeapProcess::Load HeapProcess::load() const {
    if (!maps_)
        return {};
    const auto numbers = account();
    const std::lock_guard lock(mutex_);
    return {level_, numbers.sums.allocations, numbers.sums.frees + numbers.unknown_frees};
}

bpf::heap_account HeapProcess::account() const {
    const std::lock_guard lock(mutex_);
    return slot_ ? slot_->kernel().account(slot_->number()) : last_;
}

HeapProcess::Copy HeapProcess::copy(std::uint64_t now) const {
    Copy copy;
    copy.read_ns = now;
    if (!maps_)
        return copy;
    copy.account = account();
    copy.history = maps_->history(copy.account.history_next);
    return copy;
}

capture::HeapSnapshot HeapProcess::snapshot(const Copy *of, std::uint64_t now) const {
    capture::HeapSnapshot heap;
    heap.asked = name_of(wish_.level);
    heap.exec_ns = exec_ns_;
    HeapReading reading;
    {
        const std::lock_guard lock(mutex_);
        heap.since_ns = since_ns_;
        heap.functions = functions_;
        heap.reason = !reason_.empty() ? reason_ : !problem_.empty() ? problem_ : limited_;
        heap.level = since_ns_ ? name_of(level_) : "pages";
        reading.history_since_ns = history_since_ns_;
        if (!since_ns_ && heap.reason.empty())
            heap.reason = "the process ended before its probes were there";
    }
    if (!maps_ || !heap.since_ns)
        return heap;
    const Copy all = of ? Copy{} : copy(now);
    const Copy &from = of ? *of : all;
    reading.account = from.account;
    reading.history = from.history;
    reading.read_ns = from.read_ns;
    reading.window_ns = wish_.window_ns;
    reading.stacks = maps_->stacks();
    reading.live = maps_->live();
    add_reading(reading, heap);
    return heap;
}

HeapProcess::State HeapProcess::state() const {
    State state;
    const auto numbers = maps_ ? account() : bpf::heap_account{};
    state.calls = numbers.sums.allocations + numbers.sums.frees + numbers.unknown_frees;
    state.lost = numbers.lost + numbers.no_frame + numbers.no_stack;
    const std::lock_guard lock(mutex_);
    state.since_ns = since_ns_;
    state.probed = static_cast<std::size_t>(std::ranges::count_if(functions_, &capture::HeapFunction::probed));
    state.level = name_of(level_);
    state.limited = level_ < wish_.level && reason_.empty();
    state.reason = !reason_.empty() ? reason_ : !problem_.empty() ? problem_ : limited_;
    return state;
}

} // namespace incident::daemon
