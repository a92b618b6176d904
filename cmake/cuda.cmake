# Whether the CUDA device is built, and with what. Sets STRATA_WITH_CUDA, and STRATA_WITH_CUDNN where attention goes
# through cuDNN, and STRATA_WITH_NCCL where its communicator is built. Programs built with it start on machines without an NVIDIA driver.

set(STRATA_CUDA AUTO CACHE STRING
    "The CUDA device: ON, OFF, AUTO: built if a CUDA toolkit is found and no sanitizer is on, or DRIVER: if also an NVIDIA driver is found")
set_property(CACHE STRATA_CUDA PROPERTY STRINGS AUTO DRIVER ON OFF)

# CMake 3.25, which Debian 12 has, sets a property of this target, but CUDA 13 no longer has the library. Nothing of ours links it.
if(CMAKE_VERSION VERSION_LESS 3.26)
  add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
endif()

set(STRATA_WITH_CUDA OFF)
set(STRATA_WITH_CUDNN OFF)
set(STRATA_WITH_NCCL OFF)
# Only its header: the library is loaded when ranks on GPUs start.
macro(find_nccl)
  find_path(STRATA_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  mark_as_advanced(STRATA_NCCL_INCLUDE)
  if(STRATA_NCCL_INCLUDE)
    set(STRATA_WITH_NCCL ON)
  else()
    message(STATUS "nccl.h was not found: GPUs cannot be ranks")
  endif()
endmacro()

set(STRATA_DRIVER_FOUND OFF)
if(EXISTS /proc/driver/nvidia/version OR EXISTS /dev/dxg)  # the latter on Windows' Linux
  set(STRATA_DRIVER_FOUND ON)
endif()
if(STRATA_CUDA MATCHES "AUTO|DRIVER" AND STRATA_SANITIZE)
  find_package(CUDAToolkit 12.0 QUIET)
  if(CUDAToolkit_FOUND)
    find_nccl()  # which tests emulate
  endif()
  return()
elseif(STRATA_CUDA STREQUAL "DRIVER" AND NOT STRATA_DRIVER_FOUND)
  return()
elseif(NOT STRATA_CUDA)
  return()
endif()

include(CheckLanguage)
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(STRATA_NVCC nvcc PATHS /usr/local/cuda/bin /opt/cuda/bin)
  mark_as_advanced(STRATA_NVCC)
  if(STRATA_NVCC)
    set(ENV{CUDACXX} ${STRATA_NVCC})
  endif()
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  if(STRATA_DRIVER_FOUND)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90)  # Ampere; Hopper, and what comes later by way of its PTX
  else()
    # Nothing runs the kernels here. Their PTX takes a third of the time to compile, and the driver of any machine assembles it.
    set(CMAKE_CUDA_ARCHITECTURES 80-virtual)
  endif()
endif()
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  find_package(CUDAToolkit 12.0)
endif()
if(NOT TARGET CUDA::cublasLt OR NOT TARGET CUDA::cudart_static OR NOT TARGET CUDA::nvrtc)
  if(STRATA_CUDA MATCHES "AUTO|DRIVER")
    message(STATUS "The CUDA device is not built: no CUDA toolkit from 12.0 on with cuBLAS was found")
    return()
  endif()
  message(FATAL_ERROR "STRATA_CUDA=ON needs a CUDA toolkit from 12.0 on with nvcc, cuBLAS and NVRTC")
endif()

enable_language(CUDA)
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake before 3.26 does not know that nvcc has C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(STRATA_WITH_CUDA ON)

# cmake/setup.sh puts the headers of cuDNN's frontend there.
find_path(STRATA_CUDNN_FRONTEND cudnn_frontend.h HINTS ${CMAKE_SOURCE_DIR}/.deps/cudnn-frontend/include)
find_path(STRATA_CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(STRATA_CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR})
mark_as_advanced(STRATA_CUDNN_FRONTEND STRATA_CUDNN_INCLUDE STRATA_CUDNN_LIBRARY)
if(STRATA_CUDNN_FRONTEND AND STRATA_CUDNN_INCLUDE AND STRATA_CUDNN_LIBRARY)
  set(STRATA_WITH_CUDNN ON)
else()
  message(STATUS "cuDNN or the headers of its frontend were not found: attention on CUDA uses slower kernels")
endif()

find_nccl()
