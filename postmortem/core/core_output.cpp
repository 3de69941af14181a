#include "postmortem/core/core_output.h"

#include "capture/core/stored_core.h"
#include "postmortem/core/core_auxv.h"
#include "postmortem/terminal/times.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace incident::postmortem {

namespace {

// The file is opened once: what was checked is what is read, twice from its beginning.
Result<CoreDecoder> open_core(const Incident &incident, const std::string &file, const capture::OsRoots &os) {
    const auto stored = capture::find_stored_core(os, file);
    auto fd = stored ? capture::open_stored_core(*stored) : fail(stored.error());
    if (!fd) {
        Error error = Error(fd.error()).in("cannot open the core " + file);
        if (error.code == EACCES)
            error.what += " (run as root, or as the user who owned the process)";
        return fail(std::move(error));
    }
    UniqueFd again(fcntl(fd->get(), F_DUPFD_CLOEXEC, 0));
    if (!again)
        return fail(Error::system("cannot open the core " + file));
    auto head = CoreDecoder::of(std::move(*fd), file);
    if (!head)
        return head;
    if (vectors_differ(auxv_of_core(*head), incident.death().auxv))
        return fail(fmt::format("the core {} is of another process (the auxiliary vectors differ)", file));
    if (lseek(again.get(), 0, SEEK_SET) != 0)
        return fail(Error::system("cannot read the core " + file));
    return CoreDecoder::of(std::move(again), file);
}

} // namespace

Result<CopiedCore> fetch_core(const Incident &incident, const LocatedCore &located, int into, bool stream,
                              const std::string &place, const Session &session, SignalScope &signals) {
    auto decoder = open_core(incident, located.link.file, session.os);
    if (!decoder)
        return fail(decoder.error());
    bool shown = false;
    CopyControl control{.progress = {}, .interrupted = [&signals] { return signals.interrupted(); }};
    if (session.err.terminal())
        control.progress = [&](std::uint64_t done, std::uint64_t all) {
            session.err.write(fmt::format("\r{} the core … {} of {} ({} %)\x1b[K",
                                          decoder->compressed() ? "decompressing" : "copying", size_text(done),
                                          size_text(all), all ? done * 100 / all : 100));
            session.err.flush();
            shown = true;
        };
    const auto copied = copy_core(*decoder, into, stream, place, control);
    if (shown) {
        session.err.write("\r\x1b[K");
        session.err.flush();
    }
    if (!copied)
        return fail(Error(copied.error()).in(located.link.file));
    if (copied->truncated || located.link.truncated)
        session.say("the core is truncated: it was cut when it was written, some memory is missing");
    return copied;
}

} // namespace incident::postmortem
