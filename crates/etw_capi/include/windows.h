/*
 * The types, constants and functions of the Windows SDK that ETW's headers and programs use, for Linux.
 *
 * Sizes are those of 64-bit Windows: LONG, ULONG and DWORD have 32 bits.
 *
 * Wide characters (WCHAR) are chosen at compile time:
 *
 *   compiled with            WCHAR       literals   bits
 *   nothing special          wchar_t     L"text"    32   the library converts
 *   -fshort-wchar            wchar_t     L"text"    16   as on Windows; wide functions of libc do not work
 *   -DOPENETW_USE_CHAR16     char16_t    u"text"    16
 *
 * UNICODE is assumed, so that `OpenTrace` is `OpenTraceW`; define OPENETW_ANSI for `OpenTraceA`.
 */
#ifndef OPENETW_WINDOWS_H
#define OPENETW_WINDOWS_H

#pragma GCC system_header

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <wchar.h>

#if defined(OPENETW_USE_CHAR16)
#ifndef __cplusplus
#include <uchar.h>
#endif
#define OPENETW_WIDE_BITS 16
#define OPENETW_L_(text) u##text
typedef char16_t WCHAR;
#elif __SIZEOF_WCHAR_T__ == 2
#define OPENETW_WIDE_BITS 16
typedef wchar_t WCHAR;
#else
#define OPENETW_WIDE_BITS 32
typedef wchar_t WCHAR;
#endif
#ifndef OPENETW_L_
#define OPENETW_L_(text) L##text
#endif

/* Functions with wide text have a second symbol for characters of 32 bits. */
#if OPENETW_WIDE_BITS == 32
#define OPENETW_WIDE(name) __asm__(#name "32")
#else
#define OPENETW_WIDE(name)
#endif

#if !defined(UNICODE) && !defined(OPENETW_ANSI)
#define UNICODE
#endif
#if defined(UNICODE) && !defined(_UNICODE)
#define _UNICODE
#endif

#ifdef __cplusplus
#define EXTERN_C extern "C"
#define EXTERN_C_START extern "C" {
#define EXTERN_C_END }
#else
#define EXTERN_C extern
#define EXTERN_C_START
#define EXTERN_C_END
#endif

/* Calling conventions and annotations, which mean nothing here. */
#define WINAPI
#define APIENTRY
#define CALLBACK
#define NTAPI
#define NTSYSAPI
#define NTSYSCALLAPI
#define WINAPIV
#define STDMETHODCALLTYPE
#define __stdcall
#define __cdecl
#define DECLSPEC_IMPORT
#define DECLSPEC_NORETURN __attribute__((noreturn))
#define DECLSPEC_SELECTANY __attribute__((weak))
#define DECLSPEC_ALIGN(bytes) __attribute__((aligned(bytes)))
/*
 * Headers of Windows' message compiler define a variable by `EXTERN_C __declspec(selectany) DECLSPEC_CACHEALIGN`, which
 * here would only declare it. So the macro ends the declaration with a name that nothing uses, and starts another one.
 */
#define DECLSPEC_CACHEALIGN OPENETW_CACHEALIGN_(__COUNTER__)
#define OPENETW_CACHEALIGN_(number) OPENETW_CACHEALIGN2_(number)
#define OPENETW_CACHEALIGN2_(number)                                                                                   \
  char openetw_cachealign_##number;                                                                                    \
  __attribute__((weak, aligned(64)))
