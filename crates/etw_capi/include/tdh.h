/* TDH: what the payloads of events mean. */
#ifndef OPENETW_TDH_H
#define OPENETW_TDH_H

#pragma GCC system_header

#include <windows.h>
#include <evntprov.h>
#include <evntcons.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TDHAPI

typedef ULONG TDHSTATUS;
typedef HANDLE TDH_HANDLE, *PTDH_HANDLE;

enum _TDH_IN_TYPE {
  TDH_INTYPE_NULL = 0,
  TDH_INTYPE_UNICODESTRING = 1,
  TDH_INTYPE_ANSISTRING = 2,
  TDH_INTYPE_INT8 = 3,
  TDH_INTYPE_UINT8 = 4,
  TDH_INTYPE_INT16 = 5,
  TDH_INTYPE_UINT16 = 6,
  TDH_INTYPE_INT32 = 7,
  TDH_INTYPE_UINT32 = 8,
  TDH_INTYPE_INT64 = 9,
  TDH_INTYPE_UINT64 = 10,
  TDH_INTYPE_FLOAT = 11,
  TDH_INTYPE_DOUBLE = 12,
  TDH_INTYPE_BOOLEAN = 13,
  TDH_INTYPE_BINARY = 14,
  TDH_INTYPE_GUID = 15,
  TDH_INTYPE_POINTER = 16,
  TDH_INTYPE_FILETIME = 17,
  TDH_INTYPE_SYSTEMTIME = 18,
  TDH_INTYPE_SID = 19,
  TDH_INTYPE_HEXINT32 = 20,
  TDH_INTYPE_HEXINT64 = 21,
  TDH_INTYPE_MANIFEST_COUNTEDSTRING = 22,
  TDH_INTYPE_MANIFEST_COUNTEDANSISTRING = 23,
  TDH_INTYPE_RESERVED24 = 24,
  TDH_INTYPE_MANIFEST_COUNTEDBINARY = 25,
  TDH_INTYPE_COUNTEDSTRING = 300,
  TDH_INTYPE_COUNTEDANSISTRING = 301,
  TDH_INTYPE_REVERSEDCOUNTEDSTRING = 302,
  TDH_INTYPE_REVERSEDCOUNTEDANSISTRING = 303,
  TDH_INTYPE_NONNULLTERMINATEDSTRING = 304,
  TDH_INTYPE_NONNULLTERMINATEDANSISTRING = 305,
  TDH_INTYPE_UNICODECHAR = 306,
  TDH_INTYPE_ANSICHAR = 307,
  TDH_INTYPE_SIZET = 308,
  TDH_INTYPE_HEXDUMP = 309,
  TDH_INTYPE_WBEMSID = 310
};

enum _TDH_OUT_TYPE {
  TDH_OUTTYPE_NULL = 0,
  TDH_OUTTYPE_STRING = 1,
  TDH_OUTTYPE_DATETIME = 2,
  TDH_OUTTYPE_BYTE = 3,
  TDH_OUTTYPE_UNSIGNEDBYTE = 4,
  TDH_OUTTYPE_SHORT = 5,
  TDH_OUTTYPE_UNSIGNEDSHORT = 6,
  TDH_OUTTYPE_INT = 7,
  TDH_OUTTYPE_UNSIGNEDINT = 8,
  TDH_OUTTYPE_LONG = 9,
  TDH_OUTTYPE_UNSIGNEDLONG = 10,
  TDH_OUTTYPE_FLOAT = 11,
  TDH_OUTTYPE_DOUBLE = 12,
  TDH_OUTTYPE_BOOLEAN = 13,
  TDH_OUTTYPE_GUID = 14,
  TDH_OUTTYPE_HEXBINARY = 15,
  TDH_OUTTYPE_HEXINT8 = 16,
  TDH_OUTTYPE_HEXINT16 = 17,
  TDH_OUTTYPE_HEXINT32 = 18,
  TDH_OUTTYPE_HEXINT64 = 19,
  TDH_OUTTYPE_PID = 20,
  TDH_OUTTYPE_TID = 21,
  TDH_OUTTYPE_PORT = 22,
  TDH_OUTTYPE_IPV4 = 23,
  TDH_OUTTYPE_IPV6 = 24,
  TDH_OUTTYPE_SOCKETADDRESS = 25,
  TDH_OUTTYPE_CIMDATETIME = 26,
  TDH_OUTTYPE_ETWTIME = 27,
  TDH_OUTTYPE_XML = 28,
  TDH_OUTTYPE_ERRORCODE = 29,
  TDH_OUTTYPE_WIN32ERROR = 30,
  TDH_OUTTYPE_NTSTATUS = 31,
  TDH_OUTTYPE_HRESULT = 32,
  TDH_OUTTYPE_CULTURE_INSENSITIVE_DATETIME = 33,
  TDH_OUTTYPE_JSON = 34,
  TDH_OUTTYPE_UTF8 = 35,
  TDH_OUTTYPE_PKCS7_WITH_TYPE_INFO = 36,
  TDH_OUTTYPE_CODE_POINTER = 37,
  TDH_OUTTYPE_DATETIME_UTC = 38,
  TDH_OUTTYPE_REDUCEDSTRING = 300,
  TDH_OUTTYPE_NOPRINT = 301
};

