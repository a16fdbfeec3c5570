# FindOneDNN.cmake: look for oneDNN 2.6 or newer by its header and its library.
#
# The CMake package of oneDNN is not used: Debian's requires OpenCL, which Cairn does not need.
# CAIRN_ONEDNN is AUTO, ON or OFF. Sets CAIRN_ONEDNN_FOUND, and then CAIRN_ONEDNN_VERSION,
# CAIRN_ONEDNN_MAJOR and the target OneDNN::OneDNN; otherwise CAIRN_ONEDNN_REASON, a message for the
# user.
set(CAIRN_ONEDNN_FOUND FALSE)
if(CAIRN_ONEDNN STREQUAL "OFF")
    set(CAIRN_ONEDNN_REASON "CAIRN_ONEDNN=OFF was given")
else()
    find_path(ONEDNN_INCLUDE oneapi/dnnl/dnnl.h)
    find_library(ONEDNN_LIBRARY dnnl)
    mark_as_advanced(ONEDNN_INCLUDE ONEDNN_LIBRARY)
    if(NOT ONEDNN_INCLUDE OR NOT ONEDNN_LIBRARY)
        set(CAIRN_ONEDNN_REASON "its header or its library is not installed (Debian: libdnnl-dev)")
    else()
        file(STRINGS ${ONEDNN_INCLUDE}/oneapi/dnnl/dnnl_version.h lines
            REGEX "^#define DNNL_VERSION_(MAJOR|MINOR|PATCH) +[0-9]+")
        string(REGEX REPLACE "[^0-9;]" "" lines "${lines}")
        string(REPLACE ";" "." CAIRN_ONEDNN_VERSION "${lines}")
        string(REGEX MATCH "^[0-9]+" CAIRN_ONEDNN_MAJOR "${CAIRN_ONEDNN_VERSION}")
        set(CMAKE_REQUIRED_INCLUDES ${ONEDNN_INCLUDE})
        set(CMAKE_REQUIRED_LIBRARIES ${ONEDNN_LIBRARY})
        include(CheckCSourceCompiles)
        check_c_source_compiles("
            #include <oneapi/dnnl/dnnl.h>
            int main(void) { return dnnl_version() == 0; }" ONEDNN_COMPILES)
        unset(CMAKE_REQUIRED_INCLUDES)
        unset(CMAKE_REQUIRED_LIBRARIES)
        if(CAIRN_ONEDNN_VERSION VERSION_LESS 2.6 OR CAIRN_ONEDNN_VERSION VERSION_GREATER_EQUAL 4)
            set(CAIRN_ONEDNN_REASON
                "its version is ${CAIRN_ONEDNN_VERSION}, and Cairn knows 2.6 to 3.x")
        elseif(NOT ONEDNN_COMPILES)
            set(CAIRN_ONEDNN_REASON "a program that calls ${ONEDNN_LIBRARY} does not link")
        else()
            set(CAIRN_ONEDNN_FOUND TRUE)
            add_library(OneDNN::OneDNN UNKNOWN IMPORTED)
            set_target_properties(OneDNN::OneDNN PROPERTIES IMPORTED_LOCATION ${ONEDNN_LIBRARY}
                INTERFACE_INCLUDE_DIRECTORIES ${ONEDNN_INCLUDE})
        endif()
    endif()
endif()
if(CAIRN_ONEDNN_FOUND)
    message(STATUS "oneDNN ${CAIRN_ONEDNN_VERSION}: ${ONEDNN_LIBRARY}")
elseif(CAIRN_ONEDNN STREQUAL "ON")
    message(FATAL_ERROR "CAIRN_ONEDNN is ON, but oneDNN cannot be used: ${CAIRN_ONEDNN_REASON}")
else()
    message(NOTICE "Building without oneDNN: ${CAIRN_ONEDNN_REASON}. The only backend is ref, plain C, "
        "which is many times slower than cpu.")
endif()
