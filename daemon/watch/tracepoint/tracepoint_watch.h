// The watch of tracepoints that rules name.  The kernel side does the work; this notices when a kernel module brings a
// tracepoint or takes it away, and adds the layout of its record to a bundle.
#pragma once

#include "daemon/watch/watch.h"

#include <map>
#include <string>

namespace incident::daemon {

class TracepointWatch : public Watch {
public:
    using Watch::Watch;

    void apply(std::uint64_t now_ns) override;
    // When a tracepoint appears, the rules are loaded again, because its filter could not be checked before.
    bool tend(std::uint64_t now_ns) override;
    void add_context(const FiredIncident &incident) const override;

private:
    // The number of each tracepoint that rules want, by "CATEGORY:NAME"; nullopt: the tracepoint is not there.
    using Numbers = std::map<std::string, std::optional<std::uint32_t>>;
    Numbers numbers() const;

    Numbers seen_;
};

} // namespace incident::daemon
