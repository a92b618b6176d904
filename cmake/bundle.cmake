# The target `bundle`: build/strata-bundle-VERSION.tar, which needs no installation. It holds the program, the tests that use a GPU, the
# benchmarks, run files and what starts ranks. It also holds every shared library that these need apart from glibc's and CUDA's. It runs if glibc is
# no older than here. On a GPU machine bench/first.sh, bench/second.sh and bench/gpu.sh use it; cmake/bundle.sh says how it is packed.

set(bundle_programs strata bench_update bench_kernels bench_ceilings bench_nvme)
foreach(test device_test execute_test parity_test collectives_nccl_test)
  if(TARGET ${test})
    list(APPEND bundle_programs ${test})
  endif()
endforeach()

# DT_RPATH, not DT_RUNPATH: it also counts for what the libraries in lib/ need themselves.
set(bundle_rpath "$ORIGIN/../lib")
if(STRATA_WITH_CUDA)
  list(APPEND bundle_rpath /usr/local/cuda/lib64)
endif()
foreach(program IN LISTS bundle_programs)
  set_target_properties(${program} PROPERTIES INSTALL_RPATH "${bundle_rpath}")
  target_link_options(${program} PRIVATE -Wl,--disable-new-dtags)
endforeach()

# The same programs with kernels as machine code for every generation that nvcc takes. The target `bundle` alone compiles these: other
# builds leave Ada without its conversions to e4m3, and later GPUs to the driver, which compiles all kernels when a program first starts.
set(programs_with_all_kernels)
if(STRATA_WITH_CUDA)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-code OUTPUT_VARIABLE nvcc_takes)
  set(architectures 80-real 90)
  foreach(architecture 89 100 120)
    if(nvcc_takes MATCHES "sm_${architecture}[^0-9]")
      list(APPEND architectures ${architecture}-real)
    endif()
  endforeach()
  get_target_property(kernel_sources strata_device_cuda SOURCES)
  list(FILTER kernel_sources INCLUDE REGEX "[.]cu$")
  add_library(kernels_of_bundle OBJECT EXCLUDE_FROM_ALL ${kernel_sources})
  target_link_libraries(kernels_of_bundle PRIVATE strata_options strata_base strata_optim strata_device fmt::fmt)
  set_target_properties(kernels_of_bundle PROPERTIES CUDA_ARCHITECTURES "${architectures}")
  foreach(program strata bench_kernels bench_ceilings device_test execute_test parity_test)
    if(NOT TARGET ${program})
      continue()
    endif()
    # Objects come before libraries, whose kernels are then not linked.
    add_executable(${program}_of_bundle EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${program}> $<TARGET_OBJECTS:kernels_of_bundle>)
    target_link_libraries(${program}_of_bundle PRIVATE $<TARGET_PROPERTY:${program},LINK_LIBRARIES>)
    target_link_options(${program}_of_bundle PRIVATE -Wl,--disable-new-dtags)
    set_target_properties(${program}_of_bundle PROPERTIES OUTPUT_NAME ${program} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bundled
                          LINKER_LANGUAGE CXX BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "${bundle_rpath}")
    list(APPEND programs_with_all_kernels ${program}_of_bundle)
  endforeach()
endif()

set(bundled COMPONENT bundle EXCLUDE_FROM_ALL)
install(TARGETS ${bundle_programs} RUNTIME_DEPENDENCY_SET bundle_libraries RUNTIME DESTINATION bin ${bundled})
install(RUNTIME_DEPENDENCY_SET bundle_libraries
        PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|mvec|dl|pthread|rt|resolv|util)\\.so"
                            "^lib(cuda|cudart|cublas|cublasLt|cudnn[a-z_]*|nvrtc|nvJitLink)\\.so"
        LIBRARY DESTINATION lib ${bundled})
install(PROGRAMS bench/first.sh bench/second.sh bench/gpu.sh bench/compare.py bench/pytorch_gpu.py DESTINATION bench ${bundled})
install(FILES bench/process_memory.py bench/pytorch_common.py bench/gpu_common.sh bench/steps.sh bench/records.sh bench/json.awk
        DESTINATION bench ${bundled})
install(DIRECTORY bench/runs DESTINATION bench ${bundled})
install(DIRECTORY tests/parity/goldens DESTINATION tests/parity ${bundled})
install(FILES tests/layouts/pairs.txt DESTINATION tests/layouts ${bundled})
install(DIRECTORY examples docs DESTINATION . ${bundled})
# Pages link to these.
install(FILES README.md CHANGELOG.md CONTRIBUTING.md LICENSE SECURITY.md DESTINATION . ${bundled})
install(FILES engine/tools/profile/page/d3-licence.txt DESTINATION engine/tools/profile/page ${bundled})
install(FILES tests/parity/README.md DESTINATION tests/parity ${bundled})
install(DIRECTORY bench/history DESTINATION bench ${bundled}
        PATTERN first EXCLUDE PATTERN second EXCLUDE PATTERN "*-logs-*.tar.gz" EXCLUDE)

add_custom_target(bundle
  COMMAND bash ${CMAKE_SOURCE_DIR}/cmake/bundle.sh ${CMAKE_COMMAND} ${CMAKE_BINARY_DIR} ${PROJECT_VERSION}
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} USES_TERMINAL VERBATIM)
add_dependencies(bundle ${bundle_programs} ${programs_with_all_kernels})
if(TARGET collectives_nccl_test)
  add_test(NAME bundle COMMAND bash ${CMAKE_SOURCE_DIR}/cmake/bundle.sh ${CMAKE_COMMAND} ${CMAKE_BINARY_DIR} ${PROJECT_VERSION} --try)
  set_tests_properties(bundle PROPERTIES TIMEOUT ${STRATA_LAUNCH_TIMEOUT})
  strata_label(long bundle ${bundle_programs})
endif()
