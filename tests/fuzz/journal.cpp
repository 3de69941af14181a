// Fields of journal entries, which anybody can send, and what is concluded from them about a death.
#include "capture/core/core_match.h"
#include "capture/core/stored_core.h"
#include "tests/fuzz/target.h"

#include <map>

namespace incident::fuzz {
namespace {

using namespace capture;

// Lines "NAME=VALUE", as `journalctl -o export` has them; \n and \0 in a value stand for these bytes.
using Fields = std::map<std::string, std::string, std::less<>>;

Fields fields_of(std::string_view text) {
    Fields fields;
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        const std::size_t equals = line.find('=');
        if (equals == std::string_view::npos)
            continue;
        std::string &value = fields[std::string(line.substr(0, equals))];
        for (std::string_view rest = line.substr(equals + 1); !rest.empty();) {
            const bool escaped = rest.starts_with("\\n") || rest.starts_with("\\0");
            value += !escaped ? rest.front() : rest[1] == 'n' ? '\n' : '\0';
            rest.remove_prefix(escaped ? 2 : 1);
        }
    }
    return fields;
}

std::string value_of(const Fields &fields, std::string_view name) {
    const auto found = fields.find(name);
    return found == fields.end() ? "" : found->second;
}

std::uint64_t number_of(const Fields &fields, std::string_view name) {
    std::uint64_t number = 0;
    for (const char c : value_of(fields, name))
        number = number * 10 + static_cast<unsigned char>(c - '0') % 10;
    return number;
}

DeathIdentity death_of(const Fields &fields) {
    DeathIdentity death;
    death.boot_id = "0123456789abcdef0123456789abcdef";
    death.process = {static_cast<std::uint32_t>(number_of(fields, "PID")), {number_of(fields, "START")}};
    death.exe = value_of(fields, "EXE");
    death.comm = value_of(fields, "COMM");
    death.signal = static_cast<int>(number_of(fields, "SIGNAL") % 65);
    death.time = {number_of(fields, "TIME")};
    death.started = {number_of(fields, "STARTED")};
    death.auxv = value_of(fields, "AUXV");
    death.uid = static_cast<std::uint32_t>(number_of(fields, "UID"));
    return death;
}

} // namespace

// The death; then its entries.
FUZZ_TARGET(journal) {
    const auto parts = parts_of(input);
    const Fields known = fields_of(parts[0]);
    const DeathIdentity death = death_of(known);
    std::vector<CoreEntry> entries;
    for (std::size_t i = 1; i < parts.size(); ++i) {
        const Fields fields = fields_of(parts[i]);
        CoreEntry &entry =
            entries.emplace_back(core_entry_of([&fields](const char *name) { return value_of(fields, name); }));
        entry.written = {number_of(fields, "WRITTEN")};
        if (const auto name = StoredCoreName::parse(entry.file))
            must(!name->boot_id.empty() && (!name->contradiction(death).empty() || name->pid == death.process.pid),
                 "a core's name is of this death or contradicts it");
    }
    const CoreHandler handler{.uid = known.contains("HANDLER_UID")
                                         ? std::optional(static_cast<std::uint32_t>(number_of(known, "HANDLER_UID")))
                                         : std::nullopt,
                              .exe = value_of(known, "HANDLER_EXE"),
                              .in_unit = known.contains("IN_UNIT")};
    const CoreMatch match = match_core(death, entries, handler);
    must((match.join == Join::None) == (match.entry == nullptr), "a join has its entry");
    must(!match.reason.empty(), "a join has its reason");
    if (match.join == Join::Exact) {
        must(match.entry->signal == death.signal && !death.auxv.empty() && !match.entry->auxv.empty(),
             "an exact join has the same signal and both vectors");
        must(!match.entry->uid || death.uid == ~0u || *match.entry->uid == death.uid,
             "an exact join has the same user");
    }
    if (match.entry)
        must(match.entry->transport == "journal" && match.entry->writer_uid &&
                 (*match.entry->writer_uid == 0 || match.entry->writer_uid == handler.uid ||
                  match.entry->writer_uid == death.uid),
             "an entry counts only if its sender may be systemd-coredump");
    const CorePrecheck precheck{.signal = death.signal,
                                .rlimit_core = number_of(known, "RLIMIT"),
                                .dumpable = static_cast<std::uint32_t>(number_of(known, "DUMPABLE") % 3),
                                .pid = death.process.pid,
                                .ns_pid = death.process.pid,
                                .core_pattern = value_of(known, "CORE_PATTERN"),
                                .kernel_log = value_of(known, "KERNEL_LOG"),
                                .died = {number_of(known, "DIED")},
                                .listener = known.contains("LISTENER")};
    (void)no_core_reason(precheck);
}

} // namespace incident::fuzz
