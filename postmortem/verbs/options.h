// Lets a verb declare its options without the library that parses them. Only cli.cpp includes CLI11, which is a large
// header.
#pragma once

#include "capture/os/result.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace incident::postmortem {

class Options {
public:
    virtual ~Options() = default;

    // names: "-n", "--registers", or "-o,--output".
    virtual void flag(const std::string &names, bool &target, const std::string &help) = 0;
    // take() stores the value or says what is wrong with it.
    virtual void value(const std::string &names, const std::string &placeholder, const std::string &help,
                       std::function<Status(const std::string &)> take) = 0;
    virtual void positional(const std::string &name, std::string &target, const std::string &help) = 0;
    // A positional argument that may be given several times.
    virtual void list(const std::string &name, std::vector<std::string> &target, const std::string &help) = 0;
    // Everything after a lone "--".
    virtual void rest(const std::string &name, std::vector<std::string> &target) = 0;
    // Printed below the list of options.
    virtual void notes(const std::string &text) = 0;

    void text(const std::string &names, const std::string &placeholder, std::string &target, const std::string &help);
    void count(const std::string &names, const std::string &placeholder, std::optional<std::uint64_t> &target,
               const std::string &help);
    void duration(const std::string &names, const std::string &placeholder, std::int64_t &target_ns,
                  const std::string &help);
    // "[ID]", "latest" unless given.
    void id(std::string &target);
};

} // namespace incident::postmortem
