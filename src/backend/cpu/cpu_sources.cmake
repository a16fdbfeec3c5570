# The backend cpu, where oneDNN is found. The inner loops of all its files should be vectorised.
if(CAIRN_ONEDNN_FOUND)
    if(CAIRN_ONEDNN_MAJOR EQUAL 2)
        set(CAIRN_CPU_SOURCES src/backend/cpu/dnnl_v2.c)
    else()
        set(CAIRN_CPU_SOURCES src/backend/cpu/dnnl_v3.c)
    endif()
    list(APPEND CAIRN_CPU_SOURCES
        src/backend/cpu/cpu_backend.c src/backend/cpu/cpu_storage.c src/backend/cpu/cpu_team.c
        src/backend/cpu/recipe.c src/backend/cpu/cpu_conv.c src/backend/cpu/cpu_linear.c
        src/backend/cpu/cpu_recurrent.c src/backend/cpu/cpu_norm.c src/backend/cpu/cpu_pool.c
        src/backend/cpu/cpu_pointwise.c src/backend/cpu/cpu_fallback.c src/backend/cpu/cpu_gates.c
        src/backend/cpu/cpu_rows.c src/backend/cpu/cpu_attention.c src/backend/cpu/cpu_token_loss.c
        src/backend/cpu/cpu_head.c src/backend/cpu/cpu_half_product.c)
    list(APPEND CAIRN_SOURCES ${CAIRN_CPU_SOURCES})
    set_source_files_properties(${CAIRN_CPU_SOURCES} PROPERTIES COMPILE_OPTIONS -O3)
    add_compile_definitions(CRN_ONEDNN)
    list(APPEND CAIRN_LIBRARIES OneDNN::OneDNN gomp)
    string(APPEND CAIRN_PC_LIBRARIES " -ldnnl -lgomp")
endif()
