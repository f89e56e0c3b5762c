/* Names that stand for text of either width, as UNICODE chooses. */
#ifndef OPENETW_TCHAR_H
#define OPENETW_TCHAR_H

#pragma GCC system_header

#include <stdio.h>
#include <windows.h>

typedef TCHAR _TCHAR;
#define _T(text) TEXT(text)
#define _TEXT(text) TEXT(text)
#define __T(text) TEXT(text)
#if !defined(UNICODE)
#define _tmain main
#define _tprintf printf
#define _ftprintf fprintf
#define _vtprintf vprintf
#define _vftprintf vfprintf
#define _sntprintf snprintf
#define _stprintf_s sprintf_s
#define _fputts fputs
#define _putts puts
#define _tcslen strlen
#define _tcscmp strcmp
#define _tcsncmp strncmp
#define _tcsicmp _stricmp
#define _tcsnicmp _strnicmp
#define _tcscpy strcpy
#define _tcscat strcat
#define _tcscpy_s strcpy_s
#define _tcscat_s strcat_s
#define _tcsncpy_s strncpy_s
#define _tcschr strchr
#define _tcsrchr strrchr
#define _tcsstr strstr
#define _tcstoul strtoul
#define _tcstol strtol
#define _ttoi atoi
#define _ttol atol
#define _tfopen fopen
#define _tfullpath _fullpath
#define _tfopen_s fopen_s
#else
#define _tmain wmain
#define _tprintf openetw_wprintf
#define _ftprintf openetw_fwprintf
#define _vtprintf(format, list) openetw_vfwprintf(stdout, (format), (list))
#define _vftprintf openetw_vfwprintf
#define _sntprintf _snwprintf
#define _stprintf_s swprintf_s
#define _fputts openetw_fputws
#define _putts openetw_putws
#if !defined(OPENETW_USE_CHAR16)
#define _tcslen(text) wcslen(text)
#define _tcscmp(one, other) wcscmp((one), (other))
#define _tcsncmp(one, other, limit) wcsncmp((one), (other), (limit))
#define _tcscpy(to, from) wcscpy((to), (from))
#define _tcscat(to, from) wcscat((to), (from))
#define _tcschr(text, character) wcschr((text), (character))
#define _tcsrchr(text, character) wcsrchr((text), (character))
#define _tcsstr(text, part) wcsstr((text), (part))
#define _tcstoul(text, end, base) wcstoul((text), (end), (base))
#define _tcstol(text, end, base) wcstol((text), (end), (base))
#endif
#define _tcsicmp _wcsicmp
#define _tcsnicmp _wcsnicmp
#define _tcscpy_s wcscpy_s
#define _tcscat_s wcscat_s
#define _tcsncpy_s wcsncpy_s
#define _ttoi _wtoi
#define _ttol _wtol
#define _tfopen _wfopen
#define _tfullpath _wfullpath
#define _tfopen_s _wfopen_s
#endif

#endif
