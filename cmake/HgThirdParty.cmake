# The libraries that Headgate stands on, all from Debian packages. Two bundles:
#   hg_pure_libs  what any module may see: fmt, spdlog, Boost headers, Boost.JSON, simdjson, toml++
#   hg_asio       the same, and Asio, Beast and OpenSSL, compiled once, with a precompiled header;
#                 only for the modules of HG_ASIO_MODULES (tools/tidy checks the includes)
#   hg_codings    zlib, brotli and zstd, for a module that names it
#   hg_hiredis    the protocol of Valkey and Redis, for a target that names it
#   hg_soci       SOCI with its SQLite and PostgreSQL backends, for a module that names it

set(HG_ASIO_MODULES net store proxy fleet control lab cli)

set(Boost_USE_STATIC_LIBS ON)
find_package(Boost 1.81 REQUIRED COMPONENTS json)
find_package(fmt 9 REQUIRED)
find_package(spdlog REQUIRED)
find_package(simdjson REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Threads REQUIRED)
find_package(CLI11 REQUIRED)
if(HG_TESTS)
  find_package(GTest REQUIRED)
  find_package(rapidcheck REQUIRED)
endif()

add_library(hg_pure_libs INTERFACE)
target_link_libraries(hg_pure_libs INTERFACE
  Boost::headers Boost::json fmt::fmt spdlog::spdlog simdjson::simdjson
  tomlplusplus::tomlplusplus Threads::Threads)

find_package(ZLIB REQUIRED)
# Neither of these has a CMake package in Debian 12.
find_library(HG_BROTLI_DEC brotlidec REQUIRED)
find_library(HG_BROTLI_ENC brotlienc REQUIRED)
find_library(HG_ZSTD zstd REQUIRED)
add_library(hg_codings INTERFACE)
target_link_libraries(hg_codings INTERFACE ZLIB::ZLIB ${HG_BROTLI_DEC} ${HG_ZSTD})
# Tests make what they read.
add_library(hg_encoders INTERFACE)
target_link_libraries(hg_encoders INTERFACE ${HG_BROTLI_ENC})

# Debian's CMake package of it names no target.
find_library(HG_HIREDIS hiredis REQUIRED)
add_library(hg_hiredis INTERFACE)
target_link_libraries(hg_hiredis INTERFACE ${HG_HIREDIS})

# Debian ships no CMake package of it. The backend for PostgreSQL is loaded when a ledger is there:
# libpq and what it needs would cost every start 5 MB. Its headers are needed to build.
find_library(HG_SOCI_CORE soci_core REQUIRED)
find_library(HG_SOCI_SQLITE soci_sqlite3 REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(PostgreSQL REQUIRED)
add_library(hg_soci INTERFACE)
target_link_libraries(hg_soci INTERFACE ${HG_SOCI_CORE} ${HG_SOCI_SQLITE} SQLite::SQLite3)
target_include_directories(hg_soci SYSTEM INTERFACE ${PostgreSQL_INCLUDE_DIRS})

add_library(hg_asio STATIC "${CMAKE_SOURCE_DIR}/cmake/asio/asio_src.cc")
target_link_libraries(hg_asio
  PUBLIC hg_pure_libs OpenSSL::SSL OpenSSL::Crypto
  PRIVATE hg_options)
target_compile_definitions(hg_asio PUBLIC
  BOOST_ASIO_SEPARATE_COMPILATION BOOST_BEAST_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED)
target_precompile_headers(hg_asio PRIVATE "${CMAKE_SOURCE_DIR}/cmake/asio/asio_pch.h")
# The sources of the libraries themselves must not see the precompiled header's declarations first.
set_source_files_properties("${CMAKE_SOURCE_DIR}/cmake/asio/asio_src.cc" PROPERTIES
  SKIP_PRECOMPILE_HEADERS ON)
# A target needs one source that uses the header before others can share it.
target_sources(hg_asio PRIVATE "${CMAKE_SOURCE_DIR}/cmake/asio/asio_pch.cc")
