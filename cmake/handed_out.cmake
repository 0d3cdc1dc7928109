# In a tree that `./yotta handout` has made: the libraries of cmake/compiled.cmake under the same
# names, as archives that were compiled where the answers are. Programs link what they need of all
# of them.
file(GLOB archives CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/handout/*.a)
list(JOIN archives "," group)
add_library(yotta_handed_out INTERFACE)
target_link_libraries(yotta_handed_out INTERFACE "$<LINK_GROUP:RESCAN,${group}>" yotta::yotta)
target_compile_definitions(yotta_handed_out INTERFACE YOTTA_COMPILED)
foreach(library pcre2-8 utf8proc)  # where the archives were compiled with them
  find_library(YOTTA_${library} ${library})
  mark_as_advanced(YOTTA_${library})
  if(YOTTA_${library})
    target_link_libraries(yotta_handed_out INTERFACE ${YOTTA_${library}})
  endif()
endforeach()

add_library(yotta_compiled INTERFACE)
add_library(yotta::compiled ALIAS yotta_compiled)
target_link_libraries(yotta_compiled INTERFACE yotta_handed_out)
# Each part by its name, those of pages alone too, which have no archive.
include(${CMAKE_CURRENT_LIST_DIR}/parts.cmake)
foreach(part ${yotta_parts})
  add_library(yotta_compiled_${part} INTERFACE)
  add_library(yotta::compiled_${part} ALIAS yotta_compiled_${part})
  target_link_libraries(yotta_compiled_${part} INTERFACE yotta_handed_out)
endforeach()
