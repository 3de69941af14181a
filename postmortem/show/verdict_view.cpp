#include "postmortem/show/verdict_view.h"

#include "postmortem/terminal/escape.h"

namespace incident::postmortem {

std::vector<std::string> verdict_lines(JsonView verdict) {
    std::vector<std::string> lines;
    verdict["claims"].each([&](JsonView claim) {
        lines.push_back(printable(claim["claim"].shown()));
        claim["facts"].each([&](JsonView fact) { lines.push_back("  - " + printable(fact.shown())); });
    });
    return lines;
}

} // namespace incident::postmortem
