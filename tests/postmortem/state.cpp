#include "state.h"

#include "capture/bundle/bundle.h"
#include "postmortem/verbs/cli.h"

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <unistd.h>

namespace incident::postmortem::test {

namespace fs = std::filesystem;

State::State() : find_core([](const capture::DeathIdentity &) { return fail("no journal here"); }) {
    std::string path = (fs::temp_directory_path() / "incidentctl-test-XXXXXX").string();
    if (!mkdtemp(path.data()))
        throw std::runtime_error("mkdtemp");
    dir_ = path;
}

State::~State() {
    std::error_code ignored;
    fs::remove_all(dir_, ignored);
}

std::string read_file(const fs::path &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const fs::path &path, std::string_view text) {
    std::ofstream(path, std::ios::binary) << text;
}

Json sample_incident(const std::string &sample) {
    return Json::parse(read_file(fs::path(TEST_DATA) / "bundles" / sample / "incident.json"));
}

std::string State::add_sample(const std::string &sample, const Files &replace) {
    const fs::path from = fs::path(TEST_DATA) / "bundles" / sample;
    std::map<std::string, std::string> files;
    for (const auto &entry : fs::recursive_directory_iterator(from))
        if (entry.is_regular_file())
            files[fs::relative(entry.path(), from)] = read_file(entry.path());
    for (const auto &[path, text] : replace)
        files[path] = text;
    const std::string name = sample_incident(sample)["id"];
    add(name, {files.begin(), files.end()});
    return name;
}

void State::add(const std::string &name, const Files &files) {
    auto incidents = capture::IncidentsDir::open(dir_, true);
    ASSERT_TRUE(incidents) << incidents.error().what;
    auto partial = incidents->begin(name);
    ASSERT_TRUE(partial) << partial.error().what;
    for (const auto &[path, text] : files) {
        const Status added = partial->add(path, std::string_view(text));
        ASSERT_TRUE(added) << added.error().what;
    }
    const Status committed = partial->commit();
    ASSERT_TRUE(committed) << committed.error().what;
}

Ran State::run(std::vector<std::string> arguments) const {
    StringOutput out, err;
    Session session{.out = out, .err = err, .find_core = find_core};
    session.os.coredump = cores.empty() ? dir_.string() : cores;
    session.os.coredump_owner = geteuid();
    arguments.insert(arguments.begin(), {"--state", dir_.string()});
    const int code = run_command_line(std::move(arguments), session);
    return {code, out.text(), err.text()};
}

} // namespace incident::postmortem::test
