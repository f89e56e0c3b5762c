/* Payload filters: which events of a provider a session gets. Also what EnableTraceEx2 tells the provider. */
#include <evntcons.h>
#include <evntprov.h>
#include <evntrace.h>
#include <tchar.h>
#include <tdh.h>
#include "expect.h"

/* {5C0B0F2E-6D5C-4B71-9C5B-2B6E7B0D9A51} */
static const GUID Provider = {0x5c0b0f2e, 0x6d5c, 0x4b71, {0x9c, 0x5b, 0x2b, 0x6e, 0x7b, 0x0d, 0x9a, 0x51}};
static const GUID Source = {7, 8, 9, {1, 2, 3, 4, 5, 6, 7, 8}};

static const char Manifest[] =
    "<instrumentationManifest xmlns=\"http://schemas.microsoft.com/win/2004/08/events\">"
    "<instrumentation xmlns:win=\"http://manifests.microsoft.com/win/2004/08/windows/events\"><events>"
    "<provider name=\"OpenETW-Test-Payload\" symbol=\"P\" guid=\"{5c0b0f2e-6d5c-4b71-9c5b-2b6e7b0d9a51}\""
    " resourceFileName=\"none\" messageFileName=\"none\"><templates><template tid=\"T\">"
    "<data name=\"Size\" inType=\"win:UInt32\"/><data name=\"Name\" inType=\"win:UnicodeString\"/>"
    "<data name=\"Id\" inType=\"win:GUID\"/><data name=\"Data\" inType=\"win:Binary\" length=\"Size\"/>"
    "</template></templates><events>"
    "<event value=\"1\" symbol=\"E1\" template=\"T\"/><event value=\"2\" symbol=\"E2\" template=\"T\"/>"
    "</events></provider></events></instrumentation></instrumentationManifest>";

static GUID g_source;
static char g_found[256];

static VOID NTAPI Enabled(LPCGUID source, ULONG code, UCHAR level, ULONGLONG any, ULONGLONG all,
                          PEVENT_FILTER_DESCRIPTOR filter, PVOID context) {
  (void)level, (void)any, (void)all, (void)filter, (void)context;
  if (code == EVENT_CONTROL_CODE_ENABLE_PROVIDER) {
    g_source = *source;
  }
}

static VOID WINAPI OnEvent(PEVENT_RECORD record) {
  if (memcmp(&record->EventHeader.ProviderId, &Provider, sizeof Provider) == 0) {
    char text[32];
    snprintf(text, sizeof text, "%u:%u ", record->EventHeader.EventDescriptor.Id, *(const ULONG *)record->UserData);
    strncat(g_found, text, sizeof g_found - strlen(g_found) - 1);
  }
}

static unsigned g_of_class;
static VOID WINAPI OnClass(PEVENT_TRACE event) { g_of_class += event->MofLength != 0; }

static void Write(REGHANDLE provider, USHORT id, ULONG size, const WCHAR *name) {
  EVENT_DESCRIPTOR descriptor = {id, 0, 0, 4, 0, 0, 0};
  EVENT_DATA_DESCRIPTOR data[3];
  GUID guid = Source;
  guid.Data1 = size;
  EventDataDescCreate(&data[0], &size, sizeof size);
  OpenEtwDataDescCreateWide(&data[1], name, (ULONG)lstrlen(name) + 1);
  EventDataDescCreate(&data[2], &guid, sizeof guid);
  EXPECT(EventWrite(provider, &descriptor, 3, data), ERROR_SUCCESS);
}

