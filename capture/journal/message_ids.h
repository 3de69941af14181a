// The MESSAGE_ID= of the entries of systemd that are looked for (sd-messages.h).
#pragma once

namespace incident::capture {

inline constexpr const char *core_dumped_id = "fc2e22bc6ee647b6b90729ab34a250b1"; // SD_MESSAGE_COREDUMP

} // namespace incident::capture