typedef enum _MAP_FLAGS {
  EVENTMAP_INFO_FLAG_MANIFEST_VALUEMAP = 0x1,
  EVENTMAP_INFO_FLAG_MANIFEST_BITMAP = 0x2,
  EVENTMAP_INFO_FLAG_MANIFEST_PATTERNMAP = 0x4,
  EVENTMAP_INFO_FLAG_WBEM_VALUEMAP = 0x8,
  EVENTMAP_INFO_FLAG_WBEM_BITMAP = 0x10,
  EVENTMAP_INFO_FLAG_WBEM_FLAG = 0x20,
  EVENTMAP_INFO_FLAG_WBEM_NO_MAP = 0x40
} MAP_FLAGS;

typedef enum _MAP_VALUETYPE {
  EVENTMAP_ENTRY_VALUETYPE_ULONG = 0,
  EVENTMAP_ENTRY_VALUETYPE_STRING = 1
} MAP_VALUETYPE;

typedef enum _PROPERTY_FLAGS {
  PropertyStruct = 0x1,
  PropertyParamLength = 0x2,
  PropertyParamCount = 0x4,
  PropertyWBEMXmlFragment = 0x8,
  PropertyParamFixedLength = 0x10,
  PropertyParamFixedCount = 0x20,
  PropertyHasTags = 0x40,
  PropertyHasCustomSchema = 0x80
} PROPERTY_FLAGS;

typedef enum _TEMPLATE_FLAGS {
  TEMPLATE_EVENT_DATA = 1,
  TEMPLATE_USER_DATA = 2,
  TEMPLATE_CONTROL_GUID = 4
} TEMPLATE_FLAGS;

typedef enum _DECODING_SOURCE {
  DecodingSourceXMLFile,
  DecodingSourceWbem,
  DecodingSourceWPP,
  DecodingSourceTlg,
  DecodingSourceMax
} DECODING_SOURCE;

typedef enum _TDH_CONTEXT_TYPE {
  TDH_CONTEXT_WPP_TMFFILE = 0,
  TDH_CONTEXT_WPP_TMFSEARCHPATH = 1,
  TDH_CONTEXT_WPP_GMT = 2,
  TDH_CONTEXT_POINTERSIZE = 3,
  TDH_CONTEXT_PDB_PATH = 4,
  TDH_CONTEXT_MAXIMUM = 5
} TDH_CONTEXT_TYPE;

typedef enum _EVENT_FIELD_TYPE {
  EventKeywordInformation = 0,
  EventLevelInformation,
  EventChannelInformation,
  EventTaskInformation,
  EventOpcodeInformation,
  EventInformationMax
} EVENT_FIELD_TYPE;

typedef struct _EVENT_MAP_ENTRY {
  ULONG OutputOffset;
  __extension__ union {
    ULONG Value;
    ULONG InputOffset;
  };
} EVENT_MAP_ENTRY, *PEVENT_MAP_ENTRY;

typedef struct _EVENT_MAP_INFO {
  ULONG NameOffset;
  MAP_FLAGS Flag;
  ULONG EntryCount;
  __extension__ union {
    MAP_VALUETYPE MapEntryValueType;
    ULONG FormatStringOffset;
  };
  EVENT_MAP_ENTRY MapEntryArray[ANYSIZE_ARRAY];
} EVENT_MAP_INFO, *PEVENT_MAP_INFO;

