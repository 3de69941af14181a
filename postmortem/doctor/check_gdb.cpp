// `incidentctl gdb` needs a gdb with Python.
#include "postmortem/doctor/checks.h"
#include "postmortem/doctor/host.h"

namespace incident::postmortem::doctor {

Findings check_gdb(const Host &host) {
    const std::string said =
        host.run({"gdb", "-nx", "-batch", "-ex", "show version", "-ex", "python print('python works')"});
    if (said.empty())
        return {warn("gdb is not installed", "incidentctl gdb does not work on this host", host.install("gdb", "gdb"))};
    const std::string version = said.substr(0, said.find('\n'));
    if (said.find("python works") == std::string::npos)
        return {warn(version + ", without Python",
                     "it opens the crash, but the incident's commands need gdb's Python (gdb-minimal has none)",
                     host.install("gdb", "gdb"))};
    return {ok(version)};
}

} // namespace incident::postmortem::doctor
