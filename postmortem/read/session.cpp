#include "postmortem/read/session.h"

#include "postmortem/terminal/escape.h"

namespace incident::postmortem {

void Session::say(std::string_view text) const {
    out.flush(); // what was printed before is read before
    err.line("incidentctl: " + printable_lines(text, 2));
    err.flush();
}

} // namespace incident::postmortem
