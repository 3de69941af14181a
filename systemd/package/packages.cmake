# cpack -G DEB and cpack -G RPM: one package, and its debug symbols in incidentd-dbgsym.
set(PACKAGE_DIR ${CMAKE_CURRENT_SOURCE_DIR}/package)
set(PACKAGE_OUT ${CMAKE_CURRENT_BINARY_DIR}/package)

# Those that can be enabled are stopped at removal and restarted at upgrade if they run.
# Templates have instances of their own making.
foreach(unit IN LISTS UNITS)
  file(STRINGS ${unit} installed REGEX "^\\[Install\\]")
  get_filename_component(name ${unit} NAME)
  if(installed AND NOT name MATCHES "@")
    list(APPEND PACKAGE_UNITS ${name})
  endif()
endforeach()
list(JOIN PACKAGE_UNITS " " PACKAGE_UNITS)
foreach(script postinst prerm postrm rpm-post rpm-preun)
  configure_file(package/${script}.in ${PACKAGE_OUT}/${script} @ONLY
    FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
endforeach()
file(WRITE ${PACKAGE_OUT}/conffiles "/etc/incidentd/incidentd.toml\n")

set(CPACK_PACKAGE_NAME incidentd)
set(CPACK_PACKAGE_VENDOR "the authors of incidentd")
set(CPACK_PACKAGE_CONTACT "${CHANGELOG_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "flight recorder and core-dump trigger for Linux processes")
set(CPACK_PACKAGE_DESCRIPTION "incidentd always knows the last moments of every process it watches: system
calls, opened files, signals, memory.  When a rule matches (a crash, an OOM
kill, a call that takes too long, a stalled ZFS pool) it freezes that history,
adds what only this instant can tell, and writes it down as an incident.
incidentctl shows incidents, joins them to the core in coredumpctl, and opens
both in gdb.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_GENERATOR DEB)
set(CPACK_PROJECT_CONFIG_FILE ${PACKAGE_DIR}/settings.cmake)
set(CPACK_PRE_BUILD_SCRIPTS ${PACKAGE_DIR}/staged.cmake)
set(CPACK_INCIDENTD_SYMBOLS ON)
set(CPACK_INCIDENTD_EPOCH ${CHANGELOG_EPOCH})
pkg_get_variable(CPACK_INCIDENTD_UNIT_DIR systemd systemdsystemunitdir)

# dpkg-shlibdeps knows the libraries.  systemd also makes the group and the directories.
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS systemd)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "systemd-coredump, gdb")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "prometheus-node-exporter")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${PACKAGE_OUT}/postinst ${PACKAGE_OUT}/prerm ${PACKAGE_OUT}/postrm ${PACKAGE_OUT}/conffiles)

set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE "GPL-2.0-only (the kernel side); none stated for the rest")
set(CPACK_RPM_PACKAGE_GROUP "System Environment/Daemons")
set(CPACK_RPM_PACKAGE_REQUIRES systemd)
set(CPACK_RPM_PACKAGE_SUGGESTS gdb)
set(CPACK_RPM_USER_FILELIST "%config(noreplace) /etc/incidentd/incidentd.toml")
set(CPACK_RPM_POST_INSTALL_SCRIPT_FILE ${PACKAGE_OUT}/rpm-post)
set(CPACK_RPM_PRE_UNINSTALL_SCRIPT_FILE ${PACKAGE_OUT}/rpm-preun)
set(CPACK_RPM_POST_UNINSTALL_SCRIPT_FILE ${PACKAGE_DIR}/rpm-postun)
# Directories that are other packages'.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION
  /usr/lib/systemd /usr/lib/systemd/system /usr/lib/systemd/catalog /usr/lib/sysusers.d /usr/lib/tmpfiles.d
  /usr/share/man /usr/share/man/man1 /usr/share/man/man5 /usr/share/man/man8
  /usr/share/bash-completion /usr/share/bash-completion/completions
  /usr/share/zsh /usr/share/zsh/vendor-completions)
include(CPack)
