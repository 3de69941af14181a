// Sends one question to the running daemon over its control socket.
#pragma once

#include "capture/os/result.h"
#include "postmortem/read/json_view.h"

#include <chrono>
#include <string>

namespace incident::postmortem {

inline constexpr std::size_t control_reply_max = 16u << 20;

// Sends {"verb": VERB} and reads one JSON document until the daemon closes.
Result<Json> ask_daemon(const std::string &state, std::string_view verb,
                        std::chrono::milliseconds patience = std::chrono::seconds(5));

} // namespace incident::postmortem
