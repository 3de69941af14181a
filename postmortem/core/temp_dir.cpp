#include "postmortem/core/temp_dir.h"

#include "capture/os/environment.h"

#include <cstdlib>
#include <filesystem>

namespace incident::postmortem {

Result<TempDir> TempDir::make() {
    const char *base = capture::environment("TMPDIR");
    std::string path = std::string(base && *base == '/' ? base : "/var/tmp") + "/incidentctl-XXXXXX";
    if (!mkdtemp(path.data())) // 0700
        return fail(Error::system("cannot make a temporary directory " + path + " (TMPDIR names another place)"));
    TempDir dir;
    dir.path_ = std::move(path);
    return dir;
}

TempDir::~TempDir() {
    std::error_code ignored; // nothing can be done about one that stays
    if (!path_.empty())
        std::filesystem::remove_all(path_, ignored);
}

} // namespace incident::postmortem
