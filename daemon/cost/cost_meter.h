// What the programs cost: their run times, counted for a short while now and then, for
// counting is itself a cost.
#pragma once

#include "daemon/record/recorder.h"

namespace incident::daemon {

struct Cost {
    double ns_per_run = 0, runs_per_second = 0;
    double cpu_share = 0; // of one CPU, 0..CPUs
};

// Of a program that runs for everybody: what it takes for the processes that conditions are about, by their bits,
// and for all others.  Together they are the program's cost.
struct OwnPart {
    std::array<Cost, RULE_BITS> by_bit{};
    Cost strangers;
};

// all: the program's cost; own: its own costs over so many seconds, others' are passed over.
OwnPart own_part(const std::string &program, const Cost &all, const std::vector<OwnCost> &own, double seconds);

class CostMeter {
public:
    static constexpr std::uint64_t lasts_ns = 250'000'000;

    void set_period(std::uint64_t every_ns) { every_ns_ = every_ns; } // [cost] every
    // Begins or ends a measurement; returns when to call again (ns from now).
    std::uint64_t tick(Recorder &recorder, std::uint64_t now_ns);
    bool counting() const { return bool(on_); }
    std::uint64_t measured_ns() const { return measured_ns_; } // when the last measurement ended; 0: none yet
    // By program, of the last measurement; empty before there was one.
    const std::map<std::string, Cost> &costs() const { return costs_; }
    Cost of_program(const std::string &program) const; // all zero: it did not run, or nothing was measured
    OwnPart own(const std::string &program) const;
    // Of several programs together; nullopt: not measured.  ns_per_run is their mean.
    std::optional<Cost> of(const std::vector<std::string> &programs) const;
    const std::string &problem() const { return problem_; } // why nothing is measured

private:
    UniqueFd on_;
    std::uint64_t every_ns_ = 60'000'000'000, began_ns_ = 0, measured_ns_ = 0;
    std::map<std::string, Recorder::RunTime> before_;
    std::vector<OwnCost> own_before_, own_; // at the beginning; of the last measurement
    double counted_s_ = 0;
    std::map<std::string, Cost> costs_;
    std::string problem_;
};

} // namespace incident::daemon
