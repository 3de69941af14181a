# Read by cpack for each generator (CPACK_PROJECT_CONFIG_FILE).

# The same input gives the same package: times are those of the newest changelog entry.
if(NOT DEFINED ENV{SOURCE_DATE_EPOCH})
  set(ENV{SOURCE_DATE_EPOCH} ${CPACK_INCIDENTD_EPOCH})
endif()
if(CPACK_GENERATOR STREQUAL "RPM")
  set(CPACK_STRIP_FILES ON)
endif()
