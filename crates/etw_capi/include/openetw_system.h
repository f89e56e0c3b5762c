/*
 * What programs that use ETW need of Windows besides: threads and events, memory, GUIDs as text, and the console's
 * Ctrl-C. Not for programs of other kinds.
 */
/* windows.h includes this header in its place. */
#ifndef OPENETW_WINDOWS_H
#include <windows.h>
#endif
#ifndef OPENETW_SYSTEM_H
#define OPENETW_SYSTEM_H

#pragma GCC system_header

#include <limits.h>
#include <pthread.h>
#include <pwd.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <openetw_text.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Handles of events and threads. */
#define WAIT_OBJECT_0 0u
#define WAIT_ABANDONED 0x80u
#define WAIT_TIMEOUT 258u
#define WAIT_FAILED 0xFFFFFFFFu
#define MAXIMUM_WAIT_OBJECTS 64
#define STILL_ACTIVE 259u
#define CREATE_SUSPENDED 4u

typedef struct _SECURITY_ATTRIBUTES {
  DWORD nLength;
  LPVOID lpSecurityDescriptor;
  BOOL bInheritHandle;
} SECURITY_ATTRIBUTES, *PSECURITY_ATTRIBUTES, *LPSECURITY_ATTRIBUTES;
typedef DWORD(WINAPI *LPTHREAD_START_ROUTINE)(LPVOID parameter);
typedef LPTHREAD_START_ROUTINE PTHREAD_START_ROUTINE;

/* Attributes are ignored, and names are: events are of this process. */
HANDLE WINAPI CreateEventA(LPSECURITY_ATTRIBUTES attributes, BOOL isManual, BOOL isSet, LPCSTR name);
HANDLE WINAPI CreateEventW(LPSECURITY_ATTRIBUTES attributes, BOOL isManual, BOOL isSet, LPCWSTR name);
BOOL WINAPI SetEvent(HANDLE event);
BOOL WINAPI ResetEvent(HANDLE event);
/* `flags` must be 0: threads cannot be suspended. */
HANDLE WINAPI CreateThread(LPSECURITY_ATTRIBUTES attributes, SIZE_T stackSize, LPTHREAD_START_ROUTINE function,
                           LPVOID parameter, DWORD flags, LPDWORD id);
BOOL WINAPI GetExitCodeThread(HANDLE thread, LPDWORD code);
DWORD WINAPI WaitForSingleObject(HANDLE handle, DWORD milliseconds);
DWORD WINAPI WaitForMultipleObjects(DWORD count, const HANDLE *handles, BOOL all, DWORD milliseconds);
BOOL WINAPI CloseHandle(HANDLE handle);

/* The console. The handler runs on a thread of its own for SIGINT (CTRL_C_EVENT) and SIGTERM (CTRL_CLOSE_EVENT). */
#define CTRL_C_EVENT 0u
#define CTRL_BREAK_EVENT 1u
#define CTRL_CLOSE_EVENT 2u
#define CTRL_LOGOFF_EVENT 5u
#define CTRL_SHUTDOWN_EVENT 6u
typedef BOOL(WINAPI *PHANDLER_ROUTINE)(DWORD event);
BOOL WINAPI SetConsoleCtrlHandler(PHANDLER_ROUTINE handler, BOOL add);

/* GUIDs. */
#define RPC_S_OK 0
#define RPC_S_OUT_OF_MEMORY 14
#ifdef __cplusplus
#define OPENETW_REF_(pointer) (*(pointer))
#else
#define OPENETW_REF_(pointer) (pointer)
#endif
typedef LONG RPC_STATUS;
HRESULT WINAPI CoCreateGuid(GUID *guid);
/* `{XXXXXXXX-XXXX-XXXX-XXXX-XXXXXXXXXXXX}`. */
int WINAPI StringFromGUID2(REFGUID guid, LPWSTR text, int size) OPENETW_WIDE(StringFromGUID2);
HRESULT WINAPI CLSIDFromString(LPCWSTR text, LPCLSID guid) OPENETW_WIDE(CLSIDFromString);

typedef GUID UUID;
typedef WCHAR *RPC_WSTR;
typedef unsigned char *RPC_CSTR;
/* `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`; free it with RpcStringFree. */
FORCEINLINE RPC_STATUS UuidToStringW(const UUID *uuid, RPC_WSTR *text) {
  WCHAR braced[39];
  WCHAR *to = (WCHAR *)malloc(37 * sizeof(WCHAR));
  int at;
  if (to == NULL) {
    return RPC_S_OUT_OF_MEMORY;
  }
  StringFromGUID2(OPENETW_REF_(uuid), braced, 39);
  for (at = 0; at < 36; at++) {
    to[at] = braced[at + 1] >= 'A' && braced[at + 1] <= 'F' ? (WCHAR)(braced[at + 1] + 32) : braced[at + 1];
  }
  to[36] = 0;
  *text = to;
  return RPC_S_OK;
}
FORCEINLINE RPC_STATUS UuidToStringA(const UUID *uuid, RPC_CSTR *text) {
  RPC_WSTR wide = NULL;
  unsigned char *to = (unsigned char *)malloc(37);
  int at;
  if (to == NULL || UuidToStringW(uuid, &wide) != RPC_S_OK) {
    free(to);
    return RPC_S_OUT_OF_MEMORY;
  }
  for (at = 0; at < 37; at++) {
    to[at] = (unsigned char)wide[at];
  }
  free(wide);
  *text = to;
  return RPC_S_OK;
}
FORCEINLINE RPC_STATUS RpcStringFreeW(RPC_WSTR *text) {
  free(*text);
  *text = NULL;
  return RPC_S_OK;
}
FORCEINLINE RPC_STATUS RpcStringFreeA(RPC_CSTR *text) {
  free(*text);
  *text = NULL;
  return RPC_S_OK;
}

