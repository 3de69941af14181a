# Packs the debug symbols of the staged ${programs} into incidentd-dbgsym, as debhelper does
# (dh_dwz, dh_strip); debuggers find them by build-id.  Not by CPACK_DEBIAN_DEBUGINFO_PACKAGE: cmake 3.25's has md5sums of
# paths on the building machine, no copyright, and takes a minute to compress.
set(debug ${CPACK_TOPLEVEL_DIRECTORY}/dbgsym)
file(REMOVE_RECURSE ${debug})

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

find_program(DWZ dwz)
if(DWZ) # half the size
  run(${DWZ} -- ${programs})
endif()
foreach(program IN LISTS programs)
  execute_process(COMMAND env LC_ALL=C readelf -n ${program} OUTPUT_VARIABLE notes COMMAND_ERROR_IS_FATAL ANY)
  if(NOT notes MATCHES "Build ID: ([0-9a-f][0-9a-f])([0-9a-f]+)")
    message(FATAL_ERROR "${program} has no build-id")
  endif()
  list(APPEND build_ids ${CMAKE_MATCH_1}${CMAKE_MATCH_2})
  set(file usr/lib/debug/.build-id/${CMAKE_MATCH_1}/${CMAKE_MATCH_2}.debug)
  list(APPEND files ${file})
  cmake_path(GET file PARENT_PATH directory)
  file(MAKE_DIRECTORY ${debug}/${directory})
  run(objcopy --only-keep-debug --compress-debug-sections ${program} ${debug}/${file})
  file(CHMOD ${debug}/${file} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
endforeach()

file(MAKE_DIRECTORY ${debug}/DEBIAN ${debug}/usr/share/doc)
execute_process(COMMAND md5sum ${files} WORKING_DIRECTORY ${debug} OUTPUT_FILE ${debug}/DEBIAN/md5sums
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND dpkg --print-architecture OUTPUT_VARIABLE architecture OUTPUT_STRIP_TRAILING_WHITESPACE
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND du -sk --apparent-size ${debug} OUTPUT_VARIABLE size COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCH "^[0-9]+" size ${size})
set(version ${CPACK_PACKAGE_VERSION})
list(JOIN build_ids " " build_ids)
file(WRITE ${debug}/DEBIAN/control "Package: incidentd-dbgsym
Version: ${version}
Architecture: ${architecture}
Auto-Built-Package: debug-symbols
Maintainer: ${CPACK_PACKAGE_CONTACT}
Installed-Size: ${size}
Depends: incidentd (= ${version})
Section: debug
Priority: optional
Description: debug symbols for incidentd
Build-Ids: ${build_ids}
")
file(CHMOD_RECURSE ${debug} DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
file(CREATE_LINK incidentd ${debug}/usr/share/doc/incidentd-dbgsym SYMBOLIC)
# The sections are compressed already.
run(dpkg-deb --root-owner-group -Zgzip -z1 --build ${debug}
  ${CPACK_PACKAGE_DIRECTORY}/incidentd-dbgsym_${version}_${architecture}.deb)
file(REMOVE_RECURSE ${debug})
