// Names that both the sentence and the object of a trigger use.  Internal to capture/.
#pragma once

#include <cstdint>
#include <string>

namespace incident::capture {

// The errno of a result ("ENOENT"); "" if it is no error.
std::string error_name(std::int64_t ret);

// "write"; enum req_op, include/linux/blk_types.h
std::string operation_name(std::uint32_t operation);

} // namespace incident::capture