/* The processors and the size of pages; of the other members none is set. */
typedef struct _SYSTEM_INFO {
  WORD wProcessorArchitecture;
  WORD wReserved;
  DWORD dwPageSize;
  LPVOID lpMinimumApplicationAddress;
  LPVOID lpMaximumApplicationAddress;
  ULONG_PTR dwActiveProcessorMask;
  DWORD dwNumberOfProcessors;
  DWORD dwProcessorType;
  DWORD dwAllocationGranularity;
  WORD wProcessorLevel;
  WORD wProcessorRevision;
} SYSTEM_INFO, *LPSYSTEM_INFO;
FORCEINLINE VOID GetSystemInfo(LPSYSTEM_INFO info) {
  memset(info, 0, sizeof *info);
#if defined(__x86_64__)
  info->wProcessorArchitecture = 9;
#elif defined(__aarch64__)
  info->wProcessorArchitecture = 12;
#endif
  info->dwPageSize = info->dwAllocationGranularity = (DWORD)getauxval(AT_PAGESZ);
  info->dwNumberOfProcessors = (DWORD)get_nprocs();
}
#define GetNativeSystemInfo GetSystemInfo

/* The arguments of `wmain`, as WCHAR. */
WCHAR **openetw_wide_arguments(int count, char **arguments) OPENETW_WIDE(openetw_wide_arguments);

/* Conversions of text. Of code pages, CP_ACP, CP_OEMCP and CP_UTF8 are UTF-8; others fail. */
#define CP_ACP 0u
#define CP_OEMCP 1u
#define CP_UTF8 65001u
#define MB_ERR_INVALID_CHARS 8u
#define WC_ERR_INVALID_CHARS 0x80u
int WINAPI MultiByteToWideChar(UINT page, DWORD flags, LPCCH text, int bytes, LPWSTR to, int size)
    OPENETW_WIDE(MultiByteToWideChar);
int WINAPI WideCharToMultiByte(UINT page, DWORD flags, LPCWCH text, int length, LPSTR to, int size, LPCCH unknown,
                               LPBOOL isUnknown) OPENETW_WIDE(WideCharToMultiByte);
/* SIDs: `S-1-5-18`. Free the text with LocalFree. */
BOOL WINAPI ConvertSidToStringSidA(PSID sid, LPSTR *text);
BOOL WINAPI ConvertSidToStringSidW(PSID sid, LPWSTR *text) OPENETW_WIDE(ConvertSidToStringSidW);

/*
 * The name of an error code (FORMAT_MESSAGE_FROM_SYSTEM), or a text with its inserts (FORMAT_MESSAGE_FROM_STRING, with
 * FORMAT_MESSAGE_ARGUMENT_ARRAY).
 */
#define FORMAT_MESSAGE_ALLOCATE_BUFFER 0x100u
#define FORMAT_MESSAGE_IGNORE_INSERTS 0x200u
#define FORMAT_MESSAGE_FROM_STRING 0x400u
#define FORMAT_MESSAGE_FROM_HMODULE 0x800u
#define FORMAT_MESSAGE_FROM_SYSTEM 0x1000u
#define FORMAT_MESSAGE_ARGUMENT_ARRAY 0x2000u
#define FORMAT_MESSAGE_MAX_WIDTH_MASK 0xFFu
#define LANG_NEUTRAL 0
#define LANG_ENGLISH 9
#define SUBLANG_NEUTRAL 0
#define SUBLANG_DEFAULT 1
#define SUBLANG_SYS_DEFAULT 2
#define SUBLANG_ENGLISH_US 1
DWORD WINAPI FormatMessageA(DWORD flags, LPCVOID source, DWORD code, DWORD language, LPSTR text, DWORD size,
                            va_list *arguments);
DWORD WINAPI FormatMessageW(DWORD flags, LPCVOID source, DWORD code, DWORD language, LPWSTR text, DWORD size,
                            va_list *arguments) OPENETW_WIDE(FormatMessageW);

/*
 * Libraries by name. The functions of those that this header and ETW's have (tdh.dll, advapi32.dll, kernel32.dll,
 * ntdll.dll, ole32.dll and others) are found in this program; there are no other libraries.
 */
typedef int(WINAPI *FARPROC)();
#define LOAD_LIBRARY_SEARCH_SYSTEM32 0x800u
HMODULE WINAPI LoadLibraryA(LPCSTR name);
HMODULE WINAPI LoadLibraryW(LPCWSTR name) OPENETW_WIDE(LoadLibraryW);
HMODULE WINAPI GetModuleHandleA(LPCSTR name);
HMODULE WINAPI GetModuleHandleW(LPCWSTR name) OPENETW_WIDE(GetModuleHandleW);
FARPROC WINAPI GetProcAddress(HMODULE module, LPCSTR name) OPENETW_WIDE(GetProcAddress);

