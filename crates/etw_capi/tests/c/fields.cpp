// Fields of TraceLogging whose types the compiler chooses, and the functions of activities.
#include <TraceLoggingActivity.h>
#include <evntrace.h>
#include <openetw.h>
#include <string>
#include "expect.h"

TRACELOGGING_DEFINE_PROVIDER(g_provider, "OpenETW.Test.Fields",
                             (0x3970f9cf, 0x2c0c, 0x4f11, 0xb1, 0xcc, 0xe3, 0xa1, 0xe9, 0x95, 0x88, 0x65),
                             TraceLoggingOptionGroup(0x4f50f431, 0x9742, 0x4ccd, 0xac, 0xf2, 0x77, 0x34, 0x95, 0x1b,
                                                     0x78, 0xb2));

static void work(int number) {
  TraceLoggingFunction(g_provider, TraceLoggingLevel(4), TraceLoggingInt32(number, "number"));
  TraceLoggingWrite(g_provider, "Inside", TraceLoggingLevel(4));
}

static int print(const openetw_event *event, void *context) {
  openetw_header header = {};
  header.size = sizeof header;
  openetw_event_header(event, &header);
  if (memcmp(header.provider, &g_provider->guid, sizeof(GUID)) == 0) {
    GUID activity, *first = static_cast<GUID *>(context);
    memcpy(&activity, header.activity, sizeof activity);
    std::string json = openetw_event_json(event);
    std::string name = openetw_event_name(event);
    if (name == "work" && header.opcode == 1) {
      *first = activity;
    }
    printf("%s level=%u keyword=%llx opcode=%u of-function=%d\n", name.c_str(), header.level,
           (unsigned long long)header.keyword, header.opcode, activity == *first && activity != GUID());
    static const char *const names[] = {"number", "int8", "uint64", "float", "bool", "narrow", "wide", "sixteen",
                                        "char16", "guid", "text", "ansi", "unicode", "time", "binary",
                                        "units", "error", "custom", "tagged", "tail", "sid"};
    if (name == "Counted") {
      const uint8_t *found = nullptr;
      size_t size = 0;
      EXPECT(openetw_event_bytes(event, "binary", &found, &size), 0);
      EXPECT(size == 3 && found[2] == 3, true);
      EXPECT(openetw_event_type(event, "units"), OPENETW_TEXT);
      EXPECT(openetw_event_type(event, "numbers"), OPENETW_ARRAY);
      EXPECT(openetw_event_count(event, "numbers"), 3);
      int64_t second = 0;
      EXPECT(openetw_event_int64(event, "numbers[1]", &second), 0);
      EXPECT(second, 20);
      EXPECT(openetw_event_text(event, "numbers[3]") == nullptr, true);
      EXPECT(openetw_event_type(event, "place"), OPENETW_STRUCT);
      EXPECT(openetw_event_count(event, "place"), 2);
      EXPECT_TEXT(openetw_event_member(event, "place", 1), "column");
      EXPECT_TEXT(openetw_event_text(event, "place.column"), "8");
      EXPECT_TEXT(openetw_event_member(event, nullptr, 0), "ansi");
      EXPECT(openetw_event_member(event, nullptr, 100) == nullptr, true);
      int64_t number = 0;
      EXPECT(openetw_event_type(event, "time"), OPENETW_TIME);
      EXPECT(openetw_event_int64(event, "time", &number), 0);
      EXPECT(number > 0, true);
      EXPECT(openetw_event_bytes(event, "tail", &found, &size), -1);
      EXPECT(openetw_event_count(event, "tail"), -1);
      EXPECT(openetw_event_type(event, "nothing"), OPENETW_NOTHING);
    }
    if (name == "Chosen") {
      const uint8_t *found = nullptr;
      size_t size = 0;
      EXPECT(openetw_event_bytes(event, "guid", &found, &size), 0);
      EXPECT(size == sizeof(GUID) && memcmp(found, &g_provider->guid, size) == 0, true);
      EXPECT(openetw_event_bytes(event, "sid", &found, &size), 0);
      EXPECT(size, sizeof(SID));
    }
    for (const char *field : names) {
      if (const char *text = openetw_event_text(event, field)) {
        printf("  %s=%s\n", field, text);
      }
    }
  }
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
  TRACEHANDLE handle = 0;
  EXPECT(StartTraceA(&handle, "OpenEtwFields", &session.properties), ERROR_SUCCESS);
  EXPECT(TraceLoggingRegister(g_provider), S_OK);
  EXPECT(EnableTraceEx2(handle, &g_provider->guid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 5, 0, 0, 0, nullptr),
         ERROR_SUCCESS);
  // The provider belongs to this process: what follows is recorded without a wait.
  EXPECT(TraceLoggingProviderEnabled(g_provider, 5, 0), true);

  const std::string text = "from std::string";
  char narrow[] = "narrow", ansi[] = "ansi?";
  WCHAR unicode[] = {'u', 'n', 'i', '?', 0};
  ANSI_STRING counted = {4, 5, ansi};
  UNICODE_STRING wide = {static_cast<USHORT>(3 * sizeof(WCHAR)), static_cast<USHORT>(sizeof unicode), unicode};
  FILETIME time = {0xD53E8000, 0x019DB1DE};
  SID user = {1, 1, {{0, 0, 0, 0, 0, 5}}, {18}};
  BYTE bytes[] = {1, 2, 3};
  const WCHAR units[] = {'x', 'y'};
  const UINT16 numbers[] = {10, 20, 30};
  TraceLoggingWrite(g_provider, "Chosen", TraceLoggingLevel(WINEVENT_LEVEL_INFO), TraceLoggingKeyword(0x8),
                    TraceLoggingValue(static_cast<signed char>(-1), "int8"), TraceLoggingValue(UINT64(1) << 40, "uint64"),
                    TraceLoggingValue(0.5f, "float"), TraceLoggingValue(true, "bool"),
                    TraceLoggingValue(narrow, "narrow"), TraceLoggingValue(L"wide", "wide"),
                    TraceLoggingValue(u"sixteen", "sixteen"), TraceLoggingValue(u'c', "char16"),
                    TraceLoggingValue(g_provider->guid, "guid"),
                    TraceLoggingString(text.c_str(), "text"), TraceLoggingValue(&user, "sid"));
  TraceLoggingWrite(g_provider, "Counted", TraceLoggingLevel(3), TraceLoggingAnsiString(&counted, "ansi"),
                    TraceLoggingUnicodeString(&wide, "unicode"), TraceLoggingFileTime(time, "time"),
                    TraceLoggingBinary(bytes, sizeof bytes, "binary"),
                    TraceLoggingWCharFixedArray(units, 2, "units"), TraceLoggingHResult(E_ACCESSDENIED, "error"),
                    TraceLoggingCustom(bytes, sizeof bytes, 5, (0x10, 0x20), 2, "custom"),
                    TraceLoggingCustom(bytes, 2, 31, (1), 1, "tagged", "with a tag", 0x123),
                    TraceLoggingUInt8(9, "tail"), TraceLoggingUInt16FixedArray(numbers, 3, "numbers"),
                    TraceLoggingStruct(2, "place"), TraceLoggingUInt8(7, "line"), TraceLoggingUInt8(8, "column"));
  work(5);
  {
    TraceLoggingActivity<g_provider> activity;
    TraceLoggingWriteTaggedIfStarted(activity, "NotStarted");
    TraceLoggingWriteStart(activity, "Start");
    TraceLoggingThreadActivityIdSetter setter(activity);
    TraceLoggingWriteTaggedIfStarted(activity, "Started", TraceLoggingLevel(4));
    TraceLoggingWriteStop(activity, "Start");
  }
  // As programs do that build descriptions themselves: the name, and a field of 4 bytes.
  const EVENT_DESCRIPTOR descriptor = {0, 0, 11, 4, 0, 0, 0};
  const struct __attribute__((packed)) {
    UINT16 size;
    char tagsAndNames[sizeof "\0ByHand\0number"];
    UINT8 type;
  } description = {sizeof description, "\0ByHand\0number", TlgInUINT32};
  const UINT32 value = 7;
  EVENT_DATA_DESCRIPTOR data[3];
  EventDataDescCreate(&data[0], g_provider->ProviderMetadataPtr, *g_provider->ProviderMetadataPtr);
  data[0].Type = EVENT_DATA_DESCRIPTOR_TYPE_PROVIDER_METADATA;
  EventDataDescCreate(&data[1], &description, sizeof description);
  data[1].Type = EVENT_DATA_DESCRIPTOR_TYPE_EVENT_METADATA;
  EventDataDescCreate(&data[2], &value, sizeof value);
  EXPECT(EventWriteTransfer(g_provider->RegHandle, &descriptor, nullptr, nullptr, 3, data), ERROR_SUCCESS);
  TraceLoggingUnregister(g_provider);
  EXPECT(StopTraceA(handle, nullptr, &session.properties), ERROR_SUCCESS);

  openetw_trace *trace = openetw_trace_new();
  GUID first = {};
  EXPECT(openetw_trace_add_file(trace, argv[1]), 0);
  EXPECT(openetw_trace_read(trace, OPENETW_LAYOUTS, print, &first), 0);
  openetw_trace_free(trace);
  return failures != 0;
}
