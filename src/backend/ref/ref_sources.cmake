# The reference.
list(APPEND CAIRN_SOURCES
    src/backend/ref/ref_backend.c src/backend/ref/ref_conv.c src/backend/ref/ref_linear.c
    src/backend/ref/ref_norm.c src/backend/ref/ref_pool.c
    src/backend/ref/ref_pointwise.c src/backend/ref/ref_recurrent.c src/backend/ref/ref_loss.c src/backend/ref/ref_head.c
    src/backend/ref/ref_sequence.c src/backend/ref/ref_row_norm.c src/backend/ref/ref_attention.c
    src/backend/ref/ref_gates.c)
# Its inner loops are short: their speed depends on how the code is aligned.
set_source_files_properties(src/backend/ref/ref_conv.c PROPERTIES
    COMPILE_OPTIONS "-falign-functions=64;-falign-loops=32")
