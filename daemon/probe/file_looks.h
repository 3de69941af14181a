// Questions about files, answered on one other thread within one deadline: a file system may hang, and on a busy
// host each hand-over between threads takes a while.
#pragma once

#include "daemon/probe/probe_target.h"

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

namespace incident::daemon {

using FileAnswer = Result<std::optional<TargetFile>>; // none: nothing new
using FileQuestion = std::function<FileAnswer()>;     // owns what it touches: it may outlive the call

// The answers in order.  One that did not come in time is an Error ETIMEDOUT; nullopt: not asked, because one
// before it did not answer, or because too many asked earlier do not.
std::vector<std::optional<FileAnswer>> ask_all(std::vector<FileQuestion> questions, std::chrono::milliseconds patience);

} // namespace incident::daemon
