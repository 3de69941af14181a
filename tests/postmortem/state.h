// A state directory of a test's own, filled with sample bundles, and incidentctl run on it.
#pragma once

#include "postmortem/verbs/verb.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace incident::postmortem::test {

using Files = std::vector<std::pair<std::string, std::string>>;

struct Ran {
    int code = -1;
    std::string out, err;
};

class State {
public:
    State();
    ~State();

    const std::filesystem::path &dir() const { return dir_; }
    // Commits tests/data/bundles/SAMPLE under the id in its incident.json; replace: other
    // contents for some of its files.  Returns the name.
    std::string add_sample(const std::string &sample, const Files &replace = {});
    void add(const std::string &name, const Files &files);
    std::filesystem::path bundle(const std::string &name) const { return dir_ / "incidents" / name; }

    // incidentctl --state DIR ARGUMENTS…, in this process.
    Ran run(std::vector<std::string> arguments) const;

    // What the journal says; "no journal here" by default.
    CoreFinder find_core;
    std::string cores; // systemd-coredump's directory; "": dir()

private:
    std::filesystem::path dir_;
};

std::string read_file(const std::filesystem::path &path);
void write_file(const std::filesystem::path &path, std::string_view text);
// The parsed incident.json of a sample.
Json sample_incident(const std::string &sample);

} // namespace incident::postmortem::test