/* Tokens: root is elevated and has all privileges, other users have none; AdjustTokenPrivileges changes nothing. */
#define TOKEN_DUPLICATE 0x2u
#define TOKEN_QUERY 0x8u
#define TOKEN_ADJUST_PRIVILEGES 0x20u
#define SE_PRIVILEGE_ENABLED 2u
#define SE_PRIVILEGE_REMOVED 4u
#define SE_BACKUP_NAME TEXT("SeBackupPrivilege")
#define SE_DEBUG_NAME TEXT("SeDebugPrivilege")
#define SE_INC_BASE_PRIORITY_NAME TEXT("SeIncreaseBasePriorityPrivilege")
#define SE_INCREASE_QUOTA_NAME TEXT("SeIncreaseQuotaPrivilege")
#define SE_LOAD_DRIVER_NAME TEXT("SeLoadDriverPrivilege")
#define SE_LOCK_MEMORY_NAME TEXT("SeLockMemoryPrivilege")
#define SE_PROF_SINGLE_PROCESS_NAME TEXT("SeProfileSingleProcessPrivilege")
#define SE_RESTORE_NAME TEXT("SeRestorePrivilege")
#define SE_SECURITY_NAME TEXT("SeSecurityPrivilege")
#define SE_SYSTEM_PROFILE_NAME TEXT("SeSystemProfilePrivilege")
typedef enum _TOKEN_INFORMATION_CLASS {
  TokenUser = 1,
  TokenGroups = 2,
  TokenPrivileges = 3,
  TokenElevationType = 18,
  TokenElevation = 20,
  TokenIntegrityLevel = 25
} TOKEN_INFORMATION_CLASS;
typedef enum _TOKEN_ELEVATION_TYPE {
  TokenElevationTypeDefault = 1,
  TokenElevationTypeFull = 2,
  TokenElevationTypeLimited = 3
} TOKEN_ELEVATION_TYPE;
typedef struct _TOKEN_ELEVATION {
  DWORD TokenIsElevated;
} TOKEN_ELEVATION;
typedef struct _LUID {
  DWORD LowPart;
  LONG HighPart;
} LUID, *PLUID;
typedef struct _LUID_AND_ATTRIBUTES {
  LUID Luid;
  DWORD Attributes;
} LUID_AND_ATTRIBUTES, *PLUID_AND_ATTRIBUTES;
typedef struct _TOKEN_PRIVILEGES {
  DWORD PrivilegeCount;
  LUID_AND_ATTRIBUTES Privileges[ANYSIZE_ARRAY];
} TOKEN_PRIVILEGES, *PTOKEN_PRIVILEGES;
BOOL WINAPI OpenProcessToken(HANDLE process, DWORD access, PHANDLE token);
/* Of TokenElevation and TokenElevationType. */
BOOL WINAPI GetTokenInformation(HANDLE token, TOKEN_INFORMATION_CLASS informationClass, LPVOID information, DWORD size,
                                PDWORD needed);
BOOL WINAPI LookupPrivilegeValueA(LPCSTR system, LPCSTR name, PLUID luid);
BOOL WINAPI LookupPrivilegeValueW(LPCWSTR system, LPCWSTR name, PLUID luid) OPENETW_WIDE(LookupPrivilegeValueW);
BOOL WINAPI AdjustTokenPrivileges(HANDLE token, BOOL disableAll, PTOKEN_PRIVILEGES to, DWORD size,
                                  PTOKEN_PRIVILEGES previous, PDWORD needed);

/* Addresses as text; return the end of the text. */
struct in_addr;
struct in6_addr;
LPSTR WINAPI RtlIpv4AddressToStringA(const struct in_addr *address, LPSTR text);
LPWSTR WINAPI RtlIpv4AddressToStringW(const struct in_addr *address, LPWSTR text)
    OPENETW_WIDE(RtlIpv4AddressToStringW);
LPSTR WINAPI RtlIpv6AddressToStringA(const struct in6_addr *address, LPSTR text);
LPWSTR WINAPI RtlIpv6AddressToStringW(const struct in6_addr *address, LPWSTR text)
    OPENETW_WIDE(RtlIpv6AddressToStringW);

/* The command line, and its parts in one block that LocalFree frees. */
LPSTR WINAPI GetCommandLineA(void);
LPWSTR WINAPI GetCommandLineW(void) OPENETW_WIDE(GetCommandLineW);
LPWSTR *WINAPI CommandLineToArgvW(LPCWSTR line, int *count) OPENETW_WIDE(CommandLineToArgvW);

/* Dates and times by a format (`yyyy'-'MM'-'dd`, `HH':'mm':'ss`); without one as in ISO 8601. Locales are ignored. */
typedef DWORD LCTYPE;
#define LOCALE_USER_DEFAULT 0x400u
#define LOCALE_SYSTEM_DEFAULT 0x800u
#define LOCALE_INVARIANT 0x7Fu
int WINAPI GetDateFormatW(LCID locale, DWORD flags, const SYSTEMTIME *date, LPCWSTR format, LPWSTR text, int size)
    OPENETW_WIDE(GetDateFormatW);
int WINAPI GetTimeFormatW(LCID locale, DWORD flags, const SYSTEMTIME *time, LPCWSTR format, LPWSTR text, int size)
    OPENETW_WIDE(GetTimeFormatW);
int WINAPI GetDateFormatA(LCID locale, DWORD flags, const SYSTEMTIME *date, LPCSTR format, LPSTR text, int size);
int WINAPI GetTimeFormatA(LCID locale, DWORD flags, const SYSTEMTIME *time, LPCSTR format, LPSTR text, int size);

ULONGLONG WINAPI GetTickCount64(void);
/* What libc does not declare for every version of C. */
struct tm *openetw_localtime(const time_t *seconds, struct tm *parts) __asm__("localtime_r");
int openetw_mutexattr_settype(pthread_mutexattr_t *attributes, int type) __asm__("pthread_mutexattr_settype");

#ifdef __cplusplus
}
#endif

