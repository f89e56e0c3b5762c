/* Aligns the members of structures to at most 4 byte(s), until <poppack.h>. */
#ifdef __clang__
/* That it changes how structures are aligned is its purpose. */
#pragma clang diagnostic ignored "-Wpragma-pack"
#endif
#pragma pack(push, 4)