/* Records the events of a session with this filter to a file, and returns which they are. */
static const char *Record(const char *path, PEVENT_FILTER_DESCRIPTOR filter) {
  struct {
    EVENT_TRACE_PROPERTIES properties;
    WCHAR name[32];
    WCHAR file[512];
  } session;
  TRACEHANDLE handle = 0;
  REGHANDLE provider = 0;
  ENABLE_TRACE_PARAMETERS parameters;
  EVENT_TRACE_LOGFILE logfile;
  TRACEHANDLE trace;
  WCHAR session_name[] = TEXT("OpenEtwPayload");
  memset(&session, 0, sizeof session);
  memset(&parameters, 0, sizeof parameters);
  memset(&logfile, 0, sizeof logfile);
  session.properties.Wnode.BufferSize = sizeof session;
  session.properties.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
  session.properties.LogFileMode = EVENT_TRACE_FILE_MODE_SEQUENTIAL;
  session.properties.LoggerNameOffset = (ULONG)((char *)session.name - (char *)&session);
  session.properties.LogFileNameOffset = (ULONG)((char *)session.file - (char *)&session);
  EXPECT(MultiByteToWideChar(CP_UTF8, 0, path, -1, session.file, 512) != 0, TRUE);
  parameters.Version = ENABLE_TRACE_PARAMETERS_VERSION_2;
  parameters.SourceId = Source;
  parameters.EnableFilterDesc = filter;
  parameters.FilterDescCount = filter != NULL;
  memset(&g_source, 0, sizeof g_source);
  EXPECT(EventRegister(&Provider, Enabled, NULL, &provider), ERROR_SUCCESS);
  EXPECT(StartTrace(&handle, session_name, &session.properties), ERROR_SUCCESS);
  EXPECT(EnableTraceEx2(handle, &Provider, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 5, 0, 0, 0, &parameters), ERROR_SUCCESS);
  EXPECT(memcmp(&g_source, &Source, sizeof Source), 0);
  Write(provider, 1, 10, TEXT("ten"));
  Write(provider, 1, 20, TEXT("TWENTY"));
  Write(provider, 1, 30, TEXT("thirty"));
  Write(provider, 2, 10, TEXT("ten"));
  Write(provider, 2, 40, TEXT("forty"));
  EXPECT(StopTrace(handle, NULL, &session.properties), ERROR_SUCCESS);
  EXPECT(EventUnregister(provider), ERROR_SUCCESS);
  logfile.LogFileName = session.file;
  logfile.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
  logfile.EventRecordCallback = OnEvent;
  g_found[0] = 0;
  trace = OpenTrace(&logfile);
  EXPECT(trace != INVALID_PROCESSTRACE_HANDLE, TRUE);
  EXPECT(ProcessTrace(&trace, 1, NULL, NULL), ERROR_SUCCESS);
  EXPECT(CloseTrace(trace), ERROR_SUCCESS);
  return g_found;
}

static WCHAR Size[] = TEXT("Size"), Name[] = TEXT("Name"), Id[] = TEXT("Id"), Data[] = TEXT("Data"), None[] = TEXT("None");
static WCHAR Ten[] = TEXT("10"), Fifteen[] = TEXT("15"), Range[] = TEXT("5,15"), Part[] = TEXT("went"), Word[] = TEXT("THIRTY");
static WCHAR Guid[] = TEXT("{0000001E-0008-0009-0102-030405060708}");

static PVOID Create(USHORT id, BOOLEAN any, ULONG count, WCHAR *field, USHORT operation, WCHAR *value, WCHAR *field2,
                    USHORT operation2, WCHAR *value2) {
  EVENT_DESCRIPTOR descriptor = {id, 0, 0, 4, 0, 0, 0};
  PAYLOAD_FILTER_PREDICATE predicates[2] = {{field, operation, value}, {field2, operation2, value2}};
  PVOID filter = NULL;
  EXPECT(TdhCreatePayloadFilter(&Provider, &descriptor, any, count, predicates, &filter), ERROR_SUCCESS);
  return filter;
}