/* Memory. */
#define HEAP_ZERO_MEMORY 8u
#define LMEM_FIXED 0u
#define LMEM_ZEROINIT 0x40u
#define LPTR 0x40u
#define GPTR 0x40u
FORCEINLINE HANDLE GetProcessHeap(void) { return (HANDLE)(UINT_PTR)1; }
FORCEINLINE LPVOID HeapAlloc(HANDLE heap, DWORD flags, SIZE_T bytes) {
  (void)heap;
  return flags & HEAP_ZERO_MEMORY ? calloc(1, bytes ? bytes : 1) : malloc(bytes ? bytes : 1);
}
FORCEINLINE LPVOID HeapReAlloc(HANDLE heap, DWORD flags, LPVOID memory, SIZE_T bytes) {
  (void)heap, (void)flags;
  return realloc(memory, bytes ? bytes : 1);
}
FORCEINLINE BOOL HeapFree(HANDLE heap, DWORD flags, LPVOID memory) {
  (void)heap, (void)flags;
  free(memory);
  return TRUE;
}
FORCEINLINE HANDLE LocalAlloc(UINT flags, SIZE_T bytes) {
  return flags & LMEM_ZEROINIT ? calloc(1, bytes ? bytes : 1) : malloc(bytes ? bytes : 1);
}
FORCEINLINE HANDLE LocalFree(HANDLE memory) {
  free(memory);
  return NULL;
}
#define GlobalAlloc(flags, bytes) LocalAlloc((flags), (bytes))
#define GlobalFree(memory) LocalFree(memory)
#define CoTaskMemAlloc(bytes) malloc(bytes)
#define CoTaskMemRealloc(memory, bytes) realloc((memory), (bytes))
#define CoTaskMemFree(memory) free(memory)
#define SecureZeroMemory(to, bytes) memset((to), 0, (bytes))
#define RtlSecureZeroMemory(to, bytes) memset((to), 0, (bytes))
#define MoveMemory(to, from, bytes) memmove((to), (from), (bytes))
#define RtlMoveMemory(to, from, bytes) memmove((to), (from), (bytes))
#define FillMemory(to, bytes, with) memset((to), (with), (bytes))
#define RtlEqualMemory(one, other, bytes) (memcmp((one), (other), (bytes)) == 0)
#define _malloca(bytes) malloc(bytes)
#define _freea(memory) free(memory)

FORCEINLINE HRESULT StringFromCLSID(REFCLSID guid, LPWSTR *text) {
  *text = (LPWSTR)malloc(39 * sizeof(WCHAR));
  if (*text == NULL) {
    return E_OUTOFMEMORY;
  }
  StringFromGUID2(guid, *text, 39);
  return S_OK;
}
#define StringFromIID(guid, text) StringFromCLSID((guid), (text))
#define IIDFromString(text, guid) CLSIDFromString((text), (guid))
#define UuidCreate(guid) ((RPC_STATUS)CoCreateGuid(guid))

/* The version of Windows whose functions these are: 10. */
typedef struct _OSVERSIONINFOA {
  DWORD dwOSVersionInfoSize;
  DWORD dwMajorVersion;
  DWORD dwMinorVersion;
  DWORD dwBuildNumber;
  DWORD dwPlatformId;
  CHAR szCSDVersion[128];
} OSVERSIONINFOA, *POSVERSIONINFOA, *LPOSVERSIONINFOA;
typedef struct _OSVERSIONINFOW {
  DWORD dwOSVersionInfoSize;
  DWORD dwMajorVersion;
  DWORD dwMinorVersion;
  DWORD dwBuildNumber;
  DWORD dwPlatformId;
  WCHAR szCSDVersion[128];
} OSVERSIONINFOW, *POSVERSIONINFOW, *LPOSVERSIONINFOW, RTL_OSVERSIONINFOW, *PRTL_OSVERSIONINFOW;
typedef struct _OSVERSIONINFOEXA {
  DWORD dwOSVersionInfoSize;
  DWORD dwMajorVersion;
  DWORD dwMinorVersion;
  DWORD dwBuildNumber;
  DWORD dwPlatformId;
  CHAR szCSDVersion[128];
  WORD wServicePackMajor;
  WORD wServicePackMinor;
  WORD wSuiteMask;
  BYTE wProductType;
  BYTE wReserved;
} OSVERSIONINFOEXA, *POSVERSIONINFOEXA, *LPOSVERSIONINFOEXA;
typedef struct _OSVERSIONINFOEXW {
  DWORD dwOSVersionInfoSize;
  DWORD dwMajorVersion;
  DWORD dwMinorVersion;
  DWORD dwBuildNumber;
  DWORD dwPlatformId;
  WCHAR szCSDVersion[128];
  WORD wServicePackMajor;
  WORD wServicePackMinor;
  WORD wSuiteMask;
  BYTE wProductType;
  BYTE wReserved;
} OSVERSIONINFOEXW, *POSVERSIONINFOEXW, *LPOSVERSIONINFOEXW, RTL_OSVERSIONINFOEXW, *PRTL_OSVERSIONINFOEXW;

#define VER_PLATFORM_WIN32_NT 2
#define VER_NT_WORKSTATION 1
#define VER_NT_DOMAIN_CONTROLLER 2
#define VER_NT_SERVER 3
#define VER_MINORVERSION 0x01u
#define VER_MAJORVERSION 0x02u
#define VER_BUILDNUMBER 0x04u
#define VER_PLATFORMID 0x08u
#define VER_SERVICEPACKMINOR 0x10u
#define VER_SERVICEPACKMAJOR 0x20u
#define VER_SUITENAME 0x40u
#define VER_PRODUCT_TYPE 0x80u
#define VER_EQUAL 1
#define VER_GREATER 2
#define VER_GREATER_EQUAL 3
#define VER_LESS 4
#define VER_LESS_EQUAL 5
#define VER_AND 6
#define VER_OR 7

