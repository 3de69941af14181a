// Tracepoints that rules name: the kernel side does the work.  Here it is seen that a module brings one, or takes one
// away, and a bundle gets the layout of its record.
#pragma once

#include "daemon/watch/watch.h"

#include <map>
#include <string>

namespace incident::daemon {

class TracepointWatch : public Watch {
public:
    using Watch::Watch;

    void apply(std::uint64_t now_ns) override;
    // A filter could not be checked before its tracepoint was there, so the rules are then loaded anew.
    bool tend(std::uint64_t now_ns) override;
    void add_context(const FiredIncident &incident) const override;

private:
    // By "CATEGORY:NAME" the number of each tracepoint that rules want; nullopt: it is not there.
    using Numbers = std::map<std::string, std::optional<std::uint32_t>>;
    Numbers numbers() const;

    Numbers seen_;
};

} // namespace incident::daemon