#define DECLSPEC_UUID(text)
#define DECLSPEC_NOVTABLE
#ifndef _MSC_VER
#define __declspec(attribute) OPENETW_DECLSPEC_##attribute
#define OPENETW_DECLSPEC_dllexport __attribute__((visibility("default")))
#define OPENETW_DECLSPEC_dllimport
#define OPENETW_DECLSPEC_noinline __attribute__((noinline))
#define OPENETW_DECLSPEC_noreturn __attribute__((noreturn))
#define OPENETW_DECLSPEC_nothrow
#define OPENETW_DECLSPEC_novtable
#define OPENETW_DECLSPEC_restrict
#define OPENETW_DECLSPEC_selectany __attribute__((weak))
#define OPENETW_DECLSPEC_thread __thread
#define OPENETW_DECLSPEC_align(bytes) __attribute__((aligned(bytes)))
#define OPENETW_DECLSPEC_deprecated(...)
#define OPENETW_DECLSPEC_uuid(text)
#endif
#define UNALIGNED
#define __unaligned
#define __fastcall
#define __vectorcall
#define _cdecl
#define _stdcall
#define DECLSPEC_NOINLINE __attribute__((noinline))
#define FORCEINLINE static inline __attribute__((always_inline, unused))
#define __forceinline inline __attribute__((always_inline))
#ifndef IN
#define IN
#endif
#ifndef OUT
#define OUT
#endif
#ifndef OPTIONAL
#define OPTIONAL
#endif
#include <sal.h>
#define UNREFERENCED_PARAMETER(name) ((void)(name))
#define DBG_UNREFERENCED_PARAMETER(name) ((void)(name))
#define UNREFERENCED_LOCAL_VARIABLE(name) ((void)(name))
#define C_ASSERT(condition) typedef char OPENETW_ASSERT_(__LINE__)[(condition) ? 1 : -1] __attribute__((unused))
#define OPENETW_ASSERT_(line) OPENETW_ASSERT2_(line)
#define OPENETW_ASSERT2_(line) openetw_assert_##line
#define __pragma(...)
#define __assume(condition) ((void)0)
#ifndef WINAPI_FAMILY_PARTITION
#define WINAPI_FAMILY_PARTITION(partition) 1
#endif
#ifndef WINVER
#define WINVER 0x0A00
#endif
#ifndef _WIN32_WINNT
#define _WIN32_WINNT 0x0A00
#endif
#ifndef NTDDI_VERSION
#define NTDDI_VERSION 0x0A000010
#endif

#define ANYSIZE_ARRAY 1
#define MAXDWORD 0xFFFFFFFFu
#define USHORT_MAX 0xFFFF
#define UNICODE_NULL ((WCHAR)0)
#define ANSI_NULL ((CHAR)0)
#define MAXULONG 0xFFFFFFFFu
#define MAXULONG_PTR (~(ULONG_PTR)0)
#define MAXUSHORT 0xFFFFu
#define MAXLONG 0x7FFFFFFF
#define MAXLONGLONG 0x7FFFFFFFFFFFFFFFLL
#define MAXULONGLONG 0xFFFFFFFFFFFFFFFFULL
#define DWORD_MAX 0xFFFFFFFFu
#define MAX_PATH 260
#ifndef FALSE
#define FALSE 0
#define TRUE 1
#endif
#define CONST const
#define VOID void
#define INFINITE 0xFFFFFFFF

typedef char CHAR, *PCHAR, *LPCH, *PCH;
typedef signed char INT8, *PINT8;
typedef unsigned char UCHAR, *PUCHAR, BYTE, *PBYTE, *LPBYTE, BOOLEAN, *PBOOLEAN, UINT8, *PUINT8;
typedef short SHORT, *PSHORT, INT16, *PINT16;
typedef unsigned short USHORT, *PUSHORT, WORD, *PWORD, *LPWORD, UINT16, *PUINT16;
typedef int INT, *PINT, *LPINT, LONG, *PLONG, *LPLONG, BOOL, *PBOOL, *LPBOOL, INT32, *PINT32, LONG32, *PLONG32;
typedef unsigned int UINT, *PUINT, ULONG, *PULONG, DWORD, *PDWORD, *LPDWORD, UINT32, *PUINT32, ULONG32, *PULONG32,
    DWORD32;
