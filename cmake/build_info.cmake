# Facts of the build that reports carry: version, commit, compiler, flags.
find_package(Git QUIET)
set(TRILEMMA_COMMIT "unknown")
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${CMAKE_SOURCE_DIR} describe --always --dirty --abbrev=12
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(commit)
    set(TRILEMMA_COMMIT "${commit}")
  endif()
endif()
string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
configure_file(${CMAKE_SOURCE_DIR}/cmake/build_info.h.in ${CMAKE_BINARY_DIR}/gen/build_info.h)
include_directories(${CMAKE_BINARY_DIR}/gen)