typedef struct _EVENT_PROPERTY_INFO {
  PROPERTY_FLAGS Flags;
  ULONG NameOffset;
  __extension__ union {
    struct {
      USHORT InType;
      USHORT OutType;
      ULONG MapNameOffset;
    } nonStructType;
    struct {
      USHORT StructStartIndex;
      USHORT NumOfStructMembers;
      ULONG padding;
    } structType;
    struct {
      USHORT InType;
      USHORT OutType;
      ULONG CustomSchemaOffset;
    } customSchemaType;
  };
  __extension__ union {
    USHORT count;
    USHORT countPropertyIndex;
  };
  __extension__ union {
    USHORT length;
    USHORT lengthPropertyIndex;
  };
  __extension__ union {
    ULONG Reserved;
    __extension__ struct {
      ULONG Tags : 28;
    };
  };
} EVENT_PROPERTY_INFO, *PEVENT_PROPERTY_INFO;

typedef struct _TRACE_EVENT_INFO {
  GUID ProviderGuid;
  GUID EventGuid;
  EVENT_DESCRIPTOR EventDescriptor;
  DECODING_SOURCE DecodingSource;
  ULONG ProviderNameOffset;
  ULONG LevelNameOffset;
  ULONG ChannelNameOffset;
  ULONG KeywordsNameOffset;
  ULONG TaskNameOffset;
  ULONG OpcodeNameOffset;
  ULONG EventMessageOffset;
  ULONG ProviderMessageOffset;
  ULONG BinaryXMLOffset;
  ULONG BinaryXMLSize;
  __extension__ union {
    ULONG EventNameOffset;
    ULONG ActivityIDNameOffset;
  };
  __extension__ union {
    ULONG EventAttributesOffset;
    ULONG RelatedActivityIDNameOffset;
  };
  ULONG PropertyCount;
  ULONG TopLevelPropertyCount;
  __extension__ union {
    TEMPLATE_FLAGS Flags;
    __extension__ struct {
      ULONG Reserved : 4;
      ULONG Tags : 28;
    };
  };
  EVENT_PROPERTY_INFO EventPropertyInfoArray[ANYSIZE_ARRAY];
} TRACE_EVENT_INFO, *PTRACE_EVENT_INFO;

typedef struct _PROPERTY_DATA_DESCRIPTOR {
  ULONGLONG PropertyName;
  ULONG ArrayIndex;
  ULONG Reserved;
} PROPERTY_DATA_DESCRIPTOR, *PPROPERTY_DATA_DESCRIPTOR;

typedef struct _TRACE_PROVIDER_INFO {
  GUID ProviderGuid;
  ULONG SchemaSource;
  ULONG ProviderNameOffset;
} TRACE_PROVIDER_INFO;

typedef struct _PROVIDER_ENUMERATION_INFO {
  ULONG NumberOfProviders;
  ULONG Reserved;
  TRACE_PROVIDER_INFO TraceProviderInfoArray[ANYSIZE_ARRAY];
} PROVIDER_ENUMERATION_INFO, *PPROVIDER_ENUMERATION_INFO;

typedef struct _PROVIDER_EVENT_INFO {
  ULONG NumberOfEvents;
  ULONG Reserved;
  EVENT_DESCRIPTOR EventDescriptorsArray[ANYSIZE_ARRAY];
} PROVIDER_EVENT_INFO, *PPROVIDER_EVENT_INFO;

typedef struct _PROVIDER_FIELD_INFO {
  ULONG NameOffset;
  ULONG DescriptionOffset;
  ULONGLONG Value;
} PROVIDER_FIELD_INFO;

typedef struct _PROVIDER_FIELD_INFOARRAY {
  ULONG NumberOfElements;
  EVENT_FIELD_TYPE FieldType;
  PROVIDER_FIELD_INFO FieldInfoArray[ANYSIZE_ARRAY];
} PROVIDER_FIELD_INFOARRAY, *PPROVIDER_FIELD_INFOARRAY;

