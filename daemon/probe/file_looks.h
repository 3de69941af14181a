// Answers questions about files on another thread, because a file system may hang.  All questions share one thread and
// one deadline, because on a busy host each hand-over between threads takes a while.
#pragma once

#include "daemon/probe/probe_target.h"

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

namespace incident::daemon {

using FileAnswer = Result<std::optional<TargetFile>>; // nullopt: nothing new
using FileQuestion = std::function<FileAnswer()>;     // must own what it uses, because it may outlive the call

// Returns the answers in order.  An answer that did not come in time is an Error ETIMEDOUT.  nullopt: the question was
// not asked, because one before it got no answer, or because too many earlier ones still hang.
std::vector<std::optional<FileAnswer>> ask_all(std::vector<FileQuestion> questions, std::chrono::milliseconds patience);

} // namespace incident::daemon
