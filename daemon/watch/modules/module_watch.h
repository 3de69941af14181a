// Has copies kept of the files whose code watched processes map (daemon/modules), and tells incidents which there are.
#pragma once

#include "daemon/modules/module_keeper.h"
#include "daemon/watch/untold_starts.h"
#include "daemon/watch/watch.h"

#include <memory>
#include <string>

namespace incident::daemon {

class ModuleWatch : public Watch {
public:
    // Error: why nothing is kept.
    ModuleWatch(const WatchContext &context, const Result<std::shared_ptr<KeptModules>> &kept);

    void apply(std::uint64_t now_ns) override;
    // Looks at processes that had mapped their files before anybody watched them.
    std::uint64_t poll(std::uint64_t now_ns) override;
    bool tend(std::uint64_t now_ns) override;
    void watched(const capture::Subject &process) override;
    std::optional<bool> take(const bpf::event_header &header, std::span<const std::uint8_t> bytes) override;
    // Has the files copied that the process still has and that are gone from their paths.
    void add_context(const FiredIncident &incident) const override;
    void add_status(nlohmann::ordered_json &status) const override;

private:
    std::shared_ptr<KeptModules> kept_; // null: nothing is kept
    std::unique_ptr<ModuleKeeper> keeper_;
    SeenProcesses seen_;
    std::uint64_t removed_ = 0; // copies, when it was last looked
    std::string problem_;
};

} // namespace incident::daemon
