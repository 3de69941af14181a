// Starts the post-mortem tool.  A process of its own does it, because the tool needs rights that the daemon can give up
// then, and because the kernel is to kill it before the daemon if memory runs out, which children inherit.
#pragma once

#include "daemon/os/servant.h"

#include <memory>
#include <string>

namespace incident::daemon {

class AnalysisProcess {
public:
    // program: the tool.  Call it before other threads are made.
    static Result<std::unique_ptr<AnalysisProcess>> start(const std::string &program, const std::string &state);

    // Starts the tool on a bundle, with its standard output in `output`; the pidfd of the process.  One runs at a time.
    Result<UniqueFd> begin(const std::string &bundle, int output);
    // Ends it and what it has started, if it still runs.  Error: how it ended, if not well.
    Status end();
    // Readable when the process that starts the tool has ended.
    int ended() const { return servant_->ended(); }

private:
    explicit AnalysisProcess(std::unique_ptr<Servant> servant) : servant_(std::move(servant)) {}
    std::unique_ptr<Servant> servant_;
};

} // namespace incident::daemon