typedef long long LONGLONG, *PLONGLONG, LONG64, *PLONG64, INT64, *PINT64;
typedef unsigned long long ULONGLONG, *PULONGLONG, ULONG64, *PULONG64, UINT64, *PUINT64, DWORD64, *PDWORD64, DWORDLONG;
#define __int64 long long
#define __int32 int
#define __int16 short
#define __int8 char
typedef float FLOAT, *PFLOAT;
typedef double DOUBLE;
typedef intptr_t INT_PTR, *PINT_PTR, LONG_PTR, *PLONG_PTR;
typedef uintptr_t UINT_PTR, *PUINT_PTR, ULONG_PTR, *PULONG_PTR, DWORD_PTR, *PDWORD_PTR;
typedef size_t SIZE_T, *PSIZE_T;
typedef ptrdiff_t SSIZE_T;
typedef void *PVOID, *LPVOID, *HANDLE, *HMODULE, *HINSTANCE, *HWND, *PSID, *PSECURITY_DESCRIPTOR;
typedef const void *LPCVOID, *PCVOID;
typedef HANDLE *PHANDLE, *LPHANDLE;
typedef LONG HRESULT, NTSTATUS, *PNTSTATUS, LSTATUS;
typedef DWORD ACCESS_MASK, LCID, *PLCID;
typedef WORD LANGID, ATOM;
typedef HANDLE HLOCAL, HGLOBAL, HKEY, *PHKEY;
typedef BYTE FCHAR;
typedef CHAR *PSTR, *LPSTR;
typedef const CHAR *PCSTR, *LPCSTR, *PCCH, *LPCCH;
typedef WCHAR *PWCHAR, *PWSTR, *LPWSTR, *PWCH, *LPWCH, *NWPSTR;
typedef const WCHAR *PCWSTR, *LPCWSTR, *PCWCH, *LPCWCH;
#ifdef UNICODE
typedef WCHAR TCHAR, *PTCHAR;
typedef LPWSTR PTSTR, LPTSTR;
typedef LPCWSTR PCTSTR, LPCTSTR;
#define OPENETW_TEXT_(text) OPENETW_L_(text)
#else
typedef char TCHAR, *PTCHAR;
typedef LPSTR PTSTR, LPTSTR;
typedef LPCSTR PCTSTR, LPCTSTR;
#define OPENETW_TEXT_(text) text
#endif
#define TEXT(text) OPENETW_TEXT_(text)

#ifndef GUID_DEFINED
#define GUID_DEFINED
typedef struct _GUID {
  UINT32 Data1;
  UINT16 Data2;
  UINT16 Data3;
  UINT8 Data4[8];
} GUID;
#endif
typedef GUID *LPGUID, IID, *LPIID, CLSID, *LPCLSID;
typedef const GUID *LPCGUID;
#ifdef __cplusplus
#define REFGUID const GUID &
#define REFIID const IID &
#define REFCLSID const CLSID &
static inline bool operator==(const GUID &one, const GUID &other) { return memcmp(&one, &other, sizeof(GUID)) == 0; }
static inline bool operator!=(const GUID &one, const GUID &other) { return !(one == other); }
static inline BOOL IsEqualGUID(const GUID &one, const GUID &other) { return one == other; }
static inline BOOL InlineIsEqualGUID(const GUID &one, const GUID &other) { return one == other; }
#else
#define REFGUID const GUID *
#define REFIID const IID *
#define REFCLSID const CLSID *
#define IsEqualGUID(one, other) (memcmp((one), (other), sizeof(GUID)) == 0)
#define InlineIsEqualGUID(one, other) IsEqualGUID(one, other)
#endif
/* Every file may define the same GUID; the linker needs one of them. */
#define DEFINE_GUID(name, l, w1, w2, b1, b2, b3, b4, b5, b6, b7, b8)                                                  \
  static const GUID name __attribute__((unused)) = {l, w1, w2, {b1, b2, b3, b4, b5, b6, b7, b8}}
#define GUID_NULL (*(const GUID *)"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0")

typedef struct _FILETIME {
  DWORD dwLowDateTime;
  DWORD dwHighDateTime;
} FILETIME, *PFILETIME, *LPFILETIME;

