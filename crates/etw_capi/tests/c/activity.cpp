// Activities, a classic provider, and OpenETW's own functions, in one recorded session.
#include <TraceLoggingActivity.h>
#include <evntrace.h>
#include <openetw.h>
#include <cstdio>
#include <cstdlib>
#include <string>

TRACELOGGING_DEFINE_PROVIDER(g_provider, "OpenETW.Test.Activity",
                             (0x3970f9cf, 0x2c0c, 0x4f11, 0xb1, 0xcc, 0xe3, 0xa1, 0xe9, 0x95, 0x88, 0x34));
static const GUID classic = {0x3970f9cf, 0x2c0c, 0x4f11, {0xb1, 0xcc, 0xe3, 0xa1, 0xe9, 0x95, 0x88, 0x35}};
static const GUID eventClass = {0x3970f9cf, 0x2c0c, 0x4f11, {0xb1, 0xcc, 0xe3, 0xa1, 0xe9, 0x95, 0x88, 0x36}};
static volatile TRACEHANDLE logger;
static volatile int enables;

static void check(const char *what, ULONG code) {
  if (code != ERROR_SUCCESS) {
    printf("%s: error %u\n", what, code);
    exit(1);
  }
}

static ULONG WINAPI request(WMIDPREQUESTCODE code, PVOID context, ULONG *, PVOID buffer) {
  if (code == WMI_ENABLE_EVENTS) {
    logger = GetTraceLoggerHandle(buffer);
    printf("classic level=%u flags=%x context=%s\n", GetTraceEnableLevel(logger), GetTraceEnableFlags(logger),
           static_cast<const char *>(context));
    enables = enables + 1;
  }
  return ERROR_SUCCESS;
}

static VOID NTAPI on_enable(LPCGUID, ULONG isEnabled, UCHAR, ULONGLONG, ULONGLONG, PEVENT_FILTER_DESCRIPTOR, PVOID) {
  enables = enables + (isEnabled != 0);
}

static GUID started;

static int print(const openetw_event *event, void *context) {
  openetw_header header = {};
  header.size = sizeof header;
  openetw_event_header(event, &header);
  int *level = static_cast<int *>(context);
  GUID provider, activity;
  memcpy(&provider, header.provider, sizeof provider);
  memcpy(&activity, header.activity, sizeof activity);
  if (provider == eventClass) {
    printf("%d: classic type=%u version=%u level=%u size=%u\n", *level, header.opcode, header.version, header.level,
           header.payload_size);
  }
  if (!(provider == GUID(g_provider->guid))) {
    return 0;
  }
  const char *name = openetw_event_name(event);
  if (header.opcode == 1 && name && std::string(name) == "Outer") {
    started = activity;
  }
  int64_t number = 0;
  int found = openetw_event_int64(event, "n", &number);
  const char *text = openetw_event_text(event, "n");
  const char *json = openetw_event_json(event);
  bool isObject = json && json[0] == '{' && std::string(json).find("\"ProviderName\"") == std::string::npos;
  printf("%d: %s opcode=%u level=%u same=%d n=%d/%d text=%s json=%d\n", *level, name ? name : "-", header.opcode,
         header.level, activity == started, found, (int)number, text ? text : "-", isObject);
  return 0;
}

