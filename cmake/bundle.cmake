# The target `bundle`: build/strata-bundle-VERSION.tar, which needs no installation. It holds the program, the tests that use a GPU, the
# benchmarks, run files, what starts ranks, and every shared library that these need apart from glibc's and CUDA's. It runs if glibc is
# no older than here. On a GPU machine bench/first.sh, bench/second.sh and bench/gpu.sh use it; cmake/bundle.sh says how it is packed.

set(bundle_programs strata bench_adamw bench_kernels bench_ceilings bench_nvme)
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
install(FILES README.md DESTINATION . ${bundled})

add_custom_target(bundle
  COMMAND bash ${CMAKE_SOURCE_DIR}/cmake/bundle.sh ${CMAKE_COMMAND} ${CMAKE_BINARY_DIR} ${PROJECT_VERSION}
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} USES_TERMINAL VERBATIM)
add_dependencies(bundle ${bundle_programs})
if(TARGET collectives_nccl_test)
  add_test(NAME bundle COMMAND bash ${CMAKE_SOURCE_DIR}/cmake/bundle.sh ${CMAKE_COMMAND} ${CMAKE_BINARY_DIR} ${PROJECT_VERSION} --try)
  set_tests_properties(bundle PROPERTIES TIMEOUT ${STRATA_LAUNCH_TIMEOUT})
endif()