/* Records with filters that are aggregated, and frees all. */
static void Expect(int line, const char *path, ULONG count, PVOID *filters, BOOLEAN *flags, const char *expected) {
  EVENT_FILTER_DESCRIPTOR descriptor = {0, 0, 0};
  EXPECT(TdhAggregatePayloadFilters(count, filters, flags, &descriptor), ERROR_SUCCESS);
  EXPECT(descriptor.Type, EVENT_FILTER_TYPE_PAYLOAD);
  expect_text(line, "events", Record(path, &descriptor), expected);
  EXPECT(TdhCleanupPayloadEventFilterDescriptor(&descriptor), ERROR_SUCCESS);
  EXPECT(descriptor.Ptr, 0);
  EXPECT(TdhCleanupPayloadEventFilterDescriptor(&descriptor), ERROR_INVALID_PARAMETER);
  for (ULONG index = 0; index < count; index++) {
    EXPECT(TdhDeletePayloadFilter(&filters[index]), ERROR_SUCCESS);
    EXPECT(filters[index] == NULL, TRUE);
    EXPECT(TdhDeletePayloadFilter(&filters[index]), ERROR_INVALID_PARAMETER);
  }
}

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "";
  EVENT_DESCRIPTOR descriptor = {1, 0, 0, 4, 0, 0, 0};
  PAYLOAD_FILTER_PREDICATE predicate = {Size, PAYLOADFIELD_EQ, Ten};
  EVENT_FILTER_DESCRIPTOR wrong = {(ULONGLONG)(ULONG_PTR)Manifest, 64, EVENT_FILTER_TYPE_PAYLOAD};
  PVOID filters[2] = {NULL, NULL};
  BOOLEAN all[2] = {TRUE, TRUE};
  GUID unknown = Source;

  EXPECT(TdhCreatePayloadFilter(&Provider, &descriptor, FALSE, 1, &predicate, &filters[0]), ERROR_FILE_NOT_FOUND);
  EXPECT(TdhLoadManifestFromMemory(Manifest, sizeof Manifest - 1), ERROR_SUCCESS);
  EXPECT(TdhCreatePayloadFilter(&Provider, NULL, FALSE, 1, &predicate, &filters[0]), ERROR_INVALID_PARAMETER);
  EXPECT(TdhCreatePayloadFilter(&Provider, &descriptor, FALSE, 0, &predicate, &filters[0]), ERROR_INVALID_PARAMETER);
  EXPECT(TdhCreatePayloadFilter(&Provider, &descriptor, FALSE, 9, &predicate, &filters[0]), ERROR_INVALID_PARAMETER);
  EXPECT(TdhCreatePayloadFilter(&Provider, &descriptor, FALSE, 1, &predicate, NULL), ERROR_INVALID_PARAMETER);
  descriptor.Id = 9;
  EXPECT(TdhCreatePayloadFilter(&Provider, &descriptor, FALSE, 1, &predicate, &filters[0]), ERROR_NOT_FOUND);
  descriptor.Id = 1;
  predicate.FieldName = None;
  EXPECT(TdhCreatePayloadFilter(&Provider, &descriptor, FALSE, 1, &predicate, &filters[0]), ERROR_INVALID_PARAMETER);
  predicate.FieldName = Data;
  EXPECT(TdhCreatePayloadFilter(&Provider, &descriptor, FALSE, 1, &predicate, &filters[0]), ERROR_INVALID_PARAMETER);
  predicate.FieldName = Name;
  EXPECT(TdhCreatePayloadFilter(&Provider, &descriptor, FALSE, 1, &predicate, &filters[0]), ERROR_SUCCESS);
  EXPECT(TdhDeletePayloadFilter(&filters[0]), ERROR_SUCCESS);
  predicate.CompareOp = PAYLOADFIELD_GT;
  EXPECT(TdhCreatePayloadFilter(&Provider, &descriptor, FALSE, 1, &predicate, &filters[0]), ERROR_INVALID_PARAMETER);
  predicate.CompareOp = PAYLOADFIELD_INVALID;
  EXPECT(TdhCreatePayloadFilter(&Provider, &descriptor, FALSE, 1, &predicate, &filters[0]), ERROR_INVALID_PARAMETER);
  EXPECT(TdhAggregatePayloadFilters(1, filters, NULL, &wrong), ERROR_INVALID_PARAMETER);
  EXPECT(TdhAggregatePayloadFilters(0, filters, NULL, &wrong), ERROR_INVALID_PARAMETER);
  EXPECT(TdhDeletePayloadFilter(NULL), ERROR_INVALID_PARAMETER);
  EXPECT(EnableTraceEx2(0, &Provider, 1, 5, 0, 0, 0, NULL), ERROR_WMI_INSTANCE_NOT_FOUND);

  EXPECT_TEXT(Record(path, NULL), "1:10 1:20 1:30 2:10 2:40 ");
  filters[0] = Create(1, FALSE, 1, Size, PAYLOADFIELD_GT, Fifteen, NULL, 0, NULL);
  Expect(__LINE__, path, 1, filters, NULL, "1:20 1:30 2:10 2:40 ");
  filters[0] = Create(1, FALSE, 2, Size, PAYLOADFIELD_GT, Fifteen, Name, PAYLOADFIELD_CONTAINS, Part);
  Expect(__LINE__, path, 1, filters, NULL, "1:20 2:10 2:40 ");
  filters[0] = Create(1, TRUE, 2, Size, PAYLOADFIELD_BETWEEN, Range, Name, PAYLOADFIELD_IS, Word);
  Expect(__LINE__, path, 1, filters, NULL, "1:10 1:30 2:10 2:40 ");
  filters[0] = Create(1, FALSE, 1, Id, PAYLOADFIELD_IS, Guid, NULL, 0, NULL);
  filters[1] = Create(2, FALSE, 1, Id, PAYLOADFIELD_ISNOT, Guid, NULL, 0, NULL);
  Expect(__LINE__, path, 2, filters, NULL, "1:30 2:10 2:40 ");
  /* Two filters of one event: either, or both. */
  filters[0] = Create(1, FALSE, 1, Size, PAYLOADFIELD_EQ, Ten, NULL, 0, NULL);
  filters[1] = Create(1, FALSE, 1, Name, PAYLOADFIELD_CONTAINS, Part, NULL, 0, NULL);
  Expect(__LINE__, path, 2, filters, NULL, "1:10 1:20 2:10 2:40 ");
  filters[0] = Create(1, FALSE, 1, Size, PAYLOADFIELD_GT, Ten, NULL, 0, NULL);
  filters[1] = Create(1, FALSE, 1, Name, PAYLOADFIELD_CONTAINS, Part, NULL, 0, NULL);
  Expect(__LINE__, path, 2, filters, all, "1:20 2:10 2:40 ");

  /* Functions for classes. */
  EXPECT(SetTraceCallback(NULL, OnClass), ERROR_INVALID_PARAMETER);
  EXPECT(SetTraceCallback(&Provider, NULL), ERROR_INVALID_PARAMETER);
  EXPECT(SetTraceCallback(&Provider, OnClass), ERROR_SUCCESS);
  EXPECT_TEXT(Record(path, NULL), "1:10 1:20 1:30 2:10 2:40 ");
  EXPECT(g_of_class, 5);
  EXPECT(RemoveTraceCallback(&Provider), ERROR_SUCCESS);
  EXPECT(RemoveTraceCallback(&Provider), ERROR_WMI_GUID_NOT_FOUND);

  /* Rights are in the access list of the host. */
  BYTE sid[12] = {1, 1, 0, 0, 0, 0, 0, 5, 18};
  ULONG size = 0;
  EXPECT(EventAccessControl(NULL, EventSecurityAddDACL, sid, TRACELOG_GUID_ENABLE, TRUE), ERROR_INVALID_PARAMETER);
  EXPECT(EventAccessControl(&unknown, EventSecurityMax, sid, TRACELOG_GUID_ENABLE, TRUE), ERROR_INVALID_PARAMETER);
  EXPECT(EventAccessControl(&unknown, EventSecurityAddDACL, NULL, TRACELOG_GUID_ENABLE, TRUE), ERROR_INVALID_PARAMETER);
  /* The system has all rights, everyone that of registering; others, and a list of one's own, are not to be had. */
  EXPECT(EventAccessControl(&unknown, EventSecurityAddDACL, sid, TRACELOG_GUID_ENABLE, TRUE), ERROR_SUCCESS);
  EXPECT(EventAccessControl(&unknown, EventSecurityAddDACL, sid, TRACELOG_GUID_ENABLE, FALSE), ERROR_ACCESS_DENIED);
  EXPECT(EventAccessControl(&unknown, EventSecuritySetDACL, sid, TRACELOG_GUID_ENABLE, TRUE), ERROR_NOT_SUPPORTED);
  EXPECT(EventAccessControl(&unknown, EventSecurityAddSACL, sid, TRACELOG_GUID_ENABLE, TRUE), ERROR_NOT_SUPPORTED);
  BYTE world[12] = {1, 1, 0, 0, 0, 0, 0, 1, 0};
  EXPECT(EventAccessControl(&unknown, EventSecurityAddDACL, world, TRACELOG_REGISTER_GUIDS, TRUE), ERROR_SUCCESS);
  EXPECT(EventAccessControl(&unknown, EventSecurityAddDACL, world, TRACELOG_GUID_ENABLE, TRUE), ERROR_ACCESS_DENIED);
  EXPECT(EventAccessQuery(&unknown, NULL, NULL), ERROR_INVALID_PARAMETER);
  EXPECT(EventAccessQuery(&unknown, NULL, &size), ERROR_MORE_DATA);
  BYTE security[512];
  EXPECT(size > 20 && size <= sizeof security, 1);
  EXPECT(EventAccessQuery(&unknown, security, &size), ERROR_SUCCESS);
  /* A list relative to itself, whose first entry is everyone's. */
  ULONG list;
  memcpy(&list, security + 16, sizeof list);
  EXPECT(security[3], 0x80);
  EXPECT(list + security[list + 2], size);
  EXPECT(memcmp(security + list + 16, world, sizeof world), 0);
  EXPECT(EventAccessRemove(&unknown), ERROR_SUCCESS);
  EXPECT(EventAccessRemove(NULL), ERROR_INVALID_PARAMETER);
  return failures != 0;
}
