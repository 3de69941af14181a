// The journal of this machine, opened for reading.  Whoever searches it asks libsystemd itself (get()); this class
// holds the journal open, and opens it anew where libsystemd would not see what has changed.
//
// libsystemd maps the files.  Each use of get() needs a MappedFaults beside it (capture/os/mapped_faults.h).
#pragma once

#include "capture/os/result.h"
#include "capture/os/unique_fd.h"

#include <systemd/sd-journal.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace incident::capture {

class Journal {
public:
    // Opens the local journal (system + runtime) with the files of all users: a user's lines go to hers.  directory:
    // for tests ("" = default).
    static Result<Journal> open(const std::string &directory = "");

    sd_journal *get() const { return journal_.get(); }
    // For an event loop: the descriptor is readable (POLLIN) when the journal has changed; then call process().  It
    // stays the same.
    int fd() const { return watch_.get(); }
    // Sees new files (rotation, a user's first entry).
    Status process();
    // Opens it anew if that was not done just now.  libsystemd passes over a file that it cannot open, even if that is
    // so for a moment only (descriptors are short), and never tries it again.
    Status refresh();
    Status reopen();
    // A page of a file could not be read: libsystemd remembers what it took for that page's content.
    void mark_stale() { stale_ = true; }
    // Was there nothing to watch when it was opened (journald had never run)?
    bool blind() const;

    // Of the entry that it stands at: the value of a field, or its first `most` bytes; nullopt if the entry has none,
    // or it cannot be read.  Anybody can send fields of many MiB.  sd_journal_set_data_threshold() only limits how much
    // of a compressed one is unpacked.
    std::optional<std::string> field(const char *name, std::size_t most) const;

    // Forgets the matches there were and takes these ("NAME=VALUE"): those of one field are alternatives, and those of
    // different fields must all hold.
    Status match(std::span<const std::string> all);
    // Adds an alternative to them, of the same form.
    Status or_match(std::span<const std::string> all);

private:
    struct Close {
        void operator()(sd_journal *journal) const { ::sd_journal_close(journal); }
    };
    Status add(std::span<const std::string> all);

    std::string directory_;
    UniqueFd watch_; // an epoll set with the journal's inotify descriptor, so that reopening does not change ours
    std::unique_ptr<sd_journal, Close> journal_;
    std::chrono::steady_clock::time_point opened_at_{};
    bool stale_ = false;
};

} // namespace incident::capture
