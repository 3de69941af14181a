// What each process costs, and what is its part of the budget: a user's part is what she may take if who takes less
// leaves the rest to the others, and a process's part is likewise of its user's.
#pragma once

#include "daemon/cost/governor.h"

#include <cstdint>
#include <map>

namespace incident::daemon {

// Shares are of one CPU.
class CostParts {
public:
    CostParts(const CostMeasurement &now, double budget);
    // By its calls and its heap; 0: nothing is known of it.
    double share_of(std::uint32_t pid) const;
    // Whether it costs more than its part, or more than `of_part` of that once it costs so much more.
    bool is_over(std::uint32_t pid, double more = 0, double of_part = 1) const;

private:
    using Shares = std::map<std::uint64_t, double>;
    static double part_of(std::uint64_t one, const Shares &shares, double budget);

    double budget_;
    std::map<std::uint32_t, std::uint64_t> user_of_;
    Shares of_users_;
    std::map<std::uint64_t, Shares> of_processes_; // by user
};

} // namespace incident::daemon
