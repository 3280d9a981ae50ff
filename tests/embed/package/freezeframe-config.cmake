# Targets: freezeframe::freezeframe and freezeframe::unwind, shared; freezeframe::freezeframe-static and
# freezeframe::unwind-static.
get_filename_component(_freezeframe_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

function(_freezeframe_target target kind file)
    if(NOT TARGET freezeframe::${target})
        add_library(freezeframe::${target} ${kind} IMPORTED)
        set_target_properties(freezeframe::${target} PROPERTIES
            IMPORTED_LOCATION "${_freezeframe_prefix}/lib/${file}"
            INTERFACE_INCLUDE_DIRECTORIES "${_freezeframe_prefix}/include")
    endif()
endfunction()

_freezeframe_target(freezeframe SHARED libfreezeframe.@EXTENSION@)
_freezeframe_target(freezeframe-static STATIC libfreezeframe.a)
_freezeframe_target(unwind SHARED libfreezeframe_unwind.@EXTENSION@)
_freezeframe_target(unwind-static STATIC libfreezeframe_unwind.a)
set_property(TARGET freezeframe::freezeframe-static PROPERTY INTERFACE_LINK_LIBRARIES "@PRIVATE@")
