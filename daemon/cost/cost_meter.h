// Measures what the BPF programs cost.  Their run times are counted for a short while now and then only, because
// counting itself costs time.
#pragma once

#include "daemon/record/recorder.h"

namespace incident::daemon {

struct Cost {
    double ns_per_run = 0, runs_per_second = 0;
    double cpu_share = 0; // of one CPU, 0..CPUs
};

// A program that runs for every process has two parts of cost: what it takes for the processes that conditions are
// about, by the bits of these conditions, and what it takes for all others.
struct OwnPart {
    std::array<Cost, RULE_BITS> by_bit{};
    Cost strangers;
};

// all: the cost of the program; own: own costs over so many seconds; those of other programs are ignored.
OwnPart own_part(const std::string &program, const Cost &all, const std::vector<OwnCost> &own, double seconds);

class CostMeter {
public:
    static constexpr std::uint64_t lasts_ns = 250'000'000;

    void set_period(std::uint64_t every_ns) { every_ns_ = every_ns; } // [cost] every
    // Begins or ends a measurement; returns when to call again (ns from now).
    std::uint64_t tick(Recorder &recorder, std::uint64_t now_ns);
    bool counting() const { return bool(on_); }
    std::uint64_t measured_ns() const { return measured_ns_; } // when the last measurement ended; 0: there was none yet
    // The last measurement, by program; empty before the first one.
    const std::map<std::string, Cost> &costs() const { return costs_; }
    Cost of_program(const std::string &program) const; // all zero if it did not run or nothing was measured
    OwnPart own(const std::string &program) const;
    // The cost of several programs together; ns_per_run is their mean.  nullopt: not measured.
    std::optional<Cost> of(const std::vector<std::string> &programs) const;
    const std::string &problem() const { return problem_; } // why nothing is measured

private:
    UniqueFd on_;
    std::uint64_t every_ns_ = 60'000'000'000, began_ns_ = 0, measured_ns_ = 0;
    std::map<std::string, Recorder::RunTime> before_;
    std::vector<OwnCost> own_before_, own_; // as the measurement began; in the last measurement
    double counted_s_ = 0;
    std::map<std::string, Cost> costs_;
    std::string problem_;
};

} // namespace incident::daemon