/* Values of _WIN32_WINNT. */
#define _WIN32_WINNT_NT4 0x0400
#define _WIN32_WINNT_WIN2K 0x0500
#define _WIN32_WINNT_WINXP 0x0501
#define _WIN32_WINNT_WS03 0x0502
#define _WIN32_WINNT_WIN6 0x0600
#define _WIN32_WINNT_VISTA 0x0600
#define _WIN32_WINNT_WS08 0x0600
#define _WIN32_WINNT_LONGHORN 0x0600
#define _WIN32_WINNT_WIN7 0x0601
#define _WIN32_WINNT_WIN8 0x0602
#define _WIN32_WINNT_WINBLUE 0x0603
#define _WIN32_WINNT_WINTHRESHOLD 0x0A00
#define _WIN32_WINNT_WIN10 0x0A00

/* Fills all members, those of the extended structure if the size says that it is one. Before the text, the structures for both
   kinds of text are the same; `product` is where the extended one has the type of product. */
OPENETW_INLINE_ BOOL openetw_version_(LPOSVERSIONINFOA version, size_t plain, size_t extended, size_t product) {
  DWORD size = version->dwOSVersionInfoSize;
  if (size != plain && size != extended) {
    SetLastError(ERROR_INSUFFICIENT_BUFFER);
    return FALSE;
  }
  memset(version, 0, size);
  version->dwOSVersionInfoSize = size;
  version->dwMajorVersion = 10;
  version->dwBuildNumber = 19045;
  version->dwPlatformId = VER_PLATFORM_WIN32_NT;
  if (size == extended) {
    ((BYTE *)version)[product] = VER_NT_WORKSTATION;
  }
  return TRUE;
}
FORCEINLINE BOOL GetVersionExA(LPOSVERSIONINFOA version) {
  return openetw_version_(version, sizeof(OSVERSIONINFOA), sizeof(OSVERSIONINFOEXA),
                          offsetof(OSVERSIONINFOEXA, wProductType));
}
FORCEINLINE BOOL GetVersionExW(LPOSVERSIONINFOW version) {
  return openetw_version_((LPOSVERSIONINFOA)version, sizeof(OSVERSIONINFOW), sizeof(OSVERSIONINFOEXW),
                          offsetof(OSVERSIONINFOEXW, wProductType));
}
FORCEINLINE NTSTATUS RtlGetVersion(PRTL_OSVERSIONINFOW version) {
  return GetVersionExW(version) ? STATUS_SUCCESS : (NTSTATUS)0xC000000D;
}

/* Three bits for each member that is compared. */
FORCEINLINE ULONGLONG VerSetConditionMask(ULONGLONG mask, DWORD members, BYTE condition) {
  for (int member = 0; member < 8; member++) {
    if (members >> member & 1) {
      mask |= (ULONGLONG)(condition & 7) << (3 * member);
    }
  }
  return mask;
}
#define VER_SET_CONDITION(mask, members, condition) ((mask) = VerSetConditionMask((mask), (members), (condition)))

OPENETW_INLINE_ BOOL openetw_compare_version_(DWORD is, DWORD wanted, unsigned condition) {
  switch (condition) {
  case VER_EQUAL:
    return is == wanted;
  case VER_GREATER:
    return is > wanted;
  case VER_GREATER_EQUAL:
    return is >= wanted;
  case VER_LESS:
    return is < wanted;
  case VER_LESS_EQUAL:
    return is <= wanted;
  case VER_AND:
    return (is & wanted) == wanted;
  case VER_OR:
    return (is & wanted) != 0;
  default:
    return FALSE;
  }
}

/* Major and minor version and service pack count as one number, by the condition of the first of them that is compared. */
FORCEINLINE BOOL VerifyVersionInfoW(LPOSVERSIONINFOEXW wanted, DWORD members, ULONGLONG mask) {
  OSVERSIONINFOEXW is;
  is.dwOSVersionInfoSize = sizeof is;
  GetVersionExW((LPOSVERSIONINFOW)&is);
  const struct {
    DWORD member, is, wanted;
  } parts[] = {{1, is.dwMajorVersion, wanted->dwMajorVersion},
               {0, is.dwMinorVersion, wanted->dwMinorVersion},
               {5, is.wServicePackMajor, wanted->wServicePackMajor},
               {4, is.wServicePackMinor, wanted->wServicePackMinor}},
    others[] = {{2, is.dwBuildNumber, wanted->dwBuildNumber},
                {3, is.dwPlatformId, wanted->dwPlatformId},
                {6, is.wSuiteMask, wanted->wSuiteMask},
                {7, is.wProductType, wanted->wProductType}};
  BOOL holds = TRUE;
  unsigned condition = 0;
  for (int part = 0; part < 4; part++) {
    if (members >> parts[part].member & 1) {
      if (condition == 0) {
        condition = (unsigned)(mask >> (3 * parts[part].member)) & 7;
      }
      holds = openetw_compare_version_(parts[part].is, parts[part].wanted, condition);
      if (parts[part].is != parts[part].wanted) {
        break;
      }
    }
  }
  for (int other = 0; other < 4; other++) {
    if (members >> others[other].member & 1) {
      unsigned one = (unsigned)(mask >> (3 * others[other].member)) & 7;
      holds = holds && openetw_compare_version_(others[other].is, others[other].wanted, one);
    }
  }
  if (!holds) {
    SetLastError(ERROR_OLD_WIN_VERSION);
  }
  return holds;
}

