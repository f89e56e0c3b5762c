/* A real-time consumer gets the description of the session first, as a reader of a file does; raw times are those of
   QueryPerformanceCounter. */
#include <windows.h>
#include <evntcons.h>
#include <evntprov.h>
#include <evntrace.h>
#include "expect.h"

static const GUID Provider = {0x3970f9cf, 0x2c0c, 0x4f11, {0xb1, 0xcc, 0xe3, 0xa1, 0xe9, 0x95, 0x88, 0x96}};
static const GUID Header = {0x68fdd900, 0x4a3e, 0x11d1, {0x84, 0xf4, 0x00, 0x00, 0xf8, 0x04, 0x64, 0xe3}};

static TRACEHANDLE trace;
static ULONG events;
static LONGLONG before, frequency;

static LONGLONG Counter(void) {
  LARGE_INTEGER count;
  QueryPerformanceCounter(&count);
  return count.QuadPart;
}

static VOID WINAPI OnEvent(PEVENT_RECORD event) {
  const EVENT_HEADER *header = &event->EventHeader;
  switch (events++) {
  case 0:
    EXPECT(memcmp(&header->ProviderId, &Header, sizeof Header), 0);
    EXPECT(header->EventDescriptor.Opcode, EVENT_TRACE_TYPE_INFO);
    EXPECT(event->UserDataLength > sizeof(TRACE_LOGFILE_HEADER), TRUE);
    EXPECT(((const TRACE_LOGFILE_HEADER *)event->UserData)->PerfFreq.QuadPart, frequency);
    break;
  case 1:
    EXPECT(memcmp(&header->ProviderId, &Header, sizeof Header), 0);
    EXPECT(header->EventDescriptor.Opcode, 80);
    break;
  default:
    EXPECT(memcmp(&header->ProviderId, &Provider, sizeof Provider), 0);
    EXPECT(header->TimeStamp.QuadPart >= before && header->TimeStamp.QuadPart <= Counter(), TRUE);
    if (events == 12) {
      EXPECT(CloseTrace(trace), ERROR_CTX_CLOSE_PENDING);
    }
  }
}

int main(void) {
  struct {
    EVENT_TRACE_PROPERTIES properties;
    char name[64];
  } session;
  EVENT_TRACE_LOGFILEA log;
  EVENT_DESCRIPTOR descriptor;
  LARGE_INTEGER rate;
  TRACEHANDLE handle = 0;
  REGHANDLE registration = 0;
  QueryPerformanceFrequency(&rate);
  frequency = rate.QuadPart;
  memset(&session, 0, sizeof session);
  session.properties.Wnode.BufferSize = sizeof session;
  session.properties.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
  session.properties.LogFileMode = EVENT_TRACE_REAL_TIME_MODE;
  session.properties.LoggerNameOffset = (ULONG)((char *)session.name - (char *)&session);
  EXPECT(EventRegister(&Provider, NULL, NULL, &registration), ERROR_SUCCESS);
  EXPECT(StartTraceA(&handle, "LiveHeader", &session.properties), ERROR_SUCCESS);
  EXPECT(EnableTraceEx2(handle, &Provider, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 0, 0, 0, 1000, NULL), ERROR_SUCCESS);
  memset(&log, 0, sizeof log);
  log.LoggerName = (char *)"LiveHeader";
  log.ProcessTraceMode =
      PROCESS_TRACE_MODE_REAL_TIME | PROCESS_TRACE_MODE_EVENT_RECORD | PROCESS_TRACE_MODE_RAW_TIMESTAMP;
  log.EventRecordCallback = OnEvent;
  trace = OpenTraceA(&log);
  EXPECT(trace == INVALID_PROCESSTRACE_HANDLE, FALSE);
  EXPECT(log.LogfileHeader.PerfFreq.QuadPart, frequency);
  before = Counter();
  EventDescCreate(&descriptor, 5, 0, 0, TRACE_LEVEL_WARNING, 0, 0, 0);
  for (int index = 0; index < 10; index++) {
    EXPECT(EventWrite(registration, &descriptor, 0, NULL), ERROR_SUCCESS);
  }
  EXPECT(ProcessTrace(&trace, 1, NULL, NULL), ERROR_SUCCESS);
  EXPECT(events, 12);
  EXPECT(ControlTraceA(handle, NULL, &session.properties, EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
  EXPECT(EventUnregister(registration), ERROR_SUCCESS);
  printf("live header: %d failures\n", failures);
  return failures != 0;
}