typedef struct _TDH_CONTEXT {
  ULONGLONG ParameterValue;
  TDH_CONTEXT_TYPE ParameterType;
  ULONG ParameterSize;
} TDH_CONTEXT, *PTDH_CONTEXT;

/* A condition on one field of a payload; CompareOp is a PAYLOAD_OPERATOR. */
typedef struct _PAYLOAD_FILTER_PREDICATE {
  LPWSTR FieldName;
  USHORT CompareOp;
  LPWSTR Value;
} PAYLOAD_FILTER_PREDICATE, *PPAYLOAD_FILTER_PREDICATE;
#define MAX_PAYLOAD_PREDICATES 8
#define ETW_MAX_PAYLOAD_PREDICATES MAX_PAYLOAD_PREDICATES

typedef enum _PAYLOAD_OPERATOR {
  PAYLOADFIELD_EQ = 0,
  PAYLOADFIELD_NE = 1,
  PAYLOADFIELD_LE = 2,
  PAYLOADFIELD_GT = 3,
  PAYLOADFIELD_LT = 4,
  PAYLOADFIELD_GE = 5,
  PAYLOADFIELD_BETWEEN = 6,
  PAYLOADFIELD_NOTBETWEEN = 7,
  PAYLOADFIELD_MODULO = 8,
  PAYLOADFIELD_CONTAINS = 20,
  PAYLOADFIELD_DOESNTCONTAIN = 21,
  PAYLOADFIELD_IS = 30,
  PAYLOADFIELD_ISNOT = 31,
  PAYLOADFIELD_INVALID = 32
} PAYLOAD_OPERATOR;

/* The texts in these structures are of WCHAR. */
TDHSTATUS TDHAPI TdhGetEventInformation(PEVENT_RECORD Event, ULONG TdhContextCount, PTDH_CONTEXT TdhContext,
                                        PTRACE_EVENT_INFO Buffer, PULONG BufferSize)
    OPENETW_WIDE(TdhGetEventInformation);
TDHSTATUS TDHAPI TdhGetManifestEventInformation(LPGUID ProviderGuid, PEVENT_DESCRIPTOR EventDescriptor,
                                                PTRACE_EVENT_INFO Buffer, PULONG BufferSize)
    OPENETW_WIDE(TdhGetManifestEventInformation);
/* All events of the record's provider that have the record's version. */
TDHSTATUS TDHAPI TdhGetAllEventsInformation(PEVENT_RECORD Event, PVOID WbemService, ULONG *Index, ULONG *Count,
                                            PTRACE_EVENT_INFO *Buffer, ULONG *BufferSize)
    OPENETW_WIDE(TdhGetAllEventsInformation);
TDHSTATUS TDHAPI TdhGetEventMapInformation(PEVENT_RECORD Event, LPWSTR MapName, PEVENT_MAP_INFO Buffer,
                                           PULONG BufferSize) OPENETW_WIDE(TdhGetEventMapInformation);
TDHSTATUS TDHAPI TdhGetPropertySize(PEVENT_RECORD Event, ULONG TdhContextCount, PTDH_CONTEXT TdhContext,
                                    ULONG PropertyDataCount, PPROPERTY_DATA_DESCRIPTOR PropertyData,
                                    ULONG *PropertySize) OPENETW_WIDE(TdhGetPropertySize);
TDHSTATUS TDHAPI TdhGetProperty(PEVENT_RECORD Event, ULONG TdhContextCount, PTDH_CONTEXT TdhContext,
                                ULONG PropertyDataCount, PPROPERTY_DATA_DESCRIPTOR PropertyData, ULONG BufferSize,
                                PBYTE Buffer) OPENETW_WIDE(TdhGetProperty);
TDHSTATUS TDHAPI TdhFormatProperty(PTRACE_EVENT_INFO EventInfo, PEVENT_MAP_INFO MapInfo, ULONG PointerSize,
                                   USHORT PropertyInType, USHORT PropertyOutType, USHORT PropertyLength,
                                   USHORT UserDataLength, PBYTE UserData, PULONG BufferSize, PWCHAR Buffer,
                                   PUSHORT UserDataConsumed) OPENETW_WIDE(TdhFormatProperty);
