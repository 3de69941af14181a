// Puts probes at the places where calls end without a return, in the processes whose calls are watched.  They prove
// that a call without a return is still running.
//
// They are attached before the probes of the functions, so if the beginning of a call was seen, its end is seen too.
// A process may map libraries later; these are searched for a few times, and once more before a call is reported.  A
// call that began before all code of its process was probed is not reported as running.
#pragma once

#include "capture/os/maps.h"
#include "daemon/probe/exit_points.h"
#include "daemon/probe/probe_end.h"

#include <map>
#include <set>

namespace incident::daemon {

class ExitProbes {
public:
    static constexpr std::size_t files_max = 4096; // mapped files whose places are remembered

    // Exits: where calls end without a return.  Loads: where a dynamic loader has mapped code.
    enum class Follows { Exits, Loads };

    ExitProbes(const ProbeTools &tools, Follows follows) : tools_(tools), follows_(follows) {}
    ~ExitProbes();

    // Probes every process from now on, or these; with neither, no process is probed.
    void want(bool everywhere, std::set<std::uint32_t> processes);
    // Reads what the process has mapped now, and probes the files that are new.
    void look_in(std::uint32_t pid);
    // While off, no process is followed.
    void turn(bool on);
    bool wanted() const { return everywhere_ || !processes_.empty(); }

    // Why it is not proven that the call with this frame is still running.  "": it is proven, because every way out of
    // the code of its process has been watched since the call began, and the frame is still on the stack. function: the
    // frame belongs to a function, not to a pair.
    std::string doubt(std::uint32_t tgid, std::uint32_t tid, const bpf::call_frame &frame, bool function);

private:
    struct Key { // as /proc/PID/maps has it
        std::uint32_t major, minor;
        std::uint64_t inode;
        auto operator<=>(const Key &) const = default;
    };
    using Links = std::vector<LatencyKernel::Link>;
    struct Standing {
        Links links;
        std::uint64_t since_ns = 0; // monotonic: since then all places are probed
    };
    struct File {
        std::string path;
        UniqueFd fd; // only if there is something to probe
        FileExits exits;
        std::string refused; // why it could not be read, or not be probed
        Standing everywhere;
        std::map<std::uint32_t, Standing> by_process;
    };

    void look_on_host();
    File &know(const Key &key, TargetFile target);
    void look_at(std::uint32_t pid, const capture::Maps &maps);
    void follow(File &file);
    Standing put(File &file, std::optional<std::uint32_t> pid);
    void drop(Standing &standing);
    std::string uncovered(std::uint32_t pid, const capture::Maps &maps, std::uint64_t since_ns) const;

    const ProbeTools &tools_;
    const Follows follows_;
    bool everywhere_ = false, on_ = true, host_seen_ = false;
    std::set<std::uint32_t> processes_;
    std::map<Key, File> files_;
};

} // namespace incident::daemon
