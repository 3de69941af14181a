// An invented host that gives good incidents. Each test of the doctor breaks one thing in it.
#pragma once

#include "postmortem/doctor/checks.h"
#include "postmortem/doctor/host.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

namespace incident::postmortem::test {

struct MadeUpProcess {
    unsigned pid = 100;
    std::string comm = "app";
    std::string exe = "/bin/true"; // what /proc/PID/exe leads to
    std::string unit = "app.service";
    std::string core_limit = "unlimited";
    unsigned resident_kib = 20480, swapped_kib = 0;
    std::string core_filter = "00000033";
    unsigned uid = 0;
    std::string maps;
};

class Lab {
public:
    Lab();
    ~Lab();
    Lab(const Lab &) = delete;
    Lab &operator=(const Lab &) = delete;

    const std::filesystem::path &root() const { return root_; }
    void write(const std::string &path, const std::string &text) const;
    void link(const std::string &target, const std::string &path) const;
    void remove(const std::string &path) const;
    void add(const MadeUpProcess &process) const;
    void rule(const std::string &toml) const { write("/etc/incidentd/rules.d/test.toml", toml); }

    Json status; // the daemon's answer; null: it does not run
    doctor::Space space{.total = 100ull << 30, .free = 50ull << 30};
    std::optional<bool> synchronized = true;
    std::optional<std::uint32_t> gid_of_group = 12345;
    Result<std::vector<std::string>> failed_units = std::vector<std::string>{};
    std::string debuginfod_urls;
    std::string gdb = "GNU gdb (Debian 13.1-3) 13.1\npython works\n";
    std::string dpkg; // what dpkg-query prints
    bool root_user = true;
    doctor::Questions questions;

    doctor::Findings look(doctor::Findings (*check)(const doctor::Host &)) const;
    void set_up(doctor::Host &host) const;

private:
    std::filesystem::path root_;
};

// The finding of a check that has but one.
doctor::Finding only(const doctor::Findings &findings);

MATCHER_P2(Is, grade, fact, "") {
    *result_listener << "grade " << static_cast<int>(arg.grade) << ": " << arg.fact << " | " << arg.why << " | "
                     << arg.fix;
    return arg.grade == grade && arg.fact.find(fact) != std::string::npos;
}
MATCHER_P3(Is, grade, fact, fix, "") {
    *result_listener << "grade " << static_cast<int>(arg.grade) << ": " << arg.fact << " | " << arg.why << " | "
                     << arg.fix;
    return arg.grade == grade && arg.fact.find(fact) != std::string::npos && arg.fix.find(fix) != std::string::npos;
}

} // namespace incident::postmortem::test