/* Also in standard C, for which libc does not declare it. */
int openetw_getpwuid_r(unsigned id, struct passwd *user, char *memory, size_t bytes, struct passwd **found) __asm__(
    "getpwuid_r");

/* The name of the user who started the program. The size is in characters, with the zero at the end. */
FORCEINLINE BOOL GetUserNameA(LPSTR name, LPDWORD size) {
  struct passwd user, *found = NULL;
  char memory[4096];
  if (openetw_getpwuid_r((unsigned)getauxval(AT_EUID), &user, memory, sizeof memory, &found) != 0 || found == NULL) {
    SetLastError(ERROR_NOT_FOUND);
    return FALSE;
  }
  DWORD room = *size, length = (DWORD)strlen(found->pw_name) + 1;
  *size = length;
  if (room < length) {
    SetLastError(ERROR_INSUFFICIENT_BUFFER);
    return FALSE;
  }
  memcpy(name, found->pw_name, length);
  return TRUE;
}
FORCEINLINE BOOL GetUserNameW(LPWSTR name, LPDWORD size) {
  char narrow[256];
  DWORD room = sizeof narrow;
  if (!GetUserNameA(narrow, &room)) {
    return FALSE;
  }
  int length = MultiByteToWideChar(CP_UTF8, 0, narrow, -1, NULL, 0);
  BOOL fits = *size >= (DWORD)length;
  if (fits) {
    MultiByteToWideChar(CP_UTF8, 0, narrow, -1, name, length);
  } else {
    SetLastError(ERROR_INSUFFICIENT_BUFFER);
  }
  *size = (DWORD)length;
  return fits;
}
#define UNLEN 256

/* Operations on bits that Visual C++ has. */
#define _byteswap_ushort(number) __builtin_bswap16(number)
#define _byteswap_ulong(number) __builtin_bswap32(number)
#define _byteswap_uint64(number) __builtin_bswap64(number)
#ifndef _rotl
#define _rotl(number, bits) openetw_rotate_((number), (bits))
#define _rotr(number, bits) openetw_rotate_((number), -(bits))
#endif
#define _rotl64(number, bits) openetw_rotate64_((number), (bits))
#define _rotr64(number, bits) openetw_rotate64_((number), -(bits))
OPENETW_INLINE_ UINT32 openetw_rotate_(UINT32 number, int bits) {
  return number << (bits & 31) | number >> (-bits & 31);
}
OPENETW_INLINE_ UINT64 openetw_rotate64_(UINT64 number, int bits) {
  return number << (bits & 63) | number >> (-bits & 63);
}

/* How text is mapped and compared. */
#define LCMAP_LOWERCASE 0x00000100u
#define LCMAP_UPPERCASE 0x00000200u
#define LCMAP_SORTKEY 0x00000400u
#define LCMAP_BYTEREV 0x00000800u
#define LCMAP_HASH 0x00040000u
#define LCMAP_HIRAGANA 0x00100000u
#define LCMAP_KATAKANA 0x00200000u
#define LCMAP_HALFWIDTH 0x00400000u
#define LCMAP_FULLWIDTH 0x00800000u
#define LCMAP_LINGUISTIC_CASING 0x01000000u
#define LCMAP_SIMPLIFIED_CHINESE 0x02000000u
#define LCMAP_TRADITIONAL_CHINESE 0x04000000u
#define NORM_IGNORECASE 0x00000001u
#define NORM_IGNORENONSPACE 0x00000002u
#define NORM_IGNORESYMBOLS 0x00000004u
#define LINGUISTIC_IGNORECASE 0x00000010u
#define SORT_STRINGSORT 0x00001000u
#define LOCALE_NAME_USER_DEFAULT NULL
#define LOCALE_NAME_INVARIANT L""

FORCEINLINE BOOL FreeLibrary(HMODULE module) { return module != NULL; }
#define LoadLibraryExW(name, file, flags) LoadLibraryW(name)
#define LoadLibraryExA(name, file, flags) LoadLibraryA(name)

/* Processes and threads. */
FORCEINLINE HANDLE GetCurrentProcess(void) { return (HANDLE)(LONG_PTR)-1; }
FORCEINLINE HANDLE GetCurrentThread(void) { return (HANDLE)(LONG_PTR)-2; }
FORCEINLINE HANDLE GetCurrentProcessToken(void) { return (HANDLE)(LONG_PTR)-4; }
FORCEINLINE BOOL IsWow64Process(HANDLE process, PBOOL isWow64) {
  (void)process;
  *isWow64 = FALSE;
  return TRUE;
}
#define ExitProcess(code) exit((int)(code))
#define GetTickCount() ((DWORD)GetTickCount64())
#define SwitchToThread() ((BOOL)(sched_yield() == 0))