typedef struct _SYSTEMTIME {
  WORD wYear;
  WORD wMonth;
  WORD wDayOfWeek;
  WORD wDay;
  WORD wHour;
  WORD wMinute;
  WORD wSecond;
  WORD wMilliseconds;
} SYSTEMTIME, *PSYSTEMTIME, *LPSYSTEMTIME;

/* The names are always 16 bits wide, so that the layout does not depend on WCHAR. */
typedef struct _TIME_ZONE_INFORMATION {
  LONG Bias;
  UINT16 StandardName[32];
  SYSTEMTIME StandardDate;
  LONG StandardBias;
  UINT16 DaylightName[32];
  SYSTEMTIME DaylightDate;
  LONG DaylightBias;
} TIME_ZONE_INFORMATION, *PTIME_ZONE_INFORMATION, *LPTIME_ZONE_INFORMATION;

typedef union _LARGE_INTEGER {
  __extension__ struct {
    DWORD LowPart;
    LONG HighPart;
  };
  struct {
    DWORD LowPart;
    LONG HighPart;
  } u;
  LONGLONG QuadPart;
} LARGE_INTEGER, *PLARGE_INTEGER;

typedef union _ULARGE_INTEGER {
  __extension__ struct {
    DWORD LowPart;
    DWORD HighPart;
  };
  struct {
    DWORD LowPart;
    DWORD HighPart;
  } u;
  ULONGLONG QuadPart;
} ULARGE_INTEGER, *PULARGE_INTEGER;

/* Text with a length in bytes. */
typedef struct _UNICODE_STRING {
  USHORT Length;
  USHORT MaximumLength;
  PWSTR Buffer;
} UNICODE_STRING, *PUNICODE_STRING;
typedef const UNICODE_STRING *PCUNICODE_STRING;

typedef struct _STRING {
  USHORT Length;
  USHORT MaximumLength;
  PCHAR Buffer;
} STRING, *PSTRING, ANSI_STRING, *PANSI_STRING;
typedef const STRING *PCSTRING, *PCANSI_STRING;

/* Security identifiers. */
#define SID_MAX_SUB_AUTHORITIES 15
#define SECURITY_MAX_SID_SIZE 68
typedef struct _SID_IDENTIFIER_AUTHORITY {
  BYTE Value[6];
} SID_IDENTIFIER_AUTHORITY, *PSID_IDENTIFIER_AUTHORITY;
typedef struct _SID {
  BYTE Revision;
  BYTE SubAuthorityCount;
  SID_IDENTIFIER_AUTHORITY IdentifierAuthority;
  DWORD SubAuthority[ANYSIZE_ARRAY];
} SID, *PISID;
#define SID_REVISION 1
#define SID_MAX_SUB_AUTHORITIES 15
#define SECURITY_NULL_SID_AUTHORITY { { 0, 0, 0, 0, 0, 0 } }
#define SECURITY_WORLD_SID_AUTHORITY { { 0, 0, 0, 0, 0, 1 } }
#define SECURITY_NT_AUTHORITY { { 0, 0, 0, 0, 0, 5 } }
#define SECURITY_LOCAL_SYSTEM_RID 18
FORCEINLINE DWORD GetLengthSid(PSID sid) { return 8 + 4 * (DWORD)((PISID)sid)->SubAuthorityCount; }

