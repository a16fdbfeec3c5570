# Text files of the repository as C strings.
#
#   cairn_quote(OUT TEXT BREAK)        TEXT as the inside of a C string; BREAK stands between lines
#   cairn_embed_object(OUT TEXT KEYS)  members of the JSON object TEXT: .key = value, ...
#   cairn_embed_lines(OUT NAME FILES)  static const char *const NAME[] = {"line\n", ..., NULL};
#
# cairn_embed_lines joins the files in order. It removes the import lines and the word export of
# JavaScript modules, so that they become one module.
function(cairn_quote out text break)
    string(REPLACE "\\" "\\\\" text "${text}")
    string(REPLACE "\"" "\\\"" text "${text}")
    string(REPLACE "\n" "\\n\"${break}\n    \"" text "${text}")
    set(${out} "${text}" PARENT_SCOPE)
endfunction()

function(cairn_embed_object out text)
    set(whole "")
    foreach(key ${ARGN})
        string(JSON type TYPE "${text}" ${key})
        string(JSON value GET "${text}" ${key})
        if(type STREQUAL "STRING")
            cairn_quote(value "${value}" "")
            set(value "\"${value}\"")
        elseif(type STREQUAL "BOOLEAN")
            if(value)
                set(value true)
            else()
                set(value false)
            endif()
        endif()
        string(APPEND whole ".${key} = ${value}, ")
    endforeach()
    set(${out} "${whole}" PARENT_SCOPE)
endfunction()

function(cairn_embed_lines out name)
    set(whole "")
    foreach(file ${ARGN})
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
        file(READ ${file} text)
        if(file MATCHES "\\.js$")
            string(REGEX REPLACE "\nimport [^\"]*\"[^\"]*\";" "" text "\n${text}")
            string(REGEX REPLACE "\nexport " "\n" text "${text}")
        endif()
        string(APPEND whole "${text}")
    endforeach()
    cairn_quote(whole "${whole}" ",")
    set(${out} "static const char *const ${name}[] = {\n    \"${whole}\",\n    NULL};\n" PARENT_SCOPE)
endfunction()
