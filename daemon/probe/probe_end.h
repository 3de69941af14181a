// One end of a probe: a place named in a rule, in every file it has been found in, and the
// uprobes put there.
#pragma once

#include "daemon/probe/detacher.h"
#include "daemon/probe/probe_elf.h"
#include "daemon/probe/probe_target.h"
#include "daemon/probe/switching_files.h"
#include "daemon/probe/trap_price.h"

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace incident::daemon {

// As in the rule language (rules::ProbePoint): "uprobe:BINARY:SYMBOL[+OFFSET]" or
// "usdt:BINARY:PROVIDER:NAME"; BINARY an absolute path, or a bare library name.
struct ProbePoint {
    enum class Kind { Uprobe, Usdt } kind = Kind::Uprobe;
    std::string binary;
    std::string symbol;
    std::uint64_t offset = 0;
    std::string provider, name;
    std::string text; // as written
    bool bare() const { return !binary.starts_with('/'); }
};

// What putting probes takes; outlives every end.
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
    // Function: its entries and its returns.  Enter, Leave: the two ends of a pair.
    enum class Kind { Function, Enter, Leave };
    static constexpr std::size_t files_max = 64;     // files of that name, in all containers together
    static constexpr std::size_t refusals_max = 256; // files remembered in which the place is not
    // For one file, once: a look through the symbols of a very large program takes about a second.
    static constexpr std::chrono::milliseconds resolve_patience{5000};

    ProbeEnd(ProbePoint point, Kind kind, std::uint32_t probe) : point_(std::move(point)), kind_(kind), probe_(probe) {}

    const ProbePoint &point() const { return point_; }
    // Looks for the place in the file; keeps a file it is found in.  Known files are kept as
    // they are.  true: new.  Error: why it is not there; what was found out of a file is not looked for again.
    Result<bool> add(TargetFile file, const ProbeTools &tools);
    // Files whose returns are, or are to be, probed by the kernel's return probes.
    std::vector<TargetName> with_return_probes() const;
    // Takes these from the file: its calls' returns are to be probed at ret instructions from now on, for that reason.
    // Error: those are not known, and the file is forgotten.  false: it has none.
    Result<bool> avoid_return_probes(const FileIdentity &identity, const std::string &why, const ProbeTools &tools);
    // Forgets files that were written to since; true: there were such.
    bool drop_changed(const ProbeTools &tools);
    // Where the place was not is looked at anew: a debug file may have come.
    void forget_refusals() { refusals_.clear(); }
    bool knows(const FileIdentity &identity) const;

    // Puts probes where they are missing, in every file: for all processes, or for one.
    Status attach_everywhere(const ProbeTools &tools);
    Status attach(std::uint32_t pid, const ProbeTools &tools);
    void detach(std::uint32_t pid, const ProbeTools &tools);
    void detach_all(const ProbeTools &tools);

    // Whose calls more than one thread may make: they are not among the frames of threads.
    bool keyed() const;
    bool in_go() const;
    bool found() const { return !files_.empty(); }
    bool attached() const;
    std::string warning() const; // of its places; "" : none
    std::string note() const;
    CallTraps traps() const; // of a call that comes to the dearest of its places
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