/* Error codes. */
#define NO_ERROR 0
#define ERROR_SUCCESS 0
#define ERROR_INVALID_FUNCTION 1
#define ERROR_FILE_NOT_FOUND 2
#define ERROR_PATH_NOT_FOUND 3
#define ERROR_TOO_MANY_OPEN_FILES 4
#define ERROR_ACCESS_DENIED 5
#define ERROR_INVALID_HANDLE 6
#define ERROR_NOT_ENOUGH_MEMORY 8
#define ERROR_INVALID_DATA 13
#define ERROR_OUTOFMEMORY 14
#define ERROR_WRITE_PROTECT 19
#define ERROR_NOT_READY 21
#define ERROR_CRC 23
#define ERROR_BAD_LENGTH 24
#define ERROR_GEN_FAILURE 31
#define ERROR_SHARING_VIOLATION 32
#define ERROR_HANDLE_EOF 38
#define ERROR_HANDLE_DISK_FULL 39
#define ERROR_NOT_SUPPORTED 50
#define ERROR_NETWORK_ACCESS_DENIED 65
#define ERROR_FILE_EXISTS 80
#define ERROR_INVALID_PARAMETER 87
#define ERROR_BUFFER_OVERFLOW 111
#define ERROR_DISK_FULL 112
#define ERROR_CALL_NOT_IMPLEMENTED 120
#define ERROR_SEM_TIMEOUT 121
#define ERROR_INSUFFICIENT_BUFFER 122
#define ERROR_INVALID_NAME 123
#define ERROR_INVALID_LEVEL 124
#define ERROR_MOD_NOT_FOUND 126
#define ERROR_PROC_NOT_FOUND 127
#define ERROR_BAD_PATHNAME 161
#define ERROR_BUSY 170
#define ERROR_ALREADY_EXISTS 183
#define ERROR_INVALID_FLAG_NUMBER 186
#define ERROR_NO_DATA 232
#define ERROR_MORE_DATA 234
#define ERROR_NO_MORE_ITEMS 259
#define ERROR_DELETE_PENDING 303
#define ERROR_ARITHMETIC_OVERFLOW 534
#define ERROR_TIMER_NOT_CANCELED 541
#define ERROR_STOPPED_ON_SYMLINK 681
#define ERROR_ABANDONED_WAIT_0 735
#define ERROR_VERSION_PARSE_ERROR 777
#define ERROR_OPERATION_ABORTED 995
#define ERROR_IO_INCOMPLETE 996
#define ERROR_IO_PENDING 997
#define ERROR_NOACCESS 998
#define ERROR_INVALID_FLAGS 1004
#define ERROR_FILE_INVALID 1006
#define ERROR_SERVICE_NOT_ACTIVE 1062
#define ERROR_OLD_WIN_VERSION 1150
#define ERROR_NOT_FOUND 1168
#define ERROR_CANCELLED 1223
#define ERROR_ALREADY_REGISTERED 1242
#define ERROR_ALREADY_INITIALIZED 1247
#define ERROR_UNIDENTIFIED_ERROR 1287
#define ERROR_NOT_ALL_ASSIGNED 1300
#define ERROR_NO_SUCH_PRIVILEGE 1313
#define ERROR_PRIVILEGE_NOT_HELD 1314
#define ERROR_INTERNAL_ERROR 1359
#define ERROR_FILE_CORRUPT 1392
#define ERROR_NO_SYSTEM_RESOURCES 1450
#define ERROR_TIMEOUT 1460
#define ERROR_RESOURCE_TYPE_NOT_FOUND 1813
#define ERROR_NOT_ENOUGH_QUOTA 1816
#define ERROR_WMI_GUID_NOT_FOUND 4200
#define ERROR_WMI_INSTANCE_NOT_FOUND 4201
#define ERROR_WMI_ITEMID_NOT_FOUND 4202
#define ERROR_WMI_TRY_AGAIN 4203
#define ERROR_WMI_DP_NOT_FOUND 4204
#define ERROR_WMI_UNRESOLVED_INSTANCE_REF 4205
#define ERROR_WMI_ALREADY_ENABLED 4206
#define ERROR_WMI_GUID_DISCONNECTED 4207
#define ERROR_WMI_SERVER_UNAVAILABLE 4208
#define ERROR_WMI_DP_FAILED 4209
#define ERROR_WMI_ALREADY_DISABLED 4212
#define ERROR_WMI_READ_ONLY 4213
#define ERROR_WMI_SET_FAILURE 4214
#define ERROR_RESOURCE_NOT_PRESENT 4316
#define ERROR_INVALID_OPERATION 4317
#define ERROR_INVALID_STATE 5023
#define ERROR_CTX_CLOSE_PENDING 7007
#define ERROR_EVT_INVALID_CHANNEL_PATH 15000
#define ERROR_EVT_INVALID_QUERY 15001
#define ERROR_EVT_PUBLISHER_METADATA_NOT_FOUND 15002
#define ERROR_EVT_EVENT_TEMPLATE_NOT_FOUND 15003
#define ERROR_EVT_INVALID_PUBLISHER_NAME 15004
#define ERROR_EVT_INVALID_EVENT_DATA 15005
#define ERROR_EVT_CHANNEL_NOT_FOUND 15007
#define ERROR_EVT_MESSAGE_NOT_FOUND 15027
#define ERROR_EVT_MESSAGE_ID_NOT_FOUND 15028
#define ERROR_EVT_UNRESOLVED_VALUE_INSERT 15029
#define ERROR_EVT_UNRESOLVED_PARAMETER_INSERT 15030
#define ERROR_EVT_MAX_INSERTS_REACHED 15031
#define ERROR_EVT_EVENT_DEFINITION_NOT_FOUND 15032
#define ERROR_EVT_MESSAGE_LOCALE_NOT_FOUND 15033
#define ERROR_MUI_FILE_NOT_FOUND 15100
#define S_OK ((HRESULT)0)
#define S_FALSE ((HRESULT)1)
#define E_NOTIMPL ((HRESULT)0x80004001)
#define E_NOINTERFACE ((HRESULT)0x80004002)
#define E_POINTER ((HRESULT)0x80004003)
#define E_UNEXPECTED ((HRESULT)0x8000FFFF)
#define E_ABORT ((HRESULT)0x80004004)
#define E_ACCESSDENIED ((HRESULT)0x80070005)
#define E_HANDLE ((HRESULT)0x80070006)
#define CO_E_CLASSSTRING ((HRESULT)0x800401F3)
#define E_FAIL ((HRESULT)0x80004005)
#define E_OUTOFMEMORY ((HRESULT)0x8007000E)
#define E_INVALIDARG ((HRESULT)0x80070057)
#define SUCCEEDED(result) ((HRESULT)(result) >= 0)
#define FAILED(result) ((HRESULT)(result) < 0)
#define HRESULT_FROM_WIN32(code)                                                                                       \
  ((HRESULT)(code) <= 0 ? (HRESULT)(code) : (HRESULT)(((code) & 0xFFFF) | (7 << 16) | 0x80000000))
