/* What programs use of Windows besides ETW. C and C++, both kinds of wchar_t. Prints what is different. */
#include <process.h>
#include <versionhelpers.h>
#include <windows.h>
#include <winternl.h>
#include <conio.h>
#include <strsafe.h>
#include <tchar.h>
#include <wchar.h>
#include "expect.h"

#ifdef __cplusplus
#define REF(value) (value)
#else
#define REF(value) (&(value))
#endif

/* As headers of Windows' message compiler define the bits of events. */
EXTERN_C __declspec(selectany) DECLSPEC_CACHEALIGN ULONG TestEnableBits[1];

static HANDLE event;
static volatile LONG count;

static DWORD WINAPI work(LPVOID parameter) {
  InterlockedExchangeAdd(&count, *(LONG *)parameter);
  SetEvent(event);
  return 7;
}

/* Text of WCHAR as UTF-8, in one of four places. */
static const char *narrow(const WCHAR *text) {
  static char places[4][512];
  static int next;
  char *to = places[next++ % 4];
  if (WideCharToMultiByte(CP_UTF8, 0, text, -1, to, sizeof places[0], NULL, NULL) == 0) {
    return "?";
  }
  return to;
}

/* Whether the version is as it should be, by members and one condition. */
static BOOL verify(DWORD major, DWORD minor, DWORD build, DWORD members, BYTE condition) {
  OSVERSIONINFOEXW wanted;
  memset(&wanted, 0, sizeof wanted);
  wanted.dwOSVersionInfoSize = sizeof wanted;
  wanted.dwMajorVersion = major;
  wanted.dwMinorVersion = minor;
  wanted.dwBuildNumber = build;
  return VerifyVersionInfoW(&wanted, members, VerSetConditionMask(0, members, condition));
}

static void versions(void) {
  const DWORD both = VER_MAJORVERSION | VER_MINORVERSION;
  OSVERSIONINFOEXW version;
  version.dwOSVersionInfoSize = sizeof version;
  EXPECT(GetVersionExW((LPOSVERSIONINFOW)&version), TRUE);
  EXPECT(version.dwMajorVersion, 10);
  EXPECT(version.wProductType, VER_NT_WORKSTATION);
  version.dwOSVersionInfoSize = 7;
  EXPECT(GetVersionExW((LPOSVERSIONINFOW)&version), FALSE);
  EXPECT(verify(6, 1, 0, both, VER_GREATER_EQUAL), TRUE);
  EXPECT(verify(10, 0, 0, both, VER_GREATER_EQUAL), TRUE);
  EXPECT(verify(10, 1, 0, both, VER_GREATER_EQUAL), FALSE);
  EXPECT(GetLastError(), ERROR_OLD_WIN_VERSION);
  EXPECT(verify(11, 0, 0, both, VER_LESS), TRUE);
  EXPECT(verify(10, 0, 0, both, VER_EQUAL), TRUE);
  EXPECT(verify(0, 0, 10240, VER_BUILDNUMBER, VER_GREATER), TRUE);
  EXPECT(verify(0, 0, 10240, VER_BUILDNUMBER, VER_LESS_EQUAL), FALSE);
}

static void of_the_compiler(void) {
  char name[UNLEN + 1];
  WCHAR wide[UNLEN + 1];
  DWORD size = 1;
  EXPECT(GetUserNameA(name, &size), FALSE);
  EXPECT(GetLastError(), ERROR_INSUFFICIENT_BUFFER);
  EXPECT(GetUserNameA(name, &size), TRUE);
  EXPECT(size, strlen(name) + 1);
  size = UNLEN + 1;
  EXPECT(GetUserNameW(wide, &size), TRUE);
  EXPECT_TEXT(narrow(wide), name);
  EXPECT(_byteswap_ushort(0x1234), 0x3412);
  EXPECT(_byteswap_ulong(0x12345678), 0x78563412);
  EXPECT(_byteswap_uint64(0x0102030405060708) == 0x0807060504030201, TRUE);
  EXPECT(_rotl(0x80000001, 4), 0x18);
  EXPECT(_rotr(0x18, 4), 0x80000001);
  EXPECT(_rotl64(0x8000000000000001, 4) == 0x18, TRUE);
  EXPECT(_rotr64(0x18, 0) == 0x18, TRUE);
  EVENT_TRACE_GROUPMASK_INFORMATION groups;
  ULONG length;
  memset(&groups, 0, sizeof groups);
  EXPECT(NtQuerySystemInformation(SystemBasicInformation, &groups, sizeof groups, &length), STATUS_INVALID_INFO_CLASS);
  EXPECT(NtQuerySystemInformation(SystemPerformanceTraceInformation, &groups, sizeof groups, &length), STATUS_INVALID_INFO_CLASS);
  groups.EventTraceInformationClass = EventTraceGroupMaskInformation;
  EXPECT(NtSetSystemInformation(SystemPerformanceTraceInformation, &groups, 8), STATUS_INFO_LENGTH_MISMATCH);
  groups.EventTraceGroupMasks.Masks[4] = 0x40;
  EXPECT(NtSetSystemInformation(SystemPerformanceTraceInformation, &groups, sizeof groups), STATUS_NOT_SUPPORTED);
}

