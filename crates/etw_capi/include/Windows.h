/* The spelling that some programs use; file names of Windows ignore case. */
#include <windows.h>
