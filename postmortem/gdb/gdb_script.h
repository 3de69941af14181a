// The gdb commands (postmortem/gdb/), built in so that `incidentctl gdb` works with nothing
// installed, and to be stored in bundles so that `gdb -x BUNDLE/gdb/open.gdb` does.
#pragma once

#include <span>
#include <string_view>

namespace incident::postmortem {

struct GdbFile {
    std::string_view name; // "incident.py": they all lie in one directory, gdb/ of a bundle
    std::string_view text;
};

// open.gdb: `gdb -x` it to load program, core and commands.  incident.py: gdb sources it for the
// commands alone; the others are modules it imports from the directory it lies in.
extern const std::span<const GdbFile> gdb_files;

} // namespace incident::postmortem
