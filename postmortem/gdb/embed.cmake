# cmake -DDIR=gdb -DFILES=a.py,b.py -DOUT=gdb_script.cpp -P embed.cmake: files as C++ strings.
string(REPLACE "," ";" files "${FILES}")
set(texts "")
set(table "")
set(number 0)
foreach(file IN LISTS files)
  file(READ "${DIR}/${file}" bytes HEX)
  file(SIZE "${DIR}/${file}" size)
  # Lines of a length that editors and diffs bear.
  string(REGEX REPLACE "(................................)" "\\1\"\n    \"" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${bytes}")
  string(APPEND texts "constexpr char text_${number}[] =\n    \"${bytes}\";\n")
  string(APPEND table "    {\"${file}\", {text_${number}, ${size}}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE "${OUT}" "// Made from the files of gdb/ by embed.cmake.
#include \"postmortem/gdb/gdb_script.h\"
namespace incident::postmortem {
namespace {
${texts}constexpr GdbFile files[] = {
${table}};
} // namespace
const std::span<const GdbFile> gdb_files{files};
} // namespace incident::postmortem
")
