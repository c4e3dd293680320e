# hg_module(<name> DEPS <modules...> [LIBS <imported targets...>]): one module of src/.
#
#   hg_<name>      static library of src/<name>/*.cc without *_test.cc and main.cc (an
#                  interface library while there is no .cc); includes are written from src/
#   <name>_test    GoogleTest program of src/<name>/*_test.cc, if any; its cases have the ctest
#                  label "unit", those of suites *SoakTest the label "soak"
#   headgate       the program, from src/<name>/main.cc, at the root of the build folder
#
# DEPS is the module's row of tools/layers.txt. A row may name modules that do not exist yet: they
# are linked from the day they do. LIBS are third-party targets beyond the common bundle.
include(GoogleTest)

function(hg_module name)
  cmake_parse_arguments(arg "" "" "DEPS;LIBS" ${ARGN})
  set(dir "${CMAKE_CURRENT_SOURCE_DIR}")
  file(GLOB sources CONFIGURE_DEPENDS "${dir}/*.cc")
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "(_test|/main)\\.cc$")

  set(bundle hg_pure_libs)
  if(name IN_LIST HG_ASIO_MODULES)
    set(bundle hg_asio)
  endif()

  if(sources)
    add_library(hg_${name} STATIC ${sources})
    set(scope PUBLIC)
    hg_common(hg_${name} ${bundle})
  else()
    add_library(hg_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(hg_${name} ${scope} "${CMAKE_SOURCE_DIR}/src")
  target_link_libraries(hg_${name} ${scope} ${bundle} ${arg_LIBS})

  set_property(GLOBAL APPEND PROPERTY HG_MODULES ${name})
  set_property(GLOBAL PROPERTY HG_SCOPE_${name} ${scope})
  set_property(GLOBAL PROPERTY HG_DEPS_${name} ${arg_DEPS})

  if(EXISTS "${dir}/main.cc")
    add_executable(headgate "${dir}/main.cc")
    target_link_libraries(headgate PRIVATE hg_${name})
    hg_common(headgate ${bundle})
    set_target_properties(headgate PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
  endif()

  if(tests AND HG_TESTS)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE
      hg_${name} GTest::gmock GTest::gtest GTest::gtest_main rapidcheck_gtest)
    target_compile_definitions(${name}_test PRIVATE HG_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    hg_common(${name}_test ${bundle})
    gtest_discover_tests(${name}_test
      TEST_FILTER "-*SoakTest.*"
      WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}"
      DISCOVERY_MODE PRE_TEST
      PROPERTIES LABELS unit TIMEOUT 120)
    gtest_discover_tests(${name}_test
      TEST_FILTER "*SoakTest.*"
      TEST_LIST ${name}_soak_tests
      WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}"
      DISCOVERY_MODE PRE_TEST
      PROPERTIES LABELS soak TIMEOUT 900)
  endif()
endfunction()

# Warnings, and the shared precompiled header where the bundle has one.
function(hg_common target bundle)
  target_link_libraries(${target} PRIVATE hg_options)
  if(bundle STREQUAL "hg_asio")
    target_precompile_headers(${target} REUSE_FROM hg_asio)
  endif()
endfunction()

# Called once, after the last hg_module: links each module to those of its row that exist.
function(hg_link_modules)
  get_property(modules GLOBAL PROPERTY HG_MODULES)
  foreach(name IN LISTS modules)
    get_property(scope GLOBAL PROPERTY HG_SCOPE_${name})
    get_property(deps GLOBAL PROPERTY HG_DEPS_${name})
    foreach(dep IN LISTS deps)
      if(TARGET hg_${dep})
        target_link_libraries(hg_${name} ${scope} hg_${dep})
      endif()
    endforeach()
  endforeach()
endfunction()

# For programs of one file outside src/ (fuzz/, bench/): links the modules that the file includes.
function(hg_link_included target source)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
  file(STRINGS "${source}" includes REGEX "^#include \"[a-z_]+/")
  target_link_libraries(${target} PRIVATE hg_options)
  foreach(line IN LISTS includes)
    string(REGEX REPLACE "^#include \"([a-z_]+)/.*" "hg_\\1" module "${line}")
    target_link_libraries(${target} PRIVATE ${module})
  endforeach()
endfunction()
