// A state directory of its own for each test, and small helpers to look into it.
#pragma once

#include "capture/bundle/bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace incident::capture {

inline const std::string NAME = "20261121T150405.123Z-crash-python3-1234-9f3c2a";

class BundleTest : public testing::Test {
protected:
    explicit BundleTest(const std::string &base = "/tmp") {
        state = base + "/incidentd-test-XXXXXX";
        EXPECT_TRUE(::mkdtemp(state.data())) << base;
        auto opened = IncidentsDir::open(state, true);
        EXPECT_TRUE(opened) << opened.error().what;
        dir = std::move(*opened);
    }
    ~BundleTest() override { std::filesystem::remove_all(state); }

    std::filesystem::path at(const std::string &below) const { return std::filesystem::path(dir.path()) / below; }

    void commit(const std::string &name, const std::vector<std::pair<std::string, std::string>> &files) {
        auto partial = dir.begin(name);
        ASSERT_TRUE(partial) << partial.error().what;
        for (const auto &[path, text] : files) {
            const auto added = partial->add(path, std::string_view(text));
            ASSERT_TRUE(added) << added.error().what;
        }
        const auto committed = partial->commit();
        ASSERT_TRUE(committed) << committed.error().what;
    }
    void commit(const std::string &name = NAME) {
        commit(name, {{"incident.json", "{}"}, {"process/maps", "maps"}, {"host/pressure/cpu", "some"}});
    }

    std::string read(const std::string &name, const std::string &path) const {
        auto bundle = dir.bundle(name);
        if (!bundle)
            return "no bundle: " + bundle.error().what;
        auto text = bundle->read(path);
        return text ? *text : "no file: " + text.error().what;
    }
    std::vector<std::string> verify(const std::string &name = NAME) const {
        auto bundle = dir.bundle(name);
        if (!bundle)
            return {"no bundle: " + bundle.error().what};
        auto problems = bundle->verify();
        return problems ? *problems : std::vector{problems.error().what};
    }
    std::vector<std::string> entries() const { // dot directories too
        std::vector<std::string> found;
        for (const auto &entry : std::filesystem::directory_iterator(dir.path()))
            found.push_back(entry.path().filename());
        return found;
    }
    void write(const std::string &below, const std::string &text) const {
        std::filesystem::create_directories(at(below).parent_path());
        std::ofstream(at(below), std::ios::binary) << text;
    }

    std::string state;
    IncidentsDir dir;
};

} // namespace incident::capture
