// The part of the kernel side that is needed to time calls, as an interface, so that tests can replace it.
#pragma once

#include "capture/collect/collect.h"
#include "daemon/record/recorder.h"

#include <memory>

namespace incident::daemon {

// The calls in flight of one thread, copied from its frames.
struct ThreadCalls {
    std::uint32_t slot = 0, tid = 0, tgid = 0;
    bpf::thread_calls calls{};
};

class LatencyKernel {
public:
    // An attached probe.  It is detached when the last owner drops it, which takes about 0.1 s (the kernel waits for
    // RCU grace periods).
    using Link = std::shared_ptr<void>;

    virtual ~LatencyKernel() = default;
    virtual Result<Link> attach(Recorder::UprobeRole role, const Recorder::UprobePoint &point, std::uint32_t probe) = 0;
    virtual void set_probe(std::uint32_t probe, const bpf::probe_setting &setting) = 0;
    virtual bpf::probe_count probe_count(std::uint32_t probe) const = 0;
    // The threads that have made probed calls.  busy: some of them could not be read just now.
    virtual std::vector<ThreadCalls> threads(bool &busy) const = 0;
    // Whether a thread of the process was seen to switch to another stack.
    virtual bool switches_stacks(std::uint32_t tgid) const = 0;
};

class RecorderLatency : public LatencyKernel {
public:
    explicit RecorderLatency(Recorder &recorder) : recorder_(recorder) {}

    Result<Link> attach(Recorder::UprobeRole role, const Recorder::UprobePoint &point, std::uint32_t probe) override {
        return recorder_.attach(role, point, probe);
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
            // a thread that is dying or no longer watched is left out; its frames are removed later
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
