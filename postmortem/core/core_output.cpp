#include "postmortem/core/core_output.h"

#include "postmortem/terminal/times.h"

#include <fmt/format.h>

namespace incident::postmortem {

Result<CopiedCore> fetch_core(const LocatedCore &located, int into, bool stream, const std::string &place,
                              const Session &session, SignalScope &signals) {
    auto decoder = CoreDecoder::open(located.link.file);
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
