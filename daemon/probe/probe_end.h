// One end of a probe: a place that a rule names, the files in which it was found, and the uprobes that were put there.
#pragma once

#include "daemon/probe/detacher.h"
#include "daemon/probe/probe_elf.h"
#include "daemon/probe/probe_target.h"
#include "daemon/probe/switching_files.h"
#include "daemon/probe/trap_price.h"
#include "rules/model/rule.h"

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace incident::daemon {

using rules::ProbePoint;

// What is needed to put probes; must outlive every end.
struct ProbeTools {
    LatencyKernel &kernel;
    Detacher &detacher;
    capture::OsRoots os;
    UprobeAbilities abilities;
    DebugRoots debug;
    // also of look-ups that were given up
    std::shared_ptr<Sonames> sonames = std::make_shared<Sonames>();
    std::shared_ptr<SwitchingFiles> switching = std::make_shared<SwitchingFiles>();
};

class ProbeEnd {
public:
    // Function: the entries and returns of a function.  Enter, Leave: the two ends of a pair.
    enum class Kind { Function, Enter, Leave };
    static constexpr std::size_t files_max = 64;     // files of one name, in all containers together
    static constexpr std::size_t refusals_max = 256; // remembered files that do not have the place
    // How long one file may take, once.  To read the symbols of a very large program takes about a second.
    static inline std::chrono::milliseconds resolve_patience{5000}; // a test under a sanitizer has more

    ProbeEnd(ProbePoint point, Kind kind, std::uint32_t probe) : point_(std::move(point)), kind_(kind), probe_(probe) {}

    const ProbePoint &point() const { return point_; }
    // Searches the file for the place, and keeps the file if it has it.  true: the file is new; a known file stays as
    // it is. Error: why the place is not there.  The answer is remembered, so the file is not searched again.
    Result<bool> add(TargetFile file, const ProbeTools &tools);
    // The files whose returns the kernel's return probes catch, or will catch.
    std::vector<TargetName> with_return_probes() const;
    // Removes the return probes from the file; from now on its ret instructions are probed, for the reason given.
    // Error: these are not known, and the file is forgotten.  false: the file had no return probes.
    Result<bool> avoid_return_probes(const FileIdentity &identity, const std::string &why, const ProbeTools &tools);
    // Forgets files that have been written to since they were read; true: there were such files.
    bool drop_changed(const ProbeTools &tools);
    // Allows files that did not have the place to be searched again, because a debug file may have been installed.
    void forget_refusals() { refusals_.clear(); }
    bool knows(const FileIdentity &identity) const;

    // Puts the missing probes, in every file, for all processes or for one.
    Status attach_everywhere(const ProbeTools &tools);
    Status attach(std::uint32_t pid, const ProbeTools &tools);
    void detach(std::uint32_t pid, const ProbeTools &tools);
    void detach_all(const ProbeTools &tools);

    // Several threads may take part in one call, so the calls are not kept with a thread.
    bool keyed() const;
    bool in_go() const;
    bool found() const { return !files_.empty(); }
    bool attached() const;
    std::string warning() const; // about its places; "": none
    std::string note() const;
    CallTraps traps() const; // of a call that passes the costliest of its places
    std::vector<std::string> paths() const;

private:
    using Links = std::vector<LatencyKernel::Link>;
    struct File {
        TargetFile target;
        std::vector<ProbeSite> sites;
        Links everywhere;
        std::map<std::uint32_t, Links> by_process;
    };

    static bool has_return_probes(const std::vector<ProbeSite> &sites);
    Result<std::vector<ProbeSite>> resolve(const std::shared_ptr<TargetFile> &file, std::string no_return_probe,
                                           const ProbeTools &tools) const;
    void refuse(const FileIdentity &identity, const Error &refusal);
    Result<Links> put(const File &file, std::optional<std::uint32_t> pid, const ProbeTools &tools) const;
    void detach(File &file, const ProbeTools &tools);

    ProbePoint point_;
    Kind kind_;
    std::uint32_t probe_;
    std::vector<File> files_; // oldest first
    std::map<FileIdentity, std::string> refusals_;
};

} // namespace incident::daemon
