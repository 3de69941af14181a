# cmake -DIN=incident.py -DOUT=gdb_script.cpp -P embed.cmake: a file as a C++ string.
file(READ "${IN}" bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
# Lines of a length that editors and diffs bear.
string(REGEX REPLACE "(('[^']*',){16})" "\\1\n    " bytes "${bytes}")
file(WRITE "${OUT}" "// Made from ${IN} by embed.cmake.
#include \"postmortem/gdb_script.h\"
namespace incident::postmortem {
static constexpr char bytes[] = {
    ${bytes} '\\0'};
const std::string_view gdb_script{bytes, sizeof bytes - 1};
} // namespace incident::postmortem
")