static void texts(void) {
  WCHAR wide[64], other[64];
  char small[8], text[64];
  EXPECT(MultiByteToWideChar(CP_UTF8, 0, "w\xC3\xA4\xF0\x9F\x98\x80", -1, wide, 64), sizeof(WCHAR) == 2 ? 5 : 4);
  EXPECT_TEXT(narrow(wide), "w\xC3\xA4\xF0\x9F\x98\x80");
  EXPECT(MultiByteToWideChar(CP_UTF8, 0, "longer", -1, wide, 3), 0);
  EXPECT(GetLastError(), ERROR_INSUFFICIENT_BUFFER);
  EXPECT(StringCchPrintf(other, 64, L"%s %S %hs %-4d|%04X %I64u %lu %ws %c", L"a", "b", "c", 5, 0xAB,
                         (UINT64)12345678901, (ULONG)6, L"d", L'e'),
         S_OK);
  EXPECT_TEXT(narrow(other), "a b c 5   |00AB 12345678901 6 d e");
  EXPECT(StringCchCopy(wide, 4, L"abcdef"), STRSAFE_E_INSUFFICIENT_BUFFER);
  EXPECT_TEXT(narrow(wide), "abc");
  EXPECT(StringCbCatW(wide, 6 * sizeof(WCHAR), L"de"), S_OK);
  EXPECT_TEXT(narrow(wide), "abcde");
  EXPECT(wcslen(wide), 5);
  EXPECT(wcscmp(wide, L"abcde"), 0);
  EXPECT(wcschr(wide, L'c') - wide, 2);
  EXPECT(_wcsicmp(wide, L"ABCDE"), 0);
  EXPECT(_wcsnicmp(wide, L"ABX", 2), 0);
  EXPECT(wcstoul(L"0x1F", NULL, 16), 31);
  EXPECT(_wtoi(L" -12"), (unsigned long long)-12);
  EXPECT(wcscpy_s(wide, 4, L"abcd"), ERANGE);
  EXPECT(wcsncpy_s(wide, 4, L"abcd", _TRUNCATE), STRUNCATE);
  EXPECT_TEXT(narrow(wide), "abc");
  EXPECT(swprintf_s(wide, 64, L"%s/%u", L"x", 3u), 3);
  EXPECT_TEXT(narrow(wide), "x/3");
  EXPECT(swprintf(wide, 64, L"[%5s|%-5s|%.2s]", L"ab", L"cd", L"efg"), 16);
  EXPECT_TEXT(narrow(wide), "[   ab|cd   |ef]");
  EXPECT(strcpy_s(small, sizeof small, "1234567"), 0);
  EXPECT(strcat_s(small, sizeof small, "8"), ERANGE);
  EXPECT(sprintf_s(text, sizeof text, "%d", 12), 2);
  EXPECT(_stricmp("Text", "tEXT"), 0);
  wprintf(L"%s, %S and %d\n", L"w\u00e4de", "narrow", 3);
  _tprintf(TEXT("%s\n"), TEXT("either"));
}

