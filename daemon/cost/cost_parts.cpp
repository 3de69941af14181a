#include "daemon/cost/cost_parts.h"

#include <algorithm>
#include <vector>

namespace incident::daemon {

CostParts::CostParts(const CostMeasurement &now, double budget) : budget_(budget) {
    const auto add = [&](std::uint32_t pid, double share) {
        const std::uint64_t user = user_of_.at(pid);
        of_users_[user] += share;
        of_processes_[user][pid] += share;
    };
    for (const auto &process : now.processes) {
        user_of_[process.process.pid] = process.user;
        add(process.process.pid, process.share);
    }
    constexpr std::uint64_t nobody = std::uint64_t{1} << 32; // a process whose calls are not recorded is its own
    for (const auto &heap : now.heaps) {
        user_of_.try_emplace(heap.pid, nobody + heap.pid);
        add(heap.pid, heap.share);
    }
}

double CostParts::share_of(std::uint32_t pid) const {
    const auto user = user_of_.find(pid);
    return user == user_of_.end() ? 0 : of_processes_.at(user->second).at(pid);
}

bool CostParts::is_over(std::uint32_t pid, double more, double of_part) const {
    const auto user = user_of_.find(pid);
    if (user == user_of_.end())
        return false;
    const double of_user = part_of(user->second, of_users_, budget_);
    if (of_users_.at(user->second) + more <= of_part * of_user)
        return false;
    return share_of(pid) + more > of_part * part_of(pid, of_processes_.at(user->second), of_user);
}

double CostParts::part_of(std::uint64_t one, const Shares &shares, double budget) {
    std::vector<double> others;
    others.reserve(shares.size());
    for (const auto &[other, share] : shares)
        if (other != one)
            others.push_back(share);
    std::ranges::sort(others);
    std::size_t left = others.size() + 1;
    for (const double share : others) {
        if (share > budget / static_cast<double>(left))
            break;
        budget -= share;
        --left;
    }
    return budget / static_cast<double>(left);
}

} // namespace incident::daemon
