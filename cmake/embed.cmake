# trilemma_embed(path): makes build/gen/<file name>.inc, the bytes of a committed text file as a C
# initialiser list, so that the program carries its SQL, plot scripts and tables.
function(trilemma_embed path)
  get_filename_component(name ${path} NAME)
  file(READ ${CMAKE_SOURCE_DIR}/${path} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "(0x0a,)" "\\1\n" bytes "${bytes}")
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/gen/${name}.inc CONTENT "${bytes}" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${path})
endfunction()

file(GLOB embedded RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/reports/*.sql ${CMAKE_SOURCE_DIR}/reports/plots/*.gp
  ${CMAKE_SOURCE_DIR}/reports/*.css ${CMAKE_SOURCE_DIR}/scenarios/*.csv)
foreach(path ${embedded})
  trilemma_embed(${path})
endforeach()
