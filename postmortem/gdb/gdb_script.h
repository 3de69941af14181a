// The gdb commands (postmortem/gdb/). They are built in, so that `incidentctl gdb` needs nothing installed, and they
// are stored in bundles, so that `gdb -x BUNDLE/gdb/open.gdb` works.
#pragma once

#include <span>
#include <string_view>

namespace incident::postmortem {

struct GdbFile {
    std::string_view name; // "incident.py"; all are in one directory: gdb/ of a bundle
    std::string_view text;
};

// open.gdb loads program, core and commands (`gdb -x open.gdb`). incident.py gives only the commands (`source` in gdb).
// The other files are modules that incident.py imports from its own directory.
extern const std::span<const GdbFile> gdb_files;

} // namespace incident::postmortem
