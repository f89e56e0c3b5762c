/* The end of <pshpack1.h> and its like. */
#ifdef __clang__
/* That it changes how structures are aligned is its purpose. */
#pragma clang diagnostic ignored "-Wpragma-pack"
#endif
#pragma pack(pop)
