// A page of a mapped file that cannot be read (the disk fails, somebody has cut the file) raises SIGBUS, and that ends
// the process.  Libraries that map files for us, such as sd-journal, cannot ask before.
#pragma once

#include <cstdint>

namespace incident::capture {

// While it lives, such pages read as zeros in this thread.  journald and journalctl do the same (src/basic/sigbus.c).
// They may be nested.
class MappedFaults {
public:
    MappedFaults();
    ~MappedFaults();
    MappedFaults(const MappedFaults &) = delete;
    MappedFaults &operator=(const MappedFaults &) = delete;

    // Whether there was one since.  What was read, and what the library remembers, cannot be relied on then.
    bool met() const;

private:
    std::uint64_t before_;
};

} // namespace incident::capture
