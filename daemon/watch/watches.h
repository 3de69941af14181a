// The list of all watches.
#pragma once

#include "daemon/watch/untold_starts.h"
#include "daemon/watch/watch.h"

#include <memory>
#include <utility>

namespace incident::daemon {

class Watches {
public:
    explicit Watches(WatchContext context) : context_(std::move(context)) {}
    Watches(const Watches &) = delete;
    Watches &operator=(const Watches &) = delete;

    const WatchContext &context() const { return context_; } // valid as long as this object
    void add(std::unique_ptr<Watch> watch) { all_.push_back(std::move(watch)); }

    void apply(std::uint64_t now_ns);
    // Polls the watches that are due.
    void poll(std::uint64_t now_ns);
    std::uint64_t due_ns() const; // when poll() is needed next
    // Called once a second.  true: the rules must be loaded again.
    bool tend(std::uint64_t now_ns);
    // A process that a rule in TriggerPlan::told() is about.
    void started(const rules::ProcessFacts &process);
    // false: the rules that the event belongs to are gone.
    bool take(const bpf::event_header &header, std::span<const std::uint8_t> bytes);
    std::optional<std::vector<std::string>> conditions_of(std::string_view probes) const;
    // Gives each watch to the function; a list that may not be changed, as one that may not be changed.
    template <typename Function> void each(const Function &call) {
        for (const auto &watch : all_)
            call(*watch);
    }
    template <typename Function> void each(const Function &call) const {
        for (const auto &watch : all_)
            call(std::as_const(*watch));
    }

private:
    void find_untold(std::uint64_t now_ns);

    WatchContext context_;
    UntoldPace pace_;
    SeenProcesses seen_;
    std::vector<std::unique_ptr<Watch>> all_;
};

} // namespace incident::daemon
