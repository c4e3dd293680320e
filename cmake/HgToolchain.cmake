# Language, warnings, sanitizers, compiler cache and linker: what every target shares.

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()
# Line numbers are enough for a backtrace; full debug information doubles time and size.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")

# hg_options: linked by every target of ours, privately.
add_library(hg_options INTERFACE)
target_compile_options(hg_options INTERFACE
  -Wall -Wextra -Werror
  # Designated initializers leave the rest at its default on purpose.
  -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports these inside the standard library and Boost after inlining, wrongly.
  target_compile_options(hg_options INTERFACE
    -Wno-restrict -Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow
    -Wno-stringop-overread -Wno-dangling-pointer -Wno-free-nonheap-object
    -Wno-mismatched-new-delete)
elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # libstdc++ 12 uses what it deprecates itself (std::stable_sort); g++ still reports our own uses.
  target_compile_options(hg_options INTERFACE
    -Wno-missing-designated-field-initializers -Wno-deprecated-declarations)
endif()

if(HG_SANITIZE)
  add_compile_options(-fsanitize=${HG_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${HG_SANITIZE})
endif()

# ccache: one object serves all build folders of this source folder (relative build paths, no
# directory hash). Precompiled headers need the sloppiness and, with gcc, -fpch-preprocess.
find_program(HG_CCACHE ccache)
if(HG_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    CCACHE_NOHASHDIR=1
    CCACHE_BASEDIR=${CMAKE_BINARY_DIR}
    ${HG_CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-fpch-preprocess)
  elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
  endif()
endif()

# A fast linker when there is one.
find_program(HG_MOLD mold)
find_program(HG_LLD NAMES ld.lld ld.lld-19)
if(HG_MOLD)
  add_link_options(-fuse-ld=mold)
elseif(HG_LLD)
  add_link_options(-fuse-ld=lld)
endif()
