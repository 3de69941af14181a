// What timing calls takes of the kernel side, so that tests can stand in for it.
#pragma once

#include "capture/collect/collect.h"
#include "daemon/record/recorder.h"

#include <memory>

namespace incident::daemon {

// Calls in flight of one thread, as copied from its frames.
struct ThreadCalls {
    std::uint32_t slot = 0, tid = 0, tgid = 0;
    bpf::thread_calls calls{};
};

class LatencyKernel {
public:
    // A live attachment: detached when the last owner drops it, which takes about 0.1 s
    // (the kernel waits for RCU grace periods).
    using Link = std::shared_ptr<void>;

    virtual ~LatencyKernel() = default;
    virtual Result<Link> attach(Recorder::UprobeRole role, const Recorder::UprobePoint &point, std::uint32_t probe) = 0;
    virtual void set_probe(std::uint32_t probe, const bpf::probe_setting &setting) = 0;
    virtual bpf::probe_count probe_count(std::uint32_t probe) const = 0;
    // Threads that have made probed calls; busy: some could not be read just now.
    virtual std::vector<ThreadCalls> threads(bool &busy) const = 0;
    // A thread of the process was seen to go over to another stack.
    virtual bool switches_stacks(std::uint32_t tgid) const = 0;
};

class RecorderLatency : public LatencyKernel {
public:
    explicit RecorderLatency(Recorder &recorder) : recorder_(recorder) {}

    Result<Link> attach(Recorder::UprobeRole role, const Recorder::UprobePoint &point, std::uint32_t probe) override {
        auto link = recorder_.attach(role, point, probe);
        if (!link)
            return fail(link.error());
        return std::make_shared<Recorder::Uprobe>(std::move(*link));
    }
    void set_probe(std::uint32_t probe, const bpf::probe_setting &setting) override {
        recorder_.set_probe(probe, setting);
    }
    bpf::probe_count probe_count(std::uint32_t probe) const override { return recorder_.probe_count(probe); }
    std::vector<ThreadCalls> threads(bool &busy) const override {
        std::vector<ThreadCalls> all;
        for (const auto slot : recorder_.slots_with_calls()) {
            const auto calls = recorder_.calls(slot);
            if (!calls) {
                busy |= calls.error() == Recorder::CallsUnread::Busy;
                continue;
            }
            const auto thread = recorder_.header(slot);
            // not of one that is dying, or is no longer watched: their frames are swept later
            if (thread.generation != calls->generation || thread.state != bpf::SLOT_LIVE)
                continue;
            all.push_back({slot, thread.tid, thread.tgid, *calls});
        }
        return all;
    }

    bool switches_stacks(std::uint32_t tgid) const override {
        const auto process = recorder_.process(tgid);
        return process && process->stacks_switched;
    }

private:
    Recorder &recorder_;
};

} // namespace incident::daemon
