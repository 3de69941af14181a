#include "postmortem/verdict/records.h"

#include <algorithm>
#include <csignal>

namespace incident::postmortem {

bool SignalLine::is_fault() const {
    const bool of_instruction =
        number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL || number == SIGTRAP;
    return of_instruction && code > 0 && code != SI_KERNEL;
}

std::vector<SignalLine> signal_lines(const capture::Bundle &bundle) {
    std::vector<SignalLine> lines;
    (void)bundle.lines("timeline.jsonl", [&](std::string_view text) {
        if (text.find("\"kind\":\"signal\"") == std::string_view::npos)
            return true; // most lines: not worth a parser
        const auto parsed = parse_json(text);
        if (!parsed)
            return true;
        const JsonView view(*parsed);
        if (view["kind"].text() != "signal")
            return true;
        SignalLine &line = lines.emplace_back();
        line.t_ns = view["t_ns"].integer().value_or(0);
        line.tid = static_cast<std::uint32_t>(view["tid"].count());
        line.number = static_cast<int>(view["signal"].integer().value_or(0));
        line.code = static_cast<int>(view["code"].integer().value_or(0));
        line.name = view["name"].text();
        line.code_name = view["code_name"].text();
        line.address = view["address"].natural();
        line.delivered = view["phase"].text() == "delivered";
        line.handled = line.delivered && view["disposition"].text() == "handled";
        line.sender_pid = static_cast<std::uint32_t>(view["sender"]["pid"].count());
        line.trigger = view["trigger"].flag();
        return true;
    });
    std::ranges::stable_sort(lines, {}, &SignalLine::t_ns);
    return lines;
}

} // namespace incident::postmortem