/* Atomic operations: the 32-bit and 64-bit ones return the new value, the others the one before. */
#define InterlockedIncrement(to) __atomic_add_fetch((to), 1, __ATOMIC_SEQ_CST)
#define InterlockedDecrement(to) __atomic_sub_fetch((to), 1, __ATOMIC_SEQ_CST)
#define InterlockedIncrement64(to) __atomic_add_fetch((to), 1, __ATOMIC_SEQ_CST)
#define InterlockedDecrement64(to) __atomic_sub_fetch((to), 1, __ATOMIC_SEQ_CST)
#define InterlockedExchange(to, value) __atomic_exchange_n((to), (value), __ATOMIC_SEQ_CST)
#define InterlockedExchange64(to, value) __atomic_exchange_n((to), (value), __ATOMIC_SEQ_CST)
#define InterlockedExchangePointer(to, value) __atomic_exchange_n((to), (value), __ATOMIC_SEQ_CST)
#define InterlockedExchangeAdd(to, value) __atomic_fetch_add((to), (value), __ATOMIC_SEQ_CST)
#define InterlockedExchangeAdd64(to, value) __atomic_fetch_add((to), (value), __ATOMIC_SEQ_CST)
#define InterlockedAdd(to, value) __atomic_add_fetch((to), (value), __ATOMIC_SEQ_CST)
#define InterlockedOr(to, value) __atomic_fetch_or((to), (value), __ATOMIC_SEQ_CST)
#define InterlockedAnd(to, value) __atomic_fetch_and((to), (value), __ATOMIC_SEQ_CST)
FORCEINLINE LONG InterlockedCompareExchange(volatile LONG *to, LONG value, LONG expected) {
  __atomic_compare_exchange_n(to, &expected, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return expected;
}
FORCEINLINE PVOID InterlockedCompareExchangePointer(PVOID volatile *to, PVOID value, PVOID expected) {
  __atomic_compare_exchange_n(to, &expected, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return expected;
}
#define MemoryBarrier() __atomic_thread_fence(__ATOMIC_SEQ_CST)

/* Locks that a thread may take repeatedly. */
typedef pthread_mutex_t CRITICAL_SECTION, *PCRITICAL_SECTION, *LPCRITICAL_SECTION;
OPENETW_INLINE_ void InitializeCriticalSection(LPCRITICAL_SECTION section) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  openetw_mutexattr_settype(&attributes, 1 /* recursive */);
  pthread_mutex_init(section, &attributes);
  pthread_mutexattr_destroy(&attributes);
}
#define InitializeCriticalSectionAndSpinCount(section, count) (InitializeCriticalSection(section), TRUE)
#define InitializeCriticalSectionEx(section, count, flags) (InitializeCriticalSection(section), TRUE)
#define EnterCriticalSection(section) ((void)pthread_mutex_lock(section))
#define TryEnterCriticalSection(section) ((BOOL)(pthread_mutex_trylock(section) == 0))
#define LeaveCriticalSection(section) ((void)pthread_mutex_unlock(section))
#define DeleteCriticalSection(section) ((void)pthread_mutex_destroy(section))
/* libc has them for POSIX and GNU versions of C (-std=gnu17, the default), and for C++. */
#ifdef PTHREAD_RWLOCK_INITIALIZER
typedef pthread_rwlock_t SRWLOCK, *PSRWLOCK;
#define SRWLOCK_INIT PTHREAD_RWLOCK_INITIALIZER
#define InitializeSRWLock(lock) ((void)pthread_rwlock_init((lock), NULL))
#define AcquireSRWLockExclusive(lock) ((void)pthread_rwlock_wrlock(lock))
#define ReleaseSRWLockExclusive(lock) ((void)pthread_rwlock_unlock(lock))
#define AcquireSRWLockShared(lock) ((void)pthread_rwlock_rdlock(lock))
#define ReleaseSRWLockShared(lock) ((void)pthread_rwlock_unlock(lock))
#endif

/* Times. The time zone of the machine is that of libc. */
OPENETW_INLINE_ BOOL FileTimeToLocalFileTime(const FILETIME *time, LPFILETIME local) {
  ULONGLONG ticks = (ULONGLONG)time->dwHighDateTime << 32 | time->dwLowDateTime;
  time_t seconds = (time_t)(ticks / 10000000) - 11644473600;
  struct tm parts;
  memset(&parts, 0, sizeof parts);
  if (openetw_localtime(&seconds, &parts) == NULL) {
    SetLastError(ERROR_INVALID_PARAMETER);
    return FALSE;
  }
  SYSTEMTIME system = {(WORD)(parts.tm_year + 1900), (WORD)(parts.tm_mon + 1), (WORD)parts.tm_wday,
                       (WORD)parts.tm_mday,          (WORD)parts.tm_hour,      (WORD)parts.tm_min,
                       (WORD)(parts.tm_sec > 59 ? 59 : parts.tm_sec), 0};
  if (!SystemTimeToFileTime(&system, local)) {
    return FALSE;
  }
  ticks = ((ULONGLONG)local->dwHighDateTime << 32 | local->dwLowDateTime) + ticks % 10000000;
  local->dwLowDateTime = (DWORD)ticks;
  local->dwHighDateTime = (DWORD)(ticks >> 32);
  return TRUE;
}
/* `zone` must be NULL: the machine's. */
OPENETW_INLINE_ BOOL SystemTimeToTzSpecificLocalTime(const TIME_ZONE_INFORMATION *zone,
                                                            const SYSTEMTIME *universal, LPSYSTEMTIME local) {
  FILETIME time;
  if (zone != NULL) {
    SetLastError(ERROR_NOT_SUPPORTED);
    return FALSE;
  }
  return SystemTimeToFileTime(universal, &time) && FileTimeToLocalFileTime(&time, &time) &&
         FileTimeToSystemTime(&time, local);
}
OPENETW_INLINE_ void GetLocalTime(LPSYSTEMTIME local) {
  SYSTEMTIME universal;
  GetSystemTime(&universal);
  SystemTimeToTzSpecificLocalTime(NULL, &universal, local);
}
OPENETW_INLINE_ LONG CompareFileTime(const FILETIME *one, const FILETIME *other) {
  ULONGLONG a = (ULONGLONG)one->dwHighDateTime << 32 | one->dwLowDateTime;
  ULONGLONG b = (ULONGLONG)other->dwHighDateTime << 32 | other->dwLowDateTime;
  return a < b ? -1 : a > b;
}
#define GetSystemTimePreciseAsFileTime(time) GetSystemTimeAsFileTime(time)

#ifdef UNICODE
typedef OSVERSIONINFOW OSVERSIONINFO, *POSVERSIONINFO, *LPOSVERSIONINFO;
typedef OSVERSIONINFOEXW OSVERSIONINFOEX, *POSVERSIONINFOEX, *LPOSVERSIONINFOEX;
#define GetVersionEx GetVersionExW
#define VerifyVersionInfo VerifyVersionInfoW
#define GetUserName GetUserNameW
#define CreateEvent CreateEventW
#define LoadLibrary LoadLibraryW
#define LoadLibraryEx LoadLibraryExW
#define GetModuleHandle GetModuleHandleW
#define GetCommandLine GetCommandLineW
#define GetDateFormat GetDateFormatW
#define GetTimeFormat GetTimeFormatW
#define ConvertSidToStringSid ConvertSidToStringSidW
#define FormatMessage FormatMessageW
#define lstrlen lstrlenW
#define LookupPrivilegeValue LookupPrivilegeValueW
#define UuidToString UuidToStringW
#define RpcStringFree RpcStringFreeW
#else
typedef OSVERSIONINFOA OSVERSIONINFO, *POSVERSIONINFO, *LPOSVERSIONINFO;
typedef OSVERSIONINFOEXA OSVERSIONINFOEX, *POSVERSIONINFOEX, *LPOSVERSIONINFOEX;
#define GetVersionEx GetVersionExA
#define GetUserName GetUserNameA
#define CreateEvent CreateEventA
#define LoadLibrary LoadLibraryA
#define LoadLibraryEx LoadLibraryExA
#define GetModuleHandle GetModuleHandleA
#define GetCommandLine GetCommandLineA
#define GetDateFormat GetDateFormatA
#define GetTimeFormat GetTimeFormatA
#define ConvertSidToStringSid ConvertSidToStringSidA
#define FormatMessage FormatMessageA
#define lstrlen lstrlenA
#define LookupPrivilegeValue LookupPrivilegeValueA
#define UuidToString UuidToStringA
#define RpcStringFree RpcStringFreeA
#endif

/*
 * Programs that start with `wmain` get a `main` that calls it with wide arguments. The macro stands where the name does,
 * so what precedes it is the type that it returns.
 */
#ifdef __cplusplus
extern "C++" {
namespace openetw_start {
template <class R> struct Call {
  template <class F, class... A> static int of(F *function, A... arguments) { return (int)function(arguments...); }
};
template <> struct Call<void> {
  template <class F, class... A> static int of(F *function, A... arguments) {
    function(arguments...);
    return 0;
  }
};
} // namespace openetw_start
}
#define wmain                                                                                                          \
  openetw_wmain_type();                                                                                                \
  typedef decltype(openetw_wmain_type()) openetw_wmain_result;                                                         \
  __attribute__((weak)) openetw_wmain_result openetw_wmain();                                                          \
  __attribute__((weak)) openetw_wmain_result openetw_wmain(int, WCHAR **);                                             \
  __attribute__((weak)) openetw_wmain_result openetw_wmain(int, const WCHAR **);                                       \
  __attribute__((weak)) openetw_wmain_result openetw_wmain(int, WCHAR **, WCHAR **);                                   \
  int main(int openetwCount, char **openetwArguments) {                                                                \
    WCHAR **wide = openetw_wide_arguments(openetwCount, openetwArguments);                                             \
    openetw_wmain_result (*two)(int, WCHAR **) = openetw_wmain;                                                        \
    openetw_wmain_result (*constant)(int, const WCHAR **) = openetw_wmain;                                             \
    openetw_wmain_result (*three)(int, WCHAR **, WCHAR **) = openetw_wmain;                                            \
    openetw_wmain_result (*none)() = openetw_wmain;                                                                    \
    typedef ::openetw_start::Call<openetw_wmain_result> openetw_call;                                                  \
    WCHAR *environment[1] = {NULL};                                                                                    \
    return two        ? openetw_call::of(two, openetwCount, wide)                                                      \
           : constant ? openetw_call::of(constant, openetwCount, (const WCHAR **)wide)                                 \
           : three    ? openetw_call::of(three, openetwCount, wide, (WCHAR **)environment)                             \
                      : openetw_call::of(none);                                                                        \
  }                                                                                                                    \
  openetw_wmain_result openetw_wmain
#else
/* Called with all arguments; one that takes fewer leaves them alone. */
#define wmain                                                                                                          \
  openetw_wmain_type(void);                                                                                            \
  typedef __typeof__(openetw_wmain_type()) openetw_wmain_result;                                                       \
  openetw_wmain_result openetw_wmain_called(int, WCHAR **, WCHAR **) __asm__("openetw_wmain");                         \
  int main(int openetwCount, char **openetwArguments) {                                                                \
    WCHAR **openetwWide = openetw_wide_arguments(openetwCount, openetwArguments);                                      \
    WCHAR *openetwEnvironment[1] = {NULL};                                                                             \
    return __builtin_choose_expr(__builtin_types_compatible_p(openetw_wmain_result, void),                             \
                                 (openetw_wmain_called(openetwCount, openetwWide, openetwEnvironment), 0),             \
                                 openetw_wmain_called(openetwCount, openetwWide, openetwEnvironment));                 \
  }                                                                                                                    \
  openetw_wmain_result openetw_wmain
#endif

#endif
