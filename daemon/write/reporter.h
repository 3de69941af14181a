// Sends the journal entries of incidents on a thread of its own.  journald takes a few entries that it does not read,
// and then lets the sender wait for as long as it hangs, which must keep neither the writer nor the event loop from
// their work.  Entries that wait are sent when it goes on.  One that cannot be sent, because memory or descriptors are
// short or journald is being restarted, is tried again for some seconds.
#pragma once

#include "capture/os/result.h"
#include "daemon/write/incident_entry.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace incident::daemon {

class Reporter {
public:
    static constexpr std::size_t most_waiting = 1024;
    static constexpr int tries = 10; // of each entry, a second between two
    using Send = std::function<Status(const EntryFields &)>;
    struct Told {
        std::string name;
        Status sent;
    };

    static Result<std::unique_ptr<Reporter>> start(Send send = send_incident_entry,
                                                   std::chrono::milliseconds between_tries = std::chrono::seconds(1));
    ~Reporter(); // entries that wait are not sent, and a thread that hangs is left behind

    bool submit(std::string name, EntryFields entry); // false: too many wait
    void hurry();                                     // from now on each entry is tried once
    std::vector<Told> take_told();                    // when the descriptor fd() is readable
    int fd() const;
    std::size_t pending() const; // entries that were not told, or not taken

private:
    struct Shared;
    explicit Reporter(std::shared_ptr<Shared> shared);
    std::shared_ptr<Shared> shared_; // with the thread, which may outlive this
};

} // namespace incident::daemon
