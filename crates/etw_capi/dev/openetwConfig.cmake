# Defines the target openetw::openetw: the shared library and its headers.
get_filename_component(OPENETW_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET openetw::openetw)
  add_library(openetw::openetw SHARED IMPORTED)
  set_target_properties(
    openetw::openetw
    PROPERTIES IMPORTED_LOCATION "${OPENETW_PREFIX}/lib/libopenetw.so.0"
               IMPORTED_SONAME "libopenetw.so.0"
               INTERFACE_INCLUDE_DIRECTORIES "${OPENETW_PREFIX}/include/openetw")
endif()
