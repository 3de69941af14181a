// Work of users that is to be done in the background: they take turns, and each has her own share of CPU time for what
// is pressing and as much for what is not.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>

namespace incident::daemon {

template <typename Job> class UserTurns {
public:
    struct Whose {
        std::uint32_t user = 0; // rules::user_of()
        bool can_wait = false;
        auto operator<=>(const Whose &) const = default;
    };
    static constexpr std::size_t most_jobs = 4096;     // of one user, of each kind
    static constexpr double share = 0.01, burst_s = 1; // of one CPU; saved up for at most so many seconds of work
    static constexpr std::uint64_t second = 1'000'000'000;

    // false: that user has too many waiting.
    bool push(Whose whose, Job job) {
        Own &own = all_[whose];
        if (own.jobs.size() >= most_jobs)
            return false;
        own.jobs.push_back(std::move(job));
        ++size_;
        return true;
    }

    struct Next {
        Whose whose;
        Job job;
    };
    // The next job of a user who may have work done now; none: wait_ns() says how long until there is one.
    std::optional<Next> pop(std::uint64_t now_ns) {
        for (std::size_t looked = 0; looked < all_.size(); ++looked) {
            auto at = all_.upper_bound(last_);
            if (at == all_.end())
                at = all_.begin();
            last_ = at->first;
            Own &own = at->second;
            save_up(own, now_ns);
            if (own.jobs.empty() || own.credit_s <= 0)
                continue;
            Next next{at->first, std::move(own.jobs.front())};
            own.jobs.pop_front();
            --size_;
            return next;
        }
        forget_idle();
        return std::nullopt;
    }
    void charge(Whose whose, double cpu_s) { all_[whose].credit_s -= cpu_s; }

    // Until somebody who waits may have work done; the largest number: nobody waits.
    std::uint64_t wait_ns() const {
        double least = -1;
        for (const auto &[whose, own] : all_)
            if (!own.jobs.empty()) {
                const double wait = std::max(0.0, -own.credit_s / share);
                least = least < 0 ? wait : std::min(least, wait);
            }
        return least < 0 ? UINT64_MAX : static_cast<std::uint64_t>(least * second) + second / 100;
    }
    std::size_t size() const { return size_; }

private:
    struct Own {
        std::deque<Job> jobs;
        double credit_s = burst_s;
        std::uint64_t seen_ns = 0;
    };
    static void save_up(Own &own, std::uint64_t now_ns) {
        if (own.seen_ns && now_ns > own.seen_ns)
            own.credit_s = std::min(burst_s, own.credit_s + share * static_cast<double>(now_ns - own.seen_ns) / second);
        own.seen_ns = now_ns;
    }
    void forget_idle() {
        std::erase_if(all_, [](const auto &one) { return one.second.jobs.empty() && one.second.credit_s >= burst_s; });
    }

    std::map<Whose, Own> all_;
    Whose last_{UINT32_MAX, true}; // who had the last turn
    std::size_t size_ = 0;
};

} // namespace incident::daemon