TDHSTATUS TDHAPI TdhEnumerateProviders(PPROVIDER_ENUMERATION_INFO Buffer, ULONG *BufferSize)
    OPENETW_WIDE(TdhEnumerateProviders);
/* The providers of one kind of description. */
TDHSTATUS TDHAPI TdhEnumerateProvidersForDecodingSource(DECODING_SOURCE Filter, PPROVIDER_ENUMERATION_INFO Buffer,
                                                        ULONG BufferSize, ULONG *BufferRequired)
    OPENETW_WIDE(TdhEnumerateProvidersForDecodingSource);
TDHSTATUS TDHAPI TdhEnumerateProviderFieldInformation(LPGUID Guid, EVENT_FIELD_TYPE EventFieldType,
                                                      PPROVIDER_FIELD_INFOARRAY Buffer, ULONG *BufferSize)
    OPENETW_WIDE(TdhEnumerateProviderFieldInformation);
TDHSTATUS TDHAPI TdhQueryProviderFieldInformation(LPGUID Guid, ULONGLONG EventFieldValue,
                                                  EVENT_FIELD_TYPE EventFieldType, PPROVIDER_FIELD_INFOARRAY Buffer,
                                                  ULONG *BufferSize) OPENETW_WIDE(TdhQueryProviderFieldInformation);
TDHSTATUS TDHAPI TdhEnumerateManifestProviderEvents(LPGUID ProviderGuid, PPROVIDER_EVENT_INFO Buffer,
                                                    ULONG *BufferSize);
TDHSTATUS TDHAPI TdhLoadManifest(PWSTR Manifest) OPENETW_WIDE(TdhLoadManifest);
TDHSTATUS TDHAPI TdhLoadManifestFromMemory(LPCVOID Data, ULONG Size);
TDHSTATUS TDHAPI TdhLoadManifestFromBinary(PWSTR BinaryPath) OPENETW_WIDE(TdhLoadManifestFromBinary);
TDHSTATUS TDHAPI TdhUnloadManifest(PWSTR Manifest) OPENETW_WIDE(TdhUnloadManifest);
TDHSTATUS TDHAPI TdhUnloadManifestFromMemory(LPCVOID Data, ULONG Size);

/* Decoding handles: WPP messages with the files of trace formats that a program names. */
TDHSTATUS TDHAPI TdhOpenDecodingHandle(PTDH_HANDLE Handle);
TDHSTATUS TDHAPI TdhCloseDecodingHandle(TDH_HANDLE Handle);
TDHSTATUS TDHAPI TdhSetDecodingParameter(TDH_HANDLE Handle, PTDH_CONTEXT TdhContext)
    OPENETW_WIDE(TdhSetDecodingParameter);
/* TDH_CONTEXT_WPP_GMT and TDH_CONTEXT_POINTERSIZE. */
TDHSTATUS TDHAPI TdhGetDecodingParameter(TDH_HANDLE Handle, PTDH_CONTEXT TdhContext);
TDHSTATUS TDHAPI TdhGetWppMessage(TDH_HANDLE Handle, PEVENT_RECORD EventRecord, PULONG BufferSize, PBYTE Buffer)
    OPENETW_WIDE(TdhGetWppMessage);
/* FormattedString, TraceGuid, ProcessId, ThreadId, CpuNumber, RawSystemTime. */
TDHSTATUS TDHAPI TdhGetWppProperty(TDH_HANDLE Handle, PEVENT_RECORD EventRecord, PWSTR PropertyName, PULONG BufferSize,
                                   PBYTE Buffer) OPENETW_WIDE(TdhGetWppProperty);

/* Conditions on payloads, for EnableTraceEx2. */
TDHSTATUS TDHAPI TdhCreatePayloadFilter(LPCGUID ProviderGuid, PCEVENT_DESCRIPTOR EventDescriptor, BOOLEAN EventMatchANY,
                                        ULONG PayloadPredicateCount, PPAYLOAD_FILTER_PREDICATE PayloadPredicates,
                                        PVOID *PayloadFilter) OPENETW_WIDE(TdhCreatePayloadFilter);
TDHSTATUS TDHAPI TdhDeletePayloadFilter(PVOID *PayloadFilter);
TDHSTATUS TDHAPI TdhAggregatePayloadFilters(ULONG PayloadFilterCount, PVOID *PayloadFilterPtrs,
                                            PBOOLEAN EventMatchALLFlags, PEVENT_FILTER_DESCRIPTOR EventFilterDescriptor);
