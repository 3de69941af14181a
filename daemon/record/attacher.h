// A process of its own that keeps the rights to load and attach BPF programs, so that the daemon, which reads what
// others write, can give them up.  It does what AttachRequest names, with the recorder's own programs, and nothing
// else.
#pragma once

#include "daemon/os/servant.h"
#include "daemon/record/attach_request.h"
#include "daemon/record/bpf_programs.h"
#include "daemon/record/recorder.h"

#include <memory>

struct recorder_bpf;

namespace incident::daemon {

class Attacher {
public:
    // recorder: loaded.  Call it before other threads are made.
    static Result<std::unique_ptr<Attacher>> start(recorder_bpf &recorder);

    // Any thread may ask.  file: goes along; -1: none.
    AttachAnswer ask(const AttachRequest &request, int file = -1);
    // Readable when the process has ended: from then on nothing can be attached.
    int ended() const { return servant_->ended(); }

private:
    explicit Attacher(std::unique_ptr<Servant> servant) : servant_(std::move(servant)) {}
    std::unique_ptr<Servant> servant_;
};

// What an answer keeps attached.
Result<Attached> attached(AttachAnswer answer);

// The code of all loaded BPF programs; empty: it is not told.
std::vector<BpfCode> ask_for_bpf_code(Attacher &attacher);

// path: of the file; /proc/self/fd/N names exactly one inode.  request: where, and with which cookie.
Result<Attached> attach_uprobe(Attacher &attacher, const char *program, const std::string &path, AttachRequest request);

} // namespace incident::daemon
