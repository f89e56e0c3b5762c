# Defines the targets openetw::openetw (the shared library) and, if it is installed, openetw::static.
get_filename_component(OPENETW_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET openetw::openetw)
  add_library(openetw::openetw SHARED IMPORTED)
  set_target_properties(
    openetw::openetw
    PROPERTIES IMPORTED_LOCATION "${OPENETW_PREFIX}/lib/libopenetw.so.0"
               IMPORTED_SONAME "libopenetw.so.0"
               INTERFACE_INCLUDE_DIRECTORIES "${OPENETW_PREFIX}/include/openetw")
endif()
if(NOT TARGET openetw::static AND EXISTS "${OPENETW_PREFIX}/lib/libopenetw.a")
  add_library(openetw::static STATIC IMPORTED)
  set_target_properties(
    openetw::static
    PROPERTIES IMPORTED_LOCATION "${OPENETW_PREFIX}/lib/libopenetw.a"
               INTERFACE_LINK_LIBRARIES "pthread;dl;m"
               INTERFACE_INCLUDE_DIRECTORIES "${OPENETW_PREFIX}/include/openetw")
endif()
