// Reads the auxiliary vector of the process that a core is of. The kernel itself writes it there (NT_AUXV), so it
// shows whether a core belongs to an incident, whatever a journal entry or a bundle says.
#pragma once

#include "postmortem/core/core_decoder.h"

#include <string>

namespace incident::postmortem {

// Reads on from the beginning of a core until its notes are complete. "" if it has no such note, or if what it has
// cannot be read: the copy will tell.
std::string auxv_of_core(CoreDecoder &core);
// The same, of the first bytes of an uncompressed core.
std::string auxv_of_head(std::span<const std::uint8_t> head);

// Whether two auxiliary vectors contradict. An unknown one ("") contradicts nothing; zeros at the end do not count.
bool vectors_differ(std::string_view one, std::string_view other);

} // namespace incident::postmortem