TDHSTATUS TDHAPI TdhCleanupPayloadEventFilterDescriptor(PEVENT_FILTER_DESCRIPTOR EventFilterDescriptor);

FORCEINLINE PWSTR TEI_PROVIDER_NAME(PTRACE_EVENT_INFO info) {
  return info->ProviderNameOffset ? (PWSTR)(void *)((PBYTE)info + info->ProviderNameOffset) : NULL;
}
FORCEINLINE PWSTR TEI_LEVEL_NAME(PTRACE_EVENT_INFO info) {
  return info->LevelNameOffset ? (PWSTR)(void *)((PBYTE)info + info->LevelNameOffset) : NULL;
}
FORCEINLINE PWSTR TEI_CHANNEL_NAME(PTRACE_EVENT_INFO info) {
  return info->ChannelNameOffset ? (PWSTR)(void *)((PBYTE)info + info->ChannelNameOffset) : NULL;
}
FORCEINLINE PWSTR TEI_KEYWORDS_NAME(PTRACE_EVENT_INFO info) {
  return info->KeywordsNameOffset ? (PWSTR)(void *)((PBYTE)info + info->KeywordsNameOffset) : NULL;
}
FORCEINLINE PWSTR TEI_TASK_NAME(PTRACE_EVENT_INFO info) {
  return info->TaskNameOffset ? (PWSTR)(void *)((PBYTE)info + info->TaskNameOffset) : NULL;
}
FORCEINLINE PWSTR TEI_OPCODE_NAME(PTRACE_EVENT_INFO info) {
  return info->OpcodeNameOffset ? (PWSTR)(void *)((PBYTE)info + info->OpcodeNameOffset) : NULL;
}
FORCEINLINE PWSTR TEI_EVENT_MESSAGE(PTRACE_EVENT_INFO info) {
  return info->EventMessageOffset ? (PWSTR)(void *)((PBYTE)info + info->EventMessageOffset) : NULL;
}
FORCEINLINE PWSTR TEI_PROPERTY_NAME(PTRACE_EVENT_INFO info, PEVENT_PROPERTY_INFO property) {
  return property->NameOffset ? (PWSTR)(void *)((PBYTE)info + property->NameOffset) : NULL;
}
FORCEINLINE PWSTR TEI_MAP_NAME(PTRACE_EVENT_INFO info, PEVENT_PROPERTY_INFO property) {
  return property->nonStructType.MapNameOffset ? (PWSTR)(void *)((PBYTE)info + property->nonStructType.MapNameOffset)
                                               : NULL;
}
FORCEINLINE PWSTR EMI_MAP_NAME(PEVENT_MAP_INFO info) {
  return info->NameOffset ? (PWSTR)(void *)((PBYTE)info + info->NameOffset) : NULL;
}
FORCEINLINE PWSTR EMI_MAP_OUTPUT(PEVENT_MAP_INFO info, PEVENT_MAP_ENTRY entry) {
  return entry->OutputOffset ? (PWSTR)(void *)((PBYTE)info + entry->OutputOffset) : NULL;
}
FORCEINLINE PWSTR PEI_PROVIDER_NAME(PPROVIDER_ENUMERATION_INFO info, TRACE_PROVIDER_INFO *provider) {
  return provider->ProviderNameOffset ? (PWSTR)(void *)((PBYTE)info + provider->ProviderNameOffset) : NULL;
}
FORCEINLINE PWSTR PFI_FIELD_NAME(PPROVIDER_FIELD_INFOARRAY info, PROVIDER_FIELD_INFO *field) {
  return field->NameOffset ? (PWSTR)(void *)((PBYTE)info + field->NameOffset) : NULL;
}
FORCEINLINE PWSTR PFI_FIELD_MESSAGE(PPROVIDER_FIELD_INFOARRAY info, PROVIDER_FIELD_INFO *field) {
  return field->DescriptionOffset ? (PWSTR)(void *)((PBYTE)info + field->DescriptionOffset) : NULL;
}

#ifdef __cplusplus
}
#endif

#endif
