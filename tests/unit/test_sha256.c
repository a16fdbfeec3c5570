/* test_sha256.c: the test vectors of FIPS 180-4, and lengths around the end of a block, by
 * the instructions of the processor and without them. */
#include "base/sha256.h"
#include "check.h"

static void check_hash(const void *bytes, size_t length, size_t piece, const char *expected) {
    for (int plain = 0; plain < 2; plain++) {
        crn_sha256 hash;
        char out[65];
        crn_sha256_init(&hash);
        if (plain)
            hash.stir = crn_sha256_stir_plain;
        for (size_t i = 0; i < length; i += piece)
            crn_sha256_add(&hash, (const char *)bytes + i, length - i < piece ? length - i : piece);
        crn_sha256_finish(&hash, out);
        CHECK_STRING(out, expected);
    }
}

int main(void) {
    static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    static const char *const by_length[] = {
        /* of 55, 56, 63, 64 and 65 letters a: around the end of a block */
        "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318",
        "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a",
        "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34",
        "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb",
        "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"};
    static const size_t lengths[] = {55, 56, 63, 64, 65};
    check_hash("", 0, 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_hash("abc", 3, 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    for (size_t piece = 1; piece < 60; piece += 7)
        check_hash(two_blocks, 56, piece,
                   "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    char *many = malloc(1000000);
    memset(many, 'a', 1000000);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        check_hash(many, lengths[i], 17, by_length[i]);
    check_hash(many, 1000000, 1000,
               "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(many);
    return check_result();
}
