// The MESSAGE_ID= of the entries of systemd that are looked for (sd-messages.h).
#pragma once

namespace incident::capture {

inline constexpr const char *core_dumped_id = "fc2e22bc6ee647b6b90729ab34a250b1";      // SD_MESSAGE_COREDUMP
inline constexpr const char *messages_dropped_id = "a596d6fe7bfa4994828e72309e95d61e"; // SD_MESSAGE_JOURNAL_DROPPED

} // namespace incident::capture
