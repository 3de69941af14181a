# Run by cpack on the staged files, before they are packed (CPACK_PRE_BUILD_SCRIPTS).
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()
set(staged ${CPACK_TEMPORARY_INSTALL_DIRECTORY})

# dpkg's programs know a unit by the path in which Debian ships it: /lib on Debian 12,
# /usr/lib from 13 on.  Everybody else's is /usr/lib.
if(CPACK_INCIDENTD_UNIT_DIR MATCHES "^/lib/")
  cmake_path(GET CPACK_INCIDENTD_UNIT_DIR PARENT_PATH above)
  file(MAKE_DIRECTORY ${staged}${above})
  file(RENAME ${staged}/usr/lib/systemd/system ${staged}${CPACK_INCIDENTD_UNIT_DIR})
endif()

# cpack -D CPACK_INCIDENTD_SYMBOLS=OFF leaves them away.
set(programs ${staged}/usr/sbin/incidentd ${staged}/usr/bin/incidentctl)
if(CPACK_INCIDENTD_SYMBOLS)
  include(${CMAKE_CURRENT_LIST_DIR}/debug_symbols.cmake)
endif()
execute_process(COMMAND strip --remove-section=.comment --remove-section=.note ${programs} COMMAND_ERROR_IS_FATAL ANY)
