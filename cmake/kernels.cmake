# kernels/ and its backends. SIMD members are chosen at run time: a file *_avx2.c or *_avx512.c is
# compiled for that instruction set and entered only after cpu_isa has asked the processor.
file(GLOB kernel_sources CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/kernels/*.c ${CMAKE_SOURCE_DIR}/kernels/ref/*.c
  ${CMAKE_SOURCE_DIR}/kernels/cpu/*.c ${CMAKE_SOURCE_DIR}/kernels/null/*.c)
add_library(kernels STATIC ${kernel_sources})
target_link_libraries(kernels PUBLIC base Threads::Threads m)
trilemma_warnings(kernels)
foreach(source ${kernel_sources})
  # why: contraction is off everywhere, so what is fused is what the code says (vf_fma) and decoded
  # weights have the bits of ref_decode whatever the compiler makes of a*b+c
  if(source MATCHES "_avx512\\.c$")
    set(options "-O3;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx2;-mfma;-mf16c;-ffp-contract=off;-fno-math-errno;-fno-trapping-math;-mprefer-vector-width=512")
    if(source MATCHES "_vnni_avx512\\.c$")
      list(APPEND options "-mavx512vnni")
    endif()
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${options}")
  elseif(source MATCHES "_avx2\\.c$")
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
      "-O3;-mavx2;-mfma;-mf16c;-ffp-contract=off;-fno-math-errno;-fno-trapping-math")
  elseif(source MATCHES "kernels/cpu/.*_sse2\\.c$")
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
      "-O3;-ffp-contract=off;-fno-math-errno;-fno-trapping-math")
  else()
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-ffp-contract=off")
  endif()
  # why: the fuzz targets reach no SIMD member, and clang takes minutes to instrument one
  if(TRILEMMA_FUZZ AND source MATCHES "kernels/cpu/")
    set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS "-O1;-fno-sanitize=all")
  endif()
endforeach()

# The CUDA backend, when it is asked for and a toolkit is there.
option(TRILEMMA_CUDA "Build the CUDA backend (needs nvcc)" OFF)
if(TRILEMMA_CUDA)
  include(CheckLanguage)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    message(STATUS "no CUDA toolkit found: the build is complete without the CUDA backend")
  else()
    if(NOT CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 80-real 89-real 90a-real 90-virtual)
    endif()
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 17)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    file(GLOB cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cu)
    add_library(kernels_cuda STATIC ${cuda_sources})
    target_compile_options(kernels_cuda PRIVATE -Xcompiler=-Wall,-Wextra -Werror all-warnings)
    # why: no contraction in the single ops, so that decoded weights equal ref's; fused operations
    # are written out
    file(GLOB cuda_single CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cuda/cuda_*.cu)
    set_source_files_properties(${cuda_single} PROPERTIES COMPILE_OPTIONS --fmad=false)
    set_target_properties(kernels_cuda PROPERTIES CUDA_RUNTIME_LIBRARY Static)
    find_library(TRILEMMA_CUBLASLT cublasLt HINTS ${CMAKE_CUDA_TOOLKIT_ROOT_DIR}/lib64
                 /usr/local/cuda/lib64 REQUIRED)
    target_link_libraries(kernels_cuda PUBLIC base PRIVATE ${TRILEMMA_CUBLASLT})
    target_compile_definitions(kernels PRIVATE TRILEMMA_CUDA)
    target_link_libraries(kernels PUBLIC kernels_cuda)
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  endif()
endif()
