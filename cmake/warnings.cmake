# The warning set; every warning is an error.
function(trilemma_warnings target)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Werror -Wshadow -Wconversion -Wsign-conversion -Wdouble-promotion
    -Wstrict-prototypes -Wmissing-prototypes -Wcast-qual -Wformat=2 -Wundef -Wvla -Wwrite-strings
    -Wswitch-enum -Wpointer-arith)
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE
      -Wlogical-op -Wduplicated-cond -Wduplicated-branches -Wcast-align=strict)
  endif()
endfunction()
