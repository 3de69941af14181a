// Writes the journal entry of an incident, because operators already read the journal, forward it and alert on it.
//
// Each incident gets one entry, sent when its core and verdict are known or will not come.  It has fields of its own.
// If the process died, it also has the fields of systemd-coredump's entries (COREDUMP_PID=, COREDUMP_EXE=, …), so that
// one match finds both.  OBJECT_SYSTEMD_UNIT= makes `journalctl -u UNIT` show it (systemd.journal-fields(7), and
// add_matches_for_unit() in journalctl).
#pragma once

#include "capture/bundle/bundle.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace incident::daemon {

// systemd/incidentd.catalog explains it.
inline constexpr const char *incident_message_id = "0b1ca4f5d0f44a3c9d8f2d7e61c05ba7";
// SD_MESSAGE_BACKTRACE (sd-messages.h): coredumpctl lists entries with this id beside those of cores.
inline constexpr const char *backtrace_message_id = "1f4e0a44a88649939aaea34fc6da8c95";

// Each field is "NAME=value", and a value may hold any bytes.  incident: the incident.json of a bundle; path: the
// bundle's.
using EntryFields = std::vector<std::string>;
EntryFields incident_fields(const nlohmann::json &incident, const std::string &path);
Result<EntryFields> incident_entry(const capture::Bundle &bundle, const std::string &path); // of a committed bundle

// Waits as long as journald does not read.  If there is no journal, nothing is sent, and that is no error.
Status send_incident_entry(const EntryFields &fields);

} // namespace incident::daemon
