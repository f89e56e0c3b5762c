/* GUID and DEFINE_GUID. */
#include <windows.h>