int main(int argc, char **argv) {
  struct {
    EVENT_TRACE_PROPERTIES properties;
    char name[64];
    char file[512];
  } session = {};
  if (argc != 2) {
    return 2;
  }
  session.properties.Wnode.BufferSize = sizeof session;
  session.properties.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
  session.properties.LogFileMode = EVENT_TRACE_FILE_MODE_SEQUENTIAL;
  session.properties.LoggerNameOffset = offsetof(decltype(session), name);
  session.properties.LogFileNameOffset = offsetof(decltype(session), file);
  snprintf(session.file, sizeof session.file, "%s", argv[1]);
  TRACEHANDLE handle = 0, registration = 0;
  check("StartTraceA", StartTraceA(&handle, "OpenEtwActivity", &session.properties));
  TraceLoggingRegisterEx(g_provider, on_enable, nullptr);
  TRACE_GUID_REGISTRATION classes[1] = {{&eventClass, nullptr}};
  char context[] = "mine";
  check("RegisterTraceGuids", RegisterTraceGuids(request, context, &classic, 1, classes, nullptr, nullptr, &registration));
  check("EnableTraceEx2", EnableTraceEx2(handle, &g_provider->guid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 5, 0, 0, 0, nullptr));
  check("EnableTrace", EnableTrace(TRUE, 0x30, 4, &classic, handle));
  for (int waited = 0; enables < 2 && waited < 10000; waited++) {
    Sleep(1);
  }
  {
    TraceLoggingActivity<g_provider, 0x10, 4> outer;
    TraceLoggingWriteTagged(outer, "Before");
    TraceLoggingWriteStart(outer, "Outer", TraceLoggingInt32(1, "n"));
    TraceLoggingWriteStart(outer, "Twice");
    TraceLoggingWriteTagged(outer, "Middle", TraceLoggingInt32(2, "n"));
    {
      TraceLoggingThreadActivity<g_provider> inner;
      inner.SetRelatedActivity(outer);
      TraceLoggingWriteStart(inner, "Inner");
      TraceLoggingWrite(g_provider, "OfThread", TraceLoggingLevel(3));
    }
    TraceLoggingWriteStop(outer, "Outer", TraceLoggingInt32(3, "n"));
    TraceLoggingWriteStop(outer, "TwiceToo");
  }
  struct {
    EVENT_TRACE_HEADER header;
    MOF_FIELD fields[2];
  } event = {};
  UINT32 number = 7;
  event.header.Size = sizeof event;
  event.header.Flags = WNODE_FLAG_TRACED_GUID | WNODE_FLAG_USE_MOF_PTR;
  event.header.Guid = eventClass;
  event.header.Class.Type = 10;
  event.header.Class.Level = 4;
  event.header.Class.Version = 2;
  event.fields[0] = {(ULONG64)&number, sizeof number, 0};
  event.fields[1] = {(ULONG64) "text", 5, 0};
  check("TraceEvent", TraceEvent(logger, &event.header));
  event.header.Class.Level = 5;
  check("TraceEvent", TraceEvent(logger, &event.header));
  event.header.Flags = WNODE_FLAG_TRACED_GUID | WNODE_FLAG_USE_GUID_PTR;
  event.header.GuidPtr = (ULONGLONG)&eventClass;
  event.header.Class.Level = 1;
  check("TraceEvent", TraceEvent(logger, &event.header));
  event.header.Flags = 0;
  printf("without flag: %u, wrong handle: %u\n", TraceEvent(logger, &event.header), TraceEvent(0, &event.header));
  check("UnregisterTraceGuids", UnregisterTraceGuids(registration));
  TraceLoggingUnregister(g_provider);
  check("StopTrace", StopTraceA(handle, nullptr, &session.properties));

  for (int level = OPENETW_RECORDS; level <= OPENETW_LAYOUTS; level++) {
    openetw_trace *trace = openetw_trace_new();
    if (openetw_trace_add_file(trace, argv[1]) != 0 ||
        openetw_trace_set_filter(trace, level == OPENETW_SCHEMAS ? "event == Middle" : "size >= 0") != 0 ||
        openetw_trace_read(trace, static_cast<openetw_level>(level), print, &level) != 0) {
      printf("level %d: %s\n", level, openetw_error());
    }
    openetw_counts counts = {};
    counts.size = sizeof counts;
    openetw_trace_counts(trace, &counts);
    printf("lost: %d, more than one: %d\n", (int)counts.events_lost, counts.delivered > 1);
    openetw_trace_free(trace);
  }
  openetw_trace *trace = openetw_trace_new();
  printf("%d", openetw_trace_add_file(trace, nullptr));
  printf(" %s", openetw_error());
  printf("\n%d", openetw_trace_set_filter(trace, "pid =="));
  printf(" %s", openetw_error());
  printf("\n%d", openetw_trace_read(trace, OPENETW_RECORDS, print, nullptr));
  printf(" %s\n", openetw_error());
  openetw_trace_free(trace);
  openetw_trace_free(nullptr);
  return 0;
}
