# hg_embed(<target> NAMESPACE <a::b> FILES <files...>): puts text files into the program.
#
# The library <target> gets a generated source that defines, in the namespace:
#   extern const std::string_view NAME;      one a file: its name with every other character than
#                                            letters and digits as '_' (anthropic.toml:
#                                            anthropic_toml)
#   std::span<const std::pair<std::string_view, std::string_view>> files();
#                                            (file name, content) of each, in the order given
# The module declares what it uses in a header of its own, for example:
#   namespace hg::wire::embedded {
#   std::span<const std::pair<std::string_view, std::string_view>> files();
#   }
# Example: file(GLOB profiles CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/data/*.toml")
#          hg_embed(hg_wire NAMESPACE hg::wire::embedded FILES ${profiles})
# A file that changes rebuilds that source alone. Text only: no NUL bytes.
function(hg_embed target)
  cmake_parse_arguments(arg "" "NAMESPACE" "FILES" ${ARGN})
  string(MAKE_C_IDENTIFIER "${target}_${arg_NAMESPACE}" stem)
  set(output "${CMAKE_CURRENT_BINARY_DIR}/${stem}.cc")
  # "|" keeps the list in one argument.
  list(JOIN arg_FILES "|" files)
  add_custom_command(
    OUTPUT "${output}"
    COMMAND ${CMAKE_COMMAND} "-DOUTPUT=${output}" "-DNAMESPACE=${arg_NAMESPACE}"
            "-DFILES=${files}" -P "${CMAKE_SOURCE_DIR}/cmake/embed.cmake"
    DEPENDS ${arg_FILES} "${CMAKE_SOURCE_DIR}/cmake/embed.cmake"
    COMMENT "Embedding the files of ${arg_NAMESPACE}"
    VERBATIM)
  target_sources(${target} PRIVATE "${output}")
endfunction()
