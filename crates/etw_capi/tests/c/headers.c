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
  TraceLoggingUnregister(g_p);
  return 0;
}
