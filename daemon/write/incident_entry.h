// The journal entry of an incident: what operators already look at, forward and alert on.
//
// One entry each, sent when all that will be known soon is known (core, verdict), with fields
// of our own and, of a process that died, those systemd-coredump gives its entries
// (COREDUMP_PID=, COREDUMP_EXE=, …), so that one match finds both.  OBJECT_SYSTEMD_UNIT= makes
// `journalctl -u UNIT` show it (systemd.journal-fields(7), journalctl's add_matches_for_unit()).
#pragma once

#include "capture/bundle/bundle.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace incident::daemon {

// systemd/incidentd.catalog explains it.
inline constexpr const char *incident_message_id = "0b1ca4f5d0f44a3c9d8f2d7e61c05ba7";
// SD_MESSAGE_BACKTRACE (sd-messages.h): coredumpctl lists entries with it beside those of cores.
inline constexpr const char *backtrace_message_id = "1f4e0a44a88649939aaea34fc6da8c95";

// "NAME=value" each; values hold what bytes they hold.  incident: a bundle's incident.json; path: the bundle's.
std::vector<std::string> incident_fields(const nlohmann::json &incident, const std::string &path);

// Sends the entry of a committed bundle.  Without a journal nothing is sent, which is no error.
Status send_incident_entry(const capture::Bundle &bundle, const std::string &path);

} // namespace incident::daemon