static void guids(void) {
  GUID guid, same;
  WCHAR text[39];
  RPC_WSTR uuid = NULL;
  RPC_CSTR uuid8 = NULL;
  EXPECT(CLSIDFromString(L"{3970F9CF-2C0C-4F11-B1CC-E3A1E9958833}", &guid), S_OK);
  EXPECT(UuidToStringW(&guid, &uuid), RPC_S_OK);
  EXPECT_TEXT(narrow(uuid), "3970f9cf-2c0c-4f11-b1cc-e3a1e9958833");
  EXPECT(RpcStringFreeW(&uuid), RPC_S_OK);
  EXPECT(UuidToStringA(&guid, &uuid8), RPC_S_OK);
  EXPECT_TEXT((const char *)uuid8, "3970f9cf-2c0c-4f11-b1cc-e3a1e9958833");
  EXPECT(RpcStringFreeA(&uuid8), RPC_S_OK);
  EXPECT(CoCreateGuid(&guid), S_OK);
  EXPECT(StringFromGUID2(REF(guid), text, 39), 39);
  EXPECT(StringFromGUID2(REF(guid), text, 38), 0);
  EXPECT(StringFromGUID2(REF(guid), text, 39), 39);
  EXPECT(CLSIDFromString(text, &same), S_OK);
  EXPECT(memcmp(&guid, &same, sizeof guid), 0);
  EXPECT(FAILED(CLSIDFromString(L"nothing", &same)), 1);
}

static void threads(void) {
  LONG add = 3;
  DWORD id = 0, code = 0;
  HANDLE both[2];
  event = CreateEvent(NULL, TRUE, FALSE, NULL);
  EXPECT(event != NULL, 1);
  EXPECT(WaitForSingleObject(event, 1), WAIT_TIMEOUT);
  both[0] = event;
  both[1] = CreateThread(NULL, 0, work, &add, 0, &id);
  EXPECT(both[1] != NULL && id != 0, 1);
  EXPECT(WaitForMultipleObjects(2, both, TRUE, 10000), WAIT_OBJECT_0);
  EXPECT(GetExitCodeThread(both[1], &code), TRUE);
  EXPECT(code, 7);
  EXPECT(count, 3);
  EXPECT(ResetEvent(event), TRUE);
  EXPECT(WaitForSingleObject(event, 0), WAIT_TIMEOUT);
  EXPECT(CloseHandle(both[1]), TRUE);
  EXPECT(CloseHandle(event), TRUE);
  EXPECT(CloseHandle(event), FALSE);
  EXPECT(WaitForSingleObject(event, 0), WAIT_FAILED);
  CRITICAL_SECTION section;
  InitializeCriticalSection(&section);
  EnterCriticalSection(&section);
  EnterCriticalSection(&section);
  LeaveCriticalSection(&section);
  LeaveCriticalSection(&section);
  DeleteCriticalSection(&section);
  EXPECT(InterlockedIncrement(&count), 4);
  EXPECT(InterlockedCompareExchange(&count, 9, 4), 4);
  EXPECT(InterlockedExchange(&count, 1), 9);
}

static void messages(void) {
  LPWSTR allocated = NULL;
  WCHAR text[64];
  SYSTEMTIME when = {2020, 2, 6, 29, 12, 30, 15, 250};
  FILETIME time;
  EXPECT(FormatMessage(FORMAT_MESSAGE_ALLOCATE_BUFFER | FORMAT_MESSAGE_FROM_SYSTEM, NULL, ERROR_ACCESS_DENIED, 0,
                       (LPWSTR)&allocated, 0, NULL) > 10,
         1);
  EXPECT(allocated != NULL, 1);
  LocalFree(allocated);
  DWORD_PTR inserts[] = {(DWORD_PTR)L"one", (DWORD_PTR)L"two"};
  EXPECT(FormatMessage(FORMAT_MESSAGE_FROM_STRING | FORMAT_MESSAGE_ARGUMENT_ARRAY, L"%2 before %1", 0, 0, text, 64,
                       (va_list *)inserts),
         14);
  EXPECT_TEXT(narrow(text), "two before one");
  EXPECT(GetDateFormatW(LOCALE_INVARIANT, 0, &when, L"yyyy'-'MM'-'dd", text, 64), 11);
  EXPECT_TEXT(narrow(text), "2020-02-29");
  EXPECT(SystemTimeToFileTime(&when, &time), TRUE);
  EXPECT(FileTimeToSystemTime(&time, &when), TRUE);
  EXPECT(when.wMilliseconds, 250);
}

