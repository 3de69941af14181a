// One process whose heap is recorded: its probes, its maps, and what the bundle gets of them.
#pragma once

#include "capture/collect/collect.h"
#include "capture/collect/heap.h"
#include "capture/os/process_ref.h"
#include "daemon/probe/detacher.h"
#include "daemon/probe/probe_target.h"
#include "daemon/record/recorder_heap.h"
#include "daemon/watch/heap/heap_functions.h"
#include "rules/model/rule.h"

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace incident::daemon {

// Remembers which functions a file defines, so that each file is searched once.
class HeapFunctionCache {
public:
    explicit HeapFunctionCache(UprobeAbilities abilities) : abilities_(abilities) {}
    // Error: the file is no program, or is broken.  The Error is remembered too.
    const Result<std::vector<HeapSite>> &of(const TargetFile &file);

private:
    static constexpr std::size_t most = 4096; // files; if there are more, all are forgotten
    UprobeAbilities abilities_;
    std::map<FileIdentity, Result<std::vector<HeapSite>>> known_;
};

// What rules ask for about a process.
struct HeapWish {
    rules::Allocations level = rules::Allocations::Pages;
    HeapSizes sizes;
    std::uint64_t window_ns = 0;
    bool operator==(const HeapWish &) const = default;
};

// A slot in the tables of the kernel side.  It is given back when nobody writes to it any more.
class HeapSlot {
public:
    HeapSlot(HeapKernel &kernel, unsigned number, std::function<void(unsigned)> give_back)
        : kernel_(kernel), number_(number), give_back_(std::move(give_back)) {}
    ~HeapSlot() {
        kernel_.end(number_);
        give_back_(number_);
    }
    HeapSlot(const HeapSlot &) = delete;
    HeapSlot &operator=(const HeapSlot &) = delete;
    HeapKernel &kernel() const { return kernel_; }
    unsigned number() const { return number_; }

private:
    HeapKernel &kernel_;
    unsigned number_;
    std::function<void(unsigned)> give_back_;
};

class HeapProcess {
public:
    // The process is recorded if there are a slot and maps; else it is not, for the reason given.
    HeapProcess(const capture::ProcessRef &process, std::uint64_t exec_ns, HeapWish wish,
                std::unique_ptr<HeapSlot> slot, std::optional<HeapMaps> maps, std::string reason);

    std::uint32_t pid() const { return process_.pid; }
    const capture::ProcessRef &process() const { return process_; } // its start may be known only to a clock tick
    std::uint64_t exec_ns() const { return exec_ns_; }
    const HeapWish &wish() const { return wish_; }
    bool recorded() const { return maps_.has_value(); }

    // Reads what the process has mapped and probes what is new.  Call it on the watcher's thread, because putting
    // probes takes long.  true: functions of the malloc family were found, so the next look may wait.
    bool look(const capture::OsRoots &os, HeapFunctionCache &cache);
    // Detaches the probes, on the watcher's thread too.  What was recorded can still be read.
    void retire(Detacher &detacher);
    // Says that retire() will be called soon, so a look that is under way may end early.  Any thread may call it.
    void end() { ended_ = true; }
    // Changes the level of recording, to "sizes" or back to what was asked for.  why: the reason for less, or "".  The
    // account goes on; a history that is kept again begins empty.
    void limit(rules::Allocations level, std::string why, std::uint64_t now);

    // Reads now what a living process would change; the rest is read when the bundle is written, and so is everything
    // of a dead process.
    struct Copy {
        bpf::heap_account account;
        std::vector<bpf::heap_record> history;
        std::uint64_t read_ns = 0;
    };
    Copy copy(std::uint64_t now) const;
    // of: nullptr if everything is read now.
    capture::HeapSnapshot snapshot(const Copy *of, std::uint64_t now) const;

    struct State {
        std::string level, reason;
        bool limited = false; // recorded at a lower level than was asked for
        std::uint64_t since_ns = 0;
        std::size_t probed = 0; // functions
        std::uint64_t calls = 0, lost = 0;
    };
    State state() const;
    struct Load {
        rules::Allocations level = rules::Allocations::Pages; // recorded at
        std::uint64_t allocations = 0, frees = 0;             // since the recording began
    };
    Load load() const;

private:
    bool put(const HeapSite &site, const TargetFile &file, capture::HeapFunction &function);
    bpf::heap_account account() const;

    const capture::ProcessRef process_;
    const std::uint64_t exec_ns_;
    const HeapWish wish_;
    const std::string reason_;
    const std::optional<HeapMaps> maps_;

    // Only the watcher's thread uses these.
    std::vector<LatencyKernel::Link> links_;
    std::vector<std::pair<std::uint64_t, std::string>> files_; // files that were searched: inode, path
    unsigned sites_ = 0;

    std::atomic<bool> ended_ = false;
    mutable std::mutex mutex_;       // protects what follows; never held for long
    std::shared_ptr<HeapSlot> slot_; // only the watcher's thread changes it
    bpf::heap_account last_{};       // the account when it was retired
    std::vector<capture::HeapFunction> functions_;
    std::uint64_t since_ns_ = 0;
    std::string problem_;
    std::string unread_; // of a file in which nothing could be looked for; only the working thread uses it
    rules::Allocations level_;
    std::string limited_; // why level_ is less than was asked for
    std::uint64_t history_since_ns_ = 0;
};

} // namespace incident::daemon
