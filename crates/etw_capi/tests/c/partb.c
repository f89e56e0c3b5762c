/* Macros that stand for several fields, as WIL and the Windows App SDK have them. C and C++. */
#include <TraceLoggingProvider.h>
#include <evntrace.h>
#include <tdh.h>
#ifdef __cplusplus
#include <TraceLoggingActivity.h>
#endif
#include "expect.h"

#define _GENERIC_PARTB_FIELDS_ENABLED                                                                                  \
  TraceLoggingStruct(3, "PartB"), TraceLoggingString(Version(), "Version"), TraceLoggingInt32(1337, "Build"),          \
      TraceLoggingBool(1, "IsInternal")
#define _TLGWRITE_GENERIC_PARTB_FIELDS , _GENERIC_PARTB_FIELDS_ENABLED
#define NO_FIELDS
#define PRIVACY TraceLoggingKeyword(0x2), TraceLoggingLevel(3)

/* Macros that write events, with those in the middle and at the end. */
#define Measure(name, ...)                                                                                             \
  TraceLoggingWrite(Provider, name, TraceLoggingLevel(4), _GENERIC_PARTB_FIELDS_ENABLED, ##__VA_ARGS__)

TRACELOGGING_DEFINE_PROVIDER(Provider, "OpenETW.Test.PartB",
                             (0x3970f9cf, 0x2c0c, 0x4f11, 0xb1, 0xcc, 0xe3, 0xa1, 0xe9, 0x95, 0x88, 0x97));

static const char *Version(void) { return "1.0.0"; }

#ifdef __cplusplus
#define ACTIVITIES 3
static void Function(void) { TraceLoggingFunction(Provider, PRIVACY, TraceLoggingInt32(5, "five")); }
static void Activities(void) {
  TraceLoggingActivity<Provider> activity;
  TraceLoggingWriteStart(activity, "Task", _GENERIC_PARTB_FIELDS_ENABLED, TraceLoggingInt32(1, "one"));
  Function();
  TraceLoggingWriteStop(activity, "Task" _TLGWRITE_GENERIC_PARTB_FIELDS);
}
#else
#define ACTIVITIES 0
static void Activities(void) {}
#endif

static ULONG events, fields;

static VOID WINAPI OnEvent(PEVENT_RECORD event) {
  ULONG size = 0;
  if (memcmp(&event->EventHeader.ProviderId, &Provider->guid, sizeof(GUID)) != 0) {
    return;
  }
  EXPECT(TdhGetEventInformation(event, 0, NULL, NULL, &size), ERROR_INSUFFICIENT_BUFFER);
  TRACE_EVENT_INFO *info = (TRACE_EVENT_INFO *)malloc(size);
  EXPECT(TdhGetEventInformation(event, 0, NULL, info, &size), ERROR_SUCCESS);
  events++;
  fields += info->PropertyCount;
  free(info);
}

int main(int argc, char **argv) {
  struct {
    EVENT_TRACE_PROPERTIES properties;
    char name[64];
    char file[512];
  } session;
  EVENT_TRACE_LOGFILEA log;
  TRACEHANDLE handle = 0, trace;
  if (argc != 2) {
    return 2;
  }
  memset(&session, 0, sizeof session);
  session.properties.Wnode.BufferSize = sizeof session;
  session.properties.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
  session.properties.LogFileMode = EVENT_TRACE_FILE_MODE_SEQUENTIAL;
  session.properties.LoggerNameOffset = (ULONG)((char *)session.name - (char *)&session);
  session.properties.LogFileNameOffset = (ULONG)((char *)session.file - (char *)&session);
  strncpy(session.file, argv[1], sizeof session.file - 1);
  TraceLoggingRegister(Provider);
  EXPECT(StartTraceA(&handle, "PartB", &session.properties), ERROR_SUCCESS);
  EXPECT(EnableTraceEx2(handle, &Provider->guid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 0, 0, 0, 1000, NULL),
         ERROR_SUCCESS);
  TraceLoggingWrite(Provider, "Alone");
  TraceLoggingWrite(Provider, "Fields", _GENERIC_PARTB_FIELDS_ENABLED);
  TraceLoggingWrite(Provider, "End" _TLGWRITE_GENERIC_PARTB_FIELDS);
  TraceLoggingWrite(Provider, "Nothing" NO_FIELDS, TraceLoggingInt32(1, "one"));
  Measure("Measured");
  Measure("MeasuredMore", PRIVACY, TraceLoggingInt32(1, "one"), TraceLoggingHexUInt32(2, "two"));
  TraceLoggingWriteActivity(Provider, "Activity", NULL, NULL, _GENERIC_PARTB_FIELDS_ENABLED);
  Activities();
  EXPECT(ControlTraceA(handle, NULL, &session.properties, EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
  TraceLoggingUnregister(Provider);

  memset(&log, 0, sizeof log);
  log.LogFileName = argv[1];
  log.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
  log.EventRecordCallback = OnEvent;
  trace = OpenTraceA(&log);
  EXPECT(ProcessTrace(&trace, 1, NULL, NULL), ERROR_SUCCESS);
  EXPECT(CloseTrace(trace), ERROR_SUCCESS);
  /* A structure is a field beside its three. */
  EXPECT(events, 7 + (ACTIVITIES ? 4 : 0));
  EXPECT(fields, 4 + 4 + 1 + 4 + 6 + 4 + (ACTIVITIES ? 5 + 1 + 0 + 4 : 0));
  printf("part B: %d failures\n", failures);
  return failures != 0;
}
