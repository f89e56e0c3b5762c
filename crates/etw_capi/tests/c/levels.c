/* The levels that callbacks of providers get: they compare levels themselves, as go-winio and TraceLogging for Rust do. */
#include <windows.h>
#include <evntprov.h>
#include <evntrace.h>
#include "expect.h"

static const GUID Modern = {0x3970f9cf, 0x2c0c, 0x4f11, {0xb1, 0xcc, 0xe3, 0xa1, 0xe9, 0x95, 0x88, 0x91}};
static const GUID Classic = {0x3970f9cf, 0x2c0c, 0x4f11, {0xb1, 0xcc, 0xe3, 0xa1, 0xe9, 0x95, 0x88, 0x92}};

static ULONG code, level, classic_level;
static ULONGLONG any;

static VOID NTAPI OnEnable(LPCGUID source, ULONG control, UCHAR wanted, ULONGLONG anyKeyword, ULONGLONG allKeyword,
                           PEVENT_FILTER_DESCRIPTOR filter, PVOID context) {
  (void)source, (void)allKeyword, (void)filter, (void)context;
  code = control;
  level = wanted;
  any = anyKeyword;
}

static ULONG WINAPI OnControl(WMIDPREQUESTCODE request, PVOID context, ULONG *reserved, PVOID buffer) {
  (void)context, (void)reserved;
  if (request == WMI_ENABLE_EVENTS) {
    classic_level = GetTraceEnableLevel(GetTraceLoggerHandle(buffer));
  }
  return ERROR_SUCCESS;
}

static TRACEHANDLE Start(const char *name) {
  struct {
    EVENT_TRACE_PROPERTIES properties;
    char name[64];
  } session;
  TRACEHANDLE handle = 0;
  memset(&session, 0, sizeof session);
  session.properties.Wnode.BufferSize = sizeof session;
  session.properties.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
  session.properties.LogFileMode = EVENT_TRACE_BUFFERING_MODE;
  session.properties.LoggerNameOffset = (ULONG)((char *)session.name - (char *)&session);
  EXPECT(StartTraceA(&handle, name, &session.properties), ERROR_SUCCESS);
  return handle;
}

static void Enable(TRACEHANDLE session, const GUID *provider, ULONG control, UCHAR wanted) {
  EXPECT(EnableTraceEx2(session, provider, control, wanted, 0, 0, 1000, NULL), ERROR_SUCCESS);
}

int main(void) {
  static TRACE_GUID_REGISTRATION classes[1] = {{&Classic, NULL}};
  REGHANDLE registration = 0;
  TRACEHANDLE classic = 0, one = Start("Levels1"), other = Start("Levels2");
  EXPECT(EventRegister(&Modern, OnEnable, NULL, &registration), ERROR_SUCCESS);
  EXPECT(RegisterTraceGuidsA(OnControl, NULL, &Classic, 1, classes, NULL, NULL, &classic), ERROR_SUCCESS);

  Enable(one, &Modern, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 4);
  EXPECT(code, EVENT_CONTROL_CODE_ENABLE_PROVIDER);
  EXPECT(level, 4);
  EXPECT(any, ~0ull);
  /* No level is all levels, which is the greatest one in the callback. */
  Enable(one, &Modern, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 0);
  EXPECT(level, 255);
  Enable(one, &Modern, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 255);
  EXPECT(level, 255);
  Enable(one, &Modern, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 3);
  EXPECT(level, 3);
  Enable(other, &Modern, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 0);
  EXPECT(level, 255);
  Enable(one, &Modern, EVENT_CONTROL_CODE_CAPTURE_STATE, 0);
  EXPECT(code, EVENT_CONTROL_CODE_CAPTURE_STATE);
  EXPECT(level, 255);
  Enable(one, &Modern, EVENT_CONTROL_CODE_CAPTURE_STATE, 5);
  EXPECT(level, 5);
  Enable(other, &Modern, EVENT_CONTROL_CODE_DISABLE_PROVIDER, 0);
  EXPECT(level, 3);
  Enable(one, &Modern, EVENT_CONTROL_CODE_DISABLE_PROVIDER, 0);
  EXPECT(code, EVENT_CONTROL_CODE_DISABLE_PROVIDER);
  EXPECT(level, 0);

  /* Classic providers get what the controller said (documentation of GetTraceEnableLevel). */
  Enable(one, &Classic, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 255);
  EXPECT(classic_level, 255);
  Enable(one, &Classic, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 2);
  EXPECT(classic_level, 2);
  Enable(one, &Classic, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 0);
  EXPECT(classic_level, 0);

  EXPECT(UnregisterTraceGuids(classic), ERROR_SUCCESS);
  EXPECT(EventUnregister(registration), ERROR_SUCCESS);
  struct {
    EVENT_TRACE_PROPERTIES properties;
    char name[64];
  } session;
  memset(&session, 0, sizeof session);
  session.properties.Wnode.BufferSize = sizeof session;
  session.properties.LoggerNameOffset = (ULONG)((char *)session.name - (char *)&session);
  EXPECT(ControlTraceA(one, NULL, &session.properties, EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
  EXPECT(ControlTraceA(other, NULL, &session.properties, EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
  printf("levels: %d failures\n", failures);
  return failures != 0;
}