static void libraries(void) {
  HMODULE tdh = LoadLibrary(TEXT("tdh.dll"));
  EXPECT(tdh != NULL, 1);
  EXPECT(GetProcAddress(tdh, "TdhGetEventInformation") != NULL, 1);
  EXPECT(GetProcAddress(tdh, "TdhNothing") == NULL, 1);
  EXPECT(LoadLibrary(TEXT("nothing.dll")) == NULL, 1);
  EXPECT(FreeLibrary(tdh), TRUE);
}

/* What controllers do to get the right to profile. */
static void tokens(void) {
  HANDLE token = NULL;
  TOKEN_ELEVATION elevation = {7};
  TOKEN_ELEVATION_TYPE type = TokenElevationTypeLimited;
  TOKEN_PRIVILEGES privileges = {1, {{{0, 0}, SE_PRIVILEGE_ENABLED}}};
  DWORD size = 0;
  EXPECT(OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY | TOKEN_ADJUST_PRIVILEGES, NULL), FALSE);
  EXPECT(OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY | TOKEN_ADJUST_PRIVILEGES, &token), TRUE);
  EXPECT(GetTokenInformation(token, TokenElevation, NULL, 0, &size), FALSE);
  EXPECT(GetLastError(), ERROR_INSUFFICIENT_BUFFER);
  EXPECT(size, sizeof elevation);
  EXPECT(GetTokenInformation(token, TokenElevation, &elevation, sizeof elevation, &size), TRUE);
  EXPECT(elevation.TokenIsElevated <= 1, TRUE);
  EXPECT(GetTokenInformation(token, TokenElevationType, &type, sizeof type, &size), TRUE);
  EXPECT(type, elevation.TokenIsElevated ? TokenElevationTypeFull : TokenElevationTypeDefault);
  EXPECT(GetTokenInformation(token, TokenGroups, &type, sizeof type, &size), FALSE);
  EXPECT(LookupPrivilegeValue(NULL, TEXT("SeNothing"), &privileges.Privileges[0].Luid), FALSE);
  EXPECT(GetLastError(), ERROR_NO_SUCH_PRIVILEGE);
  EXPECT(LookupPrivilegeValue(NULL, SE_SYSTEM_PROFILE_NAME, &privileges.Privileges[0].Luid), TRUE);
  EXPECT(privileges.Privileges[0].Luid.LowPart, 11);
  EXPECT(AdjustTokenPrivileges(token, FALSE, &privileges, 0, NULL, NULL), TRUE);
  EXPECT(GetLastError(), elevation.TokenIsElevated ? ERROR_SUCCESS : ERROR_NOT_ALL_ASSIGNED);
  EXPECT(AdjustTokenPrivileges(token, FALSE, NULL, 0, NULL, NULL), FALSE);
  SYSTEM_INFO machine;
  GetSystemInfo(&machine);
  EXPECT(machine.dwNumberOfProcessors > 0 && machine.dwPageSize >= 4096, TRUE);
  EXPECT(CloseHandle(token), TRUE);
  EXPECT(GetTokenInformation(token, TokenElevation, &elevation, sizeof elevation, &size), FALSE);
  EXPECT(GetLastError(), ERROR_INVALID_HANDLE);
  versions();
  of_the_compiler();
  EXPECT(IsWindows8OrGreater() && IsWindowsVersionOrGreater(10, 0, 0) && !IsWindowsServer(), TRUE);
}

static unsigned __stdcall started(void *argument) { return *(unsigned *)argument; }

static void library_threads(void) {
  unsigned number = 5, id = 0;
  DWORD code = 0;
  HANDLE thread = (HANDLE)_beginthreadex(NULL, 0, started, &number, 0, &id);
  EXPECT(WaitForSingleObject(thread, 10000), WAIT_OBJECT_0);
  EXPECT(GetExitCodeThread(thread, &code), TRUE);
  EXPECT(code, 5);
  EXPECT(CloseHandle(thread), TRUE);
}

int _tmain(int argc, TCHAR *argv[]) {
  EXPECT(argc, 2);
  EXPECT_TEXT(narrow(argv[1]), "w\xC3\xA4" "de");
  texts();
  guids();
  threads();
  messages();
  libraries();
  tokens();
  library_threads();
  EXPECT(++TestEnableBits[0], 1);
  EXPECT((ULONG_PTR)TestEnableBits % 64, 0);
  return failures != 0;
}
