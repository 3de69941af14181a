// A journal of a test's own: systemd-journal-remote makes the file from entries in the export format.
#pragma once

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace incident::capture::test {

inline constexpr const char *made_boot = "0123456789abcdef0123456789abcdef";
inline constexpr std::uint64_t made_epoch_us = 1'700'000'000'000'000; // realtime where monotonic is 0

using MadeFields = std::vector<std::pair<std::string, std::string>>;

class MadeJournal {
public:
    MadeJournal() {
        char path[] = "/tmp/incidentd-journal-XXXXXX";
        directory_ = ::mkdtemp(path);
    }
    MadeJournal(const MadeJournal &) = delete;
    ~MadeJournal() { std::filesystem::remove_all(directory_); }

    static bool possible() { return ::access(program, X_OK) == 0; }
    const std::string &directory() const { return directory_; }

    // An entry that journald took at this time of the boot.  Fields that begin with an underscore are what journald
    // attests; this file is as journald would have made it.
    void add(std::uint64_t at_us, const MadeFields &fields, const std::string &boot = made_boot) {
        text_ += "__REALTIME_TIMESTAMP=" + std::to_string(made_epoch_us + at_us) +
                 "\n__MONOTONIC_TIMESTAMP=" + std::to_string(at_us) + "\n_BOOT_ID=" + boot + "\n";
        for (const auto &[name, value] : fields) {
            const std::uint64_t length = value.size();
            text_ += name + "\n" + std::string(reinterpret_cast<const char *>(&length), 8) + value + "\n";
        }
        text_ += "\n";
    }

    // Makes the file of what was added since.
    void write() {
        const std::string input = directory_ + "/entries", output = directory_ + "/made" + std::to_string(++files_);
        std::ofstream(input, std::ios::binary) << std::exchange(text_, "");
        const std::string command = std::string("timeout 60 ") + program + " -o " + output + ".journal - < " + input +
                                    " > /dev/null 2> " + directory_ + "/log";
        ASSERT_EQ(::system(command.c_str()), 0); // NOLINT(concurrency-mt-unsafe)
        std::filesystem::remove(input);
    }

private:
    static constexpr const char *program = "/lib/systemd/systemd-journal-remote";
    std::string directory_, text_;
    int files_ = 0;
};

} // namespace incident::capture::test
