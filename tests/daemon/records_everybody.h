// A test of what the kernel side records: of every process, this one included.  Needs root.
#pragma once

#include "daemon/record/recorder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <utility>

namespace incident::daemon {

class RecordsEverybody : public testing::Test {
protected:
    void SetUp() override {
        if (::geteuid() != 0)
            GTEST_SKIP() << "needs root: loads BPF programs";
        start({});
    }
    void start(const rules::Config::Record &record) {
        recorder.reset();
        auto started = Recorder::start(record, 8192);
        ASSERT_TRUE(started) << started.error().what;
        recorder.emplace(std::move(*started));
        rules::Rule rule; // about everybody
        rule.name = "everything";
        rule.conditions.push_back({"signal", rules::SignalCondition{}, {}});
        recorder->apply(rules::Engine({rule}));
        ASSERT_TRUE(recorder->record_entries(true));
    }

    std::optional<Recorder> recorder;
};

} // namespace incident::daemon
