// Which copies are kept of which mapped files.  All threads may ask.
#pragma once

#include "capture/collect/hanging.h"
#include "capture/os/maps.h"
#include "daemon/modules/module_store.h"

#include <sys/stat.h>

#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace incident::daemon {

// A mapped file as /proc/PID/maps shows it.  The path is part of it, for the subvolumes of a btrfs share their device.
struct MappedFile {
    std::uint32_t major = 0, minor = 0;
    std::uint64_t inode = 0;
    std::string path;
    auto operator<=>(const MappedFile &) const = default;
};
MappedFile file_of(const capture::Mapping &mapping);

class KeptModules {
public:
    static constexpr std::size_t files_max = 16384;    // that are known
    static constexpr std::size_t looked_at_max = 4096; // files of one process
    // Readers at the same time: each may hang on a file of its process's owner, with as much memory as a copy has.  One
    // more may look for files that are gone, which an incident cannot wait for.
    static constexpr int readers_of_user = 1, readers_max = 4;

    explicit KeptModules(ModuleStore store);

    struct Which {
        capture::UserAddress at; // the file that is mapped there; 0: all
        bool gone = false;       // only those that are not at their path on this host (any more)
    };
    // Copies files whose code the process has mapped, unless they are known.  Takes long, and may hang on a file.
    // Error: the process has ended, or no code of a file is mapped there; EBUSY: there are too many readers.  What
    // cannot be copied is counted.
    Status look_at(const capture::OsRoots &os, const capture::Subject &subject, const Which &which);

    // The name of the copy; "" none.
    std::string copy_of(const capture::Mapping &mapping) const;
    // Another file may have this number now: what is known of one is void until somebody has looked again.
    void doubt(std::uint32_t major, std::uint32_t minor, std::uint64_t inode);
    // Tells the store what has been used since the last call; returns at once if it is busy.
    void note_uses();
    // Removes copies that take so many bytes, or all there are: incidents need the room.  Returns how many they took.
    // Waits for who writes one, but not long.
    std::uint64_t give_way(std::uint64_t bytes);

    struct Counts {
        std::uint64_t copies = 0, bytes = 0;
        std::uint64_t removed = 0;  // copies, to make room
        std::uint64_t not_kept = 0; // files of which no copy could be made
        std::string problem;        // with the last of these
    };
    Counts counts() const;

private:
    struct Known {
        std::int64_t size = 0, changed_ns = 0, modified_ns = 0; // as stat(2) has them
        std::string copy;                                       // "" none could be made
        std::uint64_t used = 0;                                 // in the order of use
    };
    bool is_known(const capture::Mapping &mapping, const struct stat &status, std::uint32_t user);
    void copy(int fd, const capture::Mapping &mapping, const struct stat &status, std::uint32_t user);
    void remember(const capture::Mapping &mapping, const struct stat &status, std::string copy);
    void not_kept(const capture::Mapping &mapping, const Error &why);
    void note_store(); // with both mutexes held
    class Reader;

    std::timed_mutex store_mutex_; // held while files are written; taken before the other one
    ModuleStore store_;
    const std::uint64_t copy_most_;
    mutable std::mutex mutex_;
    std::map<MappedFile, Known> files_;
    std::uint64_t uses_ = 0;
    std::map<std::string, std::uint32_t> used_; // copies since note_uses(), and by whom
    std::map<std::uint32_t, int> readers_;      // of each user
    Counts counts_;
};

} // namespace incident::daemon
