/* Includes every header, and uses what depends on the kind of wide characters. */
#include <windows.h>
#include <TraceLoggingProvider.h>
#include <evntrace.h>
#include <evntprov.h>
#include <evntcons.h>
#include <wmistr.h>
#include <winmeta.h>
#include <tdh.h>
#include <openetw_mc.h>
#include <openetw.h>
#include <tchar.h>
#include <strsafe.h>
#define COBJMACROS
#include <relogger.h>
#include <winsock2.h>
#include <conio.h>
#include <ntverp.h>
#include <process.h>
#include <versionhelpers.h>
#include <winternl.h>
#include <netiodef.h>
#include <SpecStrings.h>
#include <WinDef.h>
#include <pshpack1.h>
struct packed {
  char one;
  int four;
};
#include <poppack.h>
#ifdef __cplusplus
#include <TraceLoggingActivity.h>
#endif
TRACELOGGING_DEFINE_PROVIDER(g_p, "A.B", (0x3970f9cf, 0x2c0c, 0x4f11, 0xb1, 0xcc, 0xe3, 0xa1, 0xe9, 0x95, 0x88, 0x33));
TRACELOGGING_DEFINE_PROVIDER(g_named, "A.C", );
TRACELOGGING_DEFINE_PROVIDER(g_member, "A.D", , TraceLoggingOptionGroup(0x3970f9cf, 0x2c0c, 0x4f11, 0xb1, 0xcc, 0xe3, 0xa1, 0xe9, 0x95, 0x88, 0x34));
int main(void) {
  TraceLoggingRegister(g_p);
  const TCHAR *name = TEXT("session");
  const WCHAR *kernel = KERNEL_LOGGER_NAMEW;
  TraceLoggingWrite(g_p, "E", TraceLoggingLevel(3), TraceLoggingWideString(kernel, "k"), TraceLoggingInt32(4, "n"), TraceLoggingWChar(kernel[0], "c"));
  (void)name;
  /* What programs need besides. */
  OSVERSIONINFOEX version;
  version.dwOSVersionInfoSize = sizeof version;
  char of_packed[sizeof(struct packed) == 5 ? 1 : -1] = {0};
  char of_packets[sizeof(ETHERNET_HEADER) == 14 && sizeof(IPV4_HEADER) == 20 && sizeof(IPV6_HEADER) == 40 &&
                          sizeof(TCP_HDR) == 20 ? 1 : -1] = {0};
  DWORD size = 0;
  (void)of_packed, (void)of_packets;
  if (!GetVersionEx((LPOSVERSIONINFO)&version) || GetUserName(NULL, &size) || _WIN32_WINNT < _WIN32_WINNT_WIN7)
    return 1;
  TraceLoggingUnregister(g_p);
  return 0;
}