#define HRESULT_CODE(result) ((result) & 0xFFFF)
#define HRESULT_FACILITY(result) (((result) >> 16) & 0x1FFF)
#define STATUS_SUCCESS ((NTSTATUS)0)
#define STATUS_INVALID_INFO_CLASS ((NTSTATUS)0xC0000003)
#define STATUS_NOT_IMPLEMENTED ((NTSTATUS)0xC0000002)
#define STATUS_INFO_LENGTH_MISMATCH ((NTSTATUS)0xC0000004)
#define STATUS_NOT_SUPPORTED ((NTSTATUS)0xC00000BB)
#define NT_SUCCESS(status) ((NTSTATUS)(status) >= 0)
#define INVALID_HANDLE_VALUE ((HANDLE)(LONG_PTR)-1)

#define ZeroMemory(to, bytes) memset((to), 0, (bytes))
#define RtlZeroMemory(to, bytes) memset((to), 0, (bytes))
#define CopyMemory(to, from, bytes) memcpy((to), (from), (bytes))
#define RtlCopyMemory(to, from, bytes) memcpy((to), (from), (bytes))
#define FIELD_OFFSET(type, field) ((LONG)__builtin_offsetof(type, field))
#define RTL_FIELD_SIZE(type, field) (sizeof(((type *)0)->field))
#define CONTAINING_RECORD(address, type, field) ((type *)((char *)(address) - __builtin_offsetof(type, field)))
#define LOBYTE(word) ((BYTE)((DWORD_PTR)(word) & 0xFF))
#define HIBYTE(word) ((BYTE)((DWORD_PTR)(word) >> 8 & 0xFF))
#define LOWORD(number) ((WORD)((DWORD_PTR)(number) & 0xFFFF))
#define HIWORD(number) ((WORD)((DWORD_PTR)(number) >> 16 & 0xFFFF))
#define MAKEWORD(low, high) ((WORD)(((BYTE)(low)) | (WORD)((BYTE)(high)) << 8))
#define MAKELONG(low, high) ((LONG)(((WORD)(low)) | (DWORD)((WORD)(high)) << 16))
#ifndef ARRAYSIZE
#define ARRAYSIZE(array) (sizeof(array) / sizeof((array)[0]))
#endif
#define _countof(array) ARRAYSIZE(array)
#ifndef NOMINMAX
#ifdef __cplusplus
/* Functions, since libstdc++ has functions of these names. Programs include this header in extern "C" too. */
extern "C++" {
template <class A, class B> constexpr auto min(A a, B b) -> decltype(a < b ? a : b) { return a < b ? a : b; }
template <class A, class B> constexpr auto max(A a, B b) -> decltype(a > b ? a : b) { return a > b ? a : b; }
}
#else
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#endif
#endif
#define MAKELANGID(primary, sub) ((WORD)((sub) << 10 | (primary)))

