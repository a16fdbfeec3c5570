# FindOneDNN.cmake: look for oneDNN by its header and its library.
#
# Its own CMake package is not used: Debian's asks for OpenCL, which nothing here needs. Sets
# CAIRN_ONEDNN_FOUND and makes the target OneDNN::OneDNN; CAIRN_ONEDNN is AUTO, ON or OFF.
set(CAIRN_ONEDNN_FOUND FALSE)
set(CAIRN_ONEDNN_REASON "switched off by CAIRN_ONEDNN=OFF")
if(NOT CAIRN_ONEDNN STREQUAL "OFF")
    find_path(ONEDNN_INCLUDE oneapi/dnnl/dnnl.h)
    find_library(ONEDNN_LIBRARY dnnl)
    if(ONEDNN_INCLUDE AND ONEDNN_LIBRARY)
        include(CheckCSourceCompiles)
        set(CMAKE_REQUIRED_INCLUDES ${ONEDNN_INCLUDE})
        set(CMAKE_REQUIRED_LIBRARIES ${ONEDNN_LIBRARY})
        check_c_source_compiles("
            #include <oneapi/dnnl/dnnl.h>
            #if DNNL_VERSION_MAJOR != 2 || DNNL_VERSION_MINOR < 6
            #error not a version that is known
            #endif
            int main(void) { return dnnl_version() == 0; }" ONEDNN_COMPILES)
        unset(CMAKE_REQUIRED_INCLUDES)
        unset(CMAKE_REQUIRED_LIBRARIES)
        set(CAIRN_ONEDNN_FOUND ${ONEDNN_COMPILES})
        set(CAIRN_ONEDNN_REASON "its version is not one that Cairn knows, or it does not link")
    else()
        set(CAIRN_ONEDNN_REASON "its header or library is missing (Debian: libdnnl-dev)")
    endif()
    if(CAIRN_ONEDNN_FOUND)
        add_library(OneDNN::OneDNN UNKNOWN IMPORTED)
        set_target_properties(OneDNN::OneDNN PROPERTIES IMPORTED_LOCATION ${ONEDNN_LIBRARY}
            INTERFACE_INCLUDE_DIRECTORIES ${ONEDNN_INCLUDE})
    elseif(CAIRN_ONEDNN STREQUAL "ON")
        message(FATAL_ERROR "CAIRN_ONEDNN is ON and oneDNN cannot be used: ${CAIRN_ONEDNN_REASON}")
    endif()
endif()
if(NOT CAIRN_ONEDNN_FOUND)
    message(STATUS "without oneDNN: ${CAIRN_ONEDNN_REASON}")
endif()
