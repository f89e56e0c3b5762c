/* Names that stand for text of either width, as UNICODE chooses. Without _tmain: main gets 8-bit text on Linux. */
#ifndef OPENETW_TCHAR_H
#define OPENETW_TCHAR_H

#pragma GCC system_header

#include <stdio.h>
#include <windows.h>

typedef TCHAR _TCHAR;
#define _T(text) TEXT(text)
#define _TEXT(text) TEXT(text)
/* The wide functions of libc are for characters of 32 bits. */
#if !defined(UNICODE)
#define _tprintf printf
#define _ftprintf fprintf
#define _tcslen strlen
#define _tcscmp strcmp
#define _tcschr strchr
#elif OPENETW_WIDE_BITS == 32
#define _tprintf wprintf
#define _ftprintf fwprintf
#define _tcslen wcslen
#define _tcscmp wcscmp
#define _tcschr wcschr
#endif

#endif