#ifdef __cplusplus
extern "C" {
#endif

/* The error of the last function of this thread that reports errors so, such as OpenTrace. */
DWORD GetLastError(void);
void SetLastError(DWORD code);

DWORD GetCurrentProcessId(void);
DWORD GetCurrentThreadId(void);
void Sleep(DWORD milliseconds);
void GetSystemTimeAsFileTime(LPFILETIME time);
void GetSystemTime(LPSYSTEMTIME parts);
/* UTC; fail for times that the other form cannot have. */
BOOL FileTimeToSystemTime(const FILETIME *time, LPSYSTEMTIME parts);
BOOL SystemTimeToFileTime(const SYSTEMTIME *parts, LPFILETIME time);
/* The clock of sessions with ClientContext 1. */
BOOL QueryPerformanceFrequency(LARGE_INTEGER *frequency);
BOOL QueryPerformanceCounter(LARGE_INTEGER *count);

#ifdef __cplusplus
}
#endif

typedef enum {
  WinNullSid = 0,
  WinWorldSid = 1,
  WinLocalSystemSid = 22,
  WinLocalServiceSid = 23,
  WinNetworkServiceSid = 24
} WELL_KNOWN_SID_TYPE;

/* Makes one of the identifiers above; fails for others. */
static inline __attribute__((unused)) BOOL CreateWellKnownSid(WELL_KNOWN_SID_TYPE type, PSID domain, PSID to,
                                                              DWORD *size) {
  static const BYTE parts[][3] = {{WinNullSid, 0, 0},          {WinWorldSid, 1, 0},          {WinLocalSystemSid, 5, 18},
                                  {WinLocalServiceSid, 5, 19}, {WinNetworkServiceSid, 5, 20}};
  (void)domain;
  for (size_t at = 0; at < sizeof parts / sizeof parts[0]; at++) {
    if (parts[at][0] == (BYTE)type) {
      SID sid = {1, 1, {{0, 0, 0, 0, 0, parts[at][1]}}, {parts[at][2]}};
      DWORD available = *size;
      *size = sizeof sid;
      if (available < sizeof sid || to == NULL) {
        SetLastError(ERROR_INSUFFICIENT_BUFFER);
        return FALSE;
      }
      memcpy(to, &sid, sizeof sid);
      return TRUE;
    }
  }
  SetLastError(ERROR_INVALID_PARAMETER);
  return FALSE;
}

#include <openetw_text.h>
#include <openetw_system.h>

#endif
