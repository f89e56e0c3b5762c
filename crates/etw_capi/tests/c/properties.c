/* What a query says of a session: each member of EVENT_TRACE_PROPERTIES(_V2), as docs/c.md lists them. */
#include <windows.h>
#include <evntprov.h>
#include <evntrace.h>
#include "expect.h"

static const GUID Own = {0x3970f9cf, 0x2c0c, 0x4f11, {0xb1, 0xcc, 0xe3, 0xa1, 0xe9, 0x95, 0x88, 0x94}};
static const GUID Provider = {0x3970f9cf, 0x2c0c, 0x4f11, {0xb1, 0xcc, 0xe3, 0xa1, 0xe9, 0x95, 0x88, 0x95}};

struct Session {
  EVENT_TRACE_PROPERTIES_V2 properties;
  char name[64];
  char file[512];
};

static void Prepare(struct Session *session) {
  memset(session, 0, sizeof *session);
  session->properties.Wnode.BufferSize = sizeof *session;
  session->properties.Wnode.Flags = WNODE_FLAG_TRACED_GUID | WNODE_FLAG_VERSIONED_PROPERTIES;
  session->properties.VersionNumber = 2;
  session->properties.LoggerNameOffset = (ULONG)((char *)session->name - (char *)session);
  session->properties.LogFileNameOffset = (ULONG)((char *)session->file - (char *)session);
}

static struct Session Query(TRACEHANDLE handle) {
  struct Session session;
  Prepare(&session);
  EXPECT(ControlTraceA(handle, NULL, (PEVENT_TRACE_PROPERTIES)&session.properties, EVENT_TRACE_CONTROL_QUERY),
         ERROR_SUCCESS);
  return session;
}

int main(int argc, char **argv) {
  struct Session session;
  EVENT_DESCRIPTOR descriptor;
  EVENT_DATA_DESCRIPTOR data;
  TRACEHANDLE handle = 0;
  REGHANDLE registration = 0;
  static char large[20000];
  if (argc != 2) {
    return 2;
  }
  EXPECT(EventRegister(&Provider, NULL, NULL, &registration), ERROR_SUCCESS);
  EventDescCreate(&descriptor, 5, 0, 0, TRACE_LEVEL_WARNING, 0, 0, 0);
  Prepare(&session);
  session.properties.Wnode.Guid = Own;
  session.properties.Wnode.ClientContext = 2;
  session.properties.BufferSize = 16;
  session.properties.MinimumBuffers = 6;
  session.properties.MaximumBuffers = 40;
  session.properties.MaximumFileSize = 5;
  session.properties.LogFileMode = EVENT_TRACE_FILE_MODE_CIRCULAR | EVENT_TRACE_REAL_TIME_MODE;
  session.properties.FlushTimer = 3;
  strncpy(session.file, argv[1], sizeof session.file - 1);
  EXPECT(StartTraceA(&handle, "Members", (PEVENT_TRACE_PROPERTIES)&session.properties), ERROR_SUCCESS);

  session = Query(handle);
  const EVENT_TRACE_PROPERTIES_V2 *members = &session.properties;
  EXPECT(members->Wnode.BufferSize, sizeof session);
  EXPECT(members->Wnode.HistoricalContext, handle);
  EXPECT(memcmp(&members->Wnode.Guid, &Own, sizeof Own), 0);
  EXPECT(members->Wnode.ClientContext, 2);
  EXPECT(members->BufferSize, 16);
  EXPECT(members->MinimumBuffers, 6);
  EXPECT(members->MaximumBuffers, 40);
  EXPECT(members->MaximumFileSize, 5);
  EXPECT(members->LogFileMode, EVENT_TRACE_FILE_MODE_CIRCULAR | EVENT_TRACE_REAL_TIME_MODE);
  EXPECT(members->FlushTimer, 3);
  EXPECT(members->EnableFlags, 0);
  EXPECT(members->NumberOfBuffers >= 6 && members->NumberOfBuffers <= 40, TRUE);
  EXPECT(members->FreeBuffers <= members->NumberOfBuffers, TRUE);
  EXPECT(members->FreeBuffers > 0, TRUE);
  EXPECT(members->EventsLost, 0);
  EXPECT(members->LogBuffersLost, 0);
  EXPECT(members->RealTimeBuffersLost, 0);
  EXPECT(members->LoggerThreadId != NULL, TRUE);
  EXPECT(members->Wow, 0);
  EXPECT_TEXT(session.name, "Members");
  EXPECT_TEXT(session.file, argv[1]);
  ULONG written = members->BuffersWritten;

  /* An event that does not fit in a buffer is lost, and a flush writes buffers. */
  EXPECT(EnableTraceEx2(handle, &Provider, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 0, 0, 0, 1000, NULL), ERROR_SUCCESS);
  for (int index = 0; index < 100; index++) {
    EXPECT(EventWrite(registration, &descriptor, 0, NULL), ERROR_SUCCESS);
  }
  EventDataDescCreate(&data, large, sizeof large);
  EXPECT(EventWrite(registration, &descriptor, 1, &data) != ERROR_SUCCESS, TRUE);
  session = Query(handle);
  EXPECT(members->NumberOfBuffers >= 6 && members->NumberOfBuffers <= 40, TRUE);
  EXPECT(members->FreeBuffers <= members->NumberOfBuffers, TRUE);
  Prepare(&session);
  EXPECT(ControlTraceA(handle, NULL, (PEVENT_TRACE_PROPERTIES)&session.properties, EVENT_TRACE_CONTROL_FLUSH),
         ERROR_SUCCESS);
  EXPECT(members->EventsLost, 1);
  EXPECT(members->BuffersWritten > written, TRUE);

  /* What was changed is what a query tells. */
  Prepare(&session);
  session.properties.MaximumBuffers = 50;
  session.properties.FlushTimer = 7;
  EXPECT(ControlTraceA(handle, NULL, (PEVENT_TRACE_PROPERTIES)&session.properties, EVENT_TRACE_CONTROL_UPDATE),
         ERROR_SUCCESS);
  session = Query(handle);
  EXPECT(members->MaximumBuffers, 50);
  EXPECT(members->FlushTimer, 7);

  /* Without room for the second version, its members are no part of the structure. */
  EVENT_TRACE_PROPERTIES first;
  memset(&first, 0, sizeof first);
  first.Wnode.BufferSize = sizeof first;
  EXPECT(ControlTraceA(handle, NULL, &first, EVENT_TRACE_CONTROL_QUERY), ERROR_SUCCESS);
  EXPECT(first.NumberOfBuffers >= 6, TRUE);

  Prepare(&session);
  EXPECT(ControlTraceA(handle, NULL, (PEVENT_TRACE_PROPERTIES)&session.properties, EVENT_TRACE_CONTROL_STOP),
         ERROR_SUCCESS);
  EXPECT(members->EventsLost, 1);
  EXPECT(EventUnregister(registration), ERROR_SUCCESS);
  printf("properties: %d failures\n", failures);
  return failures != 0;
}
