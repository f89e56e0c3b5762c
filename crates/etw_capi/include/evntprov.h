/* Providers: registering, and writing events. */
#ifndef OPENETW_EVNTPROV_H
#define OPENETW_EVNTPROV_H

#pragma GCC system_header

#include <stdarg.h>
#include <windows.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EVNTAPI

#define EVENT_MIN_LEVEL 0
#define EVENT_MAX_LEVEL 0xff
#define EVENT_ACTIVITY_CTRL_GET_ID 1
#define EVENT_ACTIVITY_CTRL_SET_ID 2
#define EVENT_ACTIVITY_CTRL_CREATE_ID 3
#define EVENT_ACTIVITY_CTRL_GET_SET_ID 4
#define EVENT_ACTIVITY_CTRL_CREATE_SET_ID 5

#define MAX_EVENT_DATA_DESCRIPTORS 128
#define MAX_EVENT_FILTER_DATA_SIZE 1024
#define MAX_EVENT_FILTER_PAYLOAD_SIZE 4096
#define MAX_EVENT_FILTER_EVENT_NAME_SIZE 4096
#define MAX_EVENT_FILTERS_COUNT 13
#define MAX_EVENT_FILTER_PID_COUNT 8
#define MAX_EVENT_FILTER_EVENT_ID_COUNT 64

#define EVENT_FILTER_TYPE_NONE 0x00000000
#define EVENT_FILTER_TYPE_SCHEMATIZED 0x80000000
#define EVENT_FILTER_TYPE_SYSTEM_FLAGS 0x80000001
#define EVENT_FILTER_TYPE_TRACEHANDLE 0x80000002
#define EVENT_FILTER_TYPE_PID 0x80000004
#define EVENT_FILTER_TYPE_EXECUTABLE_NAME 0x80000008
#define EVENT_FILTER_TYPE_PACKAGE_ID 0x80000010
#define EVENT_FILTER_TYPE_PACKAGE_APP_ID 0x80000020
#define EVENT_FILTER_TYPE_PAYLOAD 0x80000100
#define EVENT_FILTER_TYPE_EVENT_ID 0x80000200
#define EVENT_FILTER_TYPE_EVENT_NAME 0x80000400
#define EVENT_FILTER_TYPE_STACKWALK 0x80001000
#define EVENT_FILTER_TYPE_STACKWALK_NAME 0x80002000
#define EVENT_FILTER_TYPE_STACKWALK_LEVEL_KW 0x80004000
#define EVENT_FILTER_TYPE_CONTAINER 0x80008000

#define EVENT_DATA_DESCRIPTOR_TYPE_NONE 0
#define EVENT_DATA_DESCRIPTOR_TYPE_EVENT_METADATA 1
#define EVENT_DATA_DESCRIPTOR_TYPE_PROVIDER_METADATA 2
#define EVENT_DATA_DESCRIPTOR_TYPE_TIMESTAMP_OVERRIDE 3
/* Not of Windows: parts of payloads that the library converts. Those with 32 have a Size in characters of 32 bits. */
#define OPENETW_DATA_DESCRIPTOR_COUNTED 0x81   /* a 16-bit size, and Size bytes */
#define OPENETW_DATA_DESCRIPTOR_COUNTED32 0x83 /* a 16-bit size in bytes, and the text as UTF-16 */
#define OPENETW_DATA_DESCRIPTOR_UNITS32 0x86   /* as many units of UTF-16; larger characters become U+FFFD */

#define EVENT_WRITE_FLAG_NO_FAULTING 0x00000001
#define EVENT_WRITE_FLAG_INPRIVATE 0x00000002

/* A registered provider. */
typedef ULONGLONG REGHANDLE, *PREGHANDLE;

typedef struct _EVENT_DATA_DESCRIPTOR {
  ULONGLONG Ptr;
  ULONG Size;
  __extension__ union {
    ULONG Reserved;
    __extension__ struct {
      UCHAR Type;
      UCHAR Reserved1;
      USHORT Reserved2;
    };
  };
} EVENT_DATA_DESCRIPTOR, *PEVENT_DATA_DESCRIPTOR;

typedef struct _EVENT_DESCRIPTOR {
  USHORT Id;
  UCHAR Version;
  UCHAR Channel;
  UCHAR Level;
  UCHAR Opcode;
  USHORT Task;
  ULONGLONG Keyword;
} EVENT_DESCRIPTOR, *PEVENT_DESCRIPTOR;
typedef const EVENT_DESCRIPTOR *PCEVENT_DESCRIPTOR;

typedef struct _EVENT_FILTER_DESCRIPTOR {
  ULONGLONG Ptr;
  ULONG Size;
  ULONG Type;
} EVENT_FILTER_DESCRIPTOR, *PEVENT_FILTER_DESCRIPTOR;

typedef struct _EVENT_FILTER_HEADER {
  USHORT Id;
  UCHAR Version;
  UCHAR Reserved[5];
  ULONGLONG InstanceId;
  ULONG Size;
  ULONG NextOffset;
} EVENT_FILTER_HEADER, *PEVENT_FILTER_HEADER;

typedef struct _EVENT_FILTER_EVENT_ID {
  BOOLEAN FilterIn;
  UCHAR Reserved;
  USHORT Count;
  USHORT Events[ANYSIZE_ARRAY];
} EVENT_FILTER_EVENT_ID, *PEVENT_FILTER_EVENT_ID;

typedef struct _EVENT_FILTER_EVENT_NAME {
  ULONGLONG MatchAnyKeyword;
  ULONGLONG MatchAllKeyword;
  UCHAR Level;
  BOOLEAN FilterIn;
  USHORT NameCount;
  UCHAR Names[ANYSIZE_ARRAY];
} EVENT_FILTER_EVENT_NAME, *PEVENT_FILTER_EVENT_NAME;

typedef struct _EVENT_FILTER_LEVEL_KW {
  ULONGLONG MatchAnyKeyword;
  ULONGLONG MatchAllKeyword;
  UCHAR Level;
  BOOLEAN FilterIn;
} EVENT_FILTER_LEVEL_KW, *PEVENT_FILTER_LEVEL_KW;

typedef enum _EVENT_INFO_CLASS {
  EventProviderBinaryTrackInfo,
  EventProviderSetReserved1,
  EventProviderSetTraits,
  EventProviderUseDescriptorType,
  MaxEventInfo
} EVENT_INFO_CLASS;

typedef enum _ETW_PROVIDER_TRAIT_TYPE {
  EtwProviderTraitTypeGroup = 1,
  EtwProviderTraitDecodeGuid = 2,
  EtwProviderTraitTypeMax
} ETW_PROVIDER_TRAIT_TYPE;

/* IsEnabled is one of EVENT_CONTROL_CODE_* (evntrace.h). */
typedef VOID(NTAPI *PENABLECALLBACK)(LPCGUID SourceId, ULONG IsEnabled, UCHAR Level, ULONGLONG MatchAnyKeyword,
                                     ULONGLONG MatchAllKeyword, PEVENT_FILTER_DESCRIPTOR FilterData,
                                     PVOID CallbackContext);

ULONG EVNTAPI EventRegister(LPCGUID ProviderId, PENABLECALLBACK EnableCallback, PVOID CallbackContext,
                            PREGHANDLE RegHandle);
ULONG EVNTAPI EventUnregister(REGHANDLE RegHandle);
ULONG EVNTAPI EventSetInformation(REGHANDLE RegHandle, EVENT_INFO_CLASS InformationClass, PVOID EventInformation,
                                  ULONG InformationLength);
BOOLEAN EVNTAPI EventEnabled(REGHANDLE RegHandle, PCEVENT_DESCRIPTOR EventDescriptor);
BOOLEAN EVNTAPI EventProviderEnabled(REGHANDLE RegHandle, UCHAR Level, ULONGLONG Keyword);
ULONG EVNTAPI EventWrite(REGHANDLE RegHandle, PCEVENT_DESCRIPTOR EventDescriptor, ULONG UserDataCount,
                         PEVENT_DATA_DESCRIPTOR UserData);
ULONG EVNTAPI EventWriteTransfer(REGHANDLE RegHandle, PCEVENT_DESCRIPTOR EventDescriptor, LPCGUID ActivityId,
                                 LPCGUID RelatedActivityId, ULONG UserDataCount, PEVENT_DATA_DESCRIPTOR UserData);
/* Filter must be 0: events go to every session that wants them. */
ULONG EVNTAPI EventWriteEx(REGHANDLE RegHandle, PCEVENT_DESCRIPTOR EventDescriptor, ULONG64 Filter, ULONG Flags,
                           LPCGUID ActivityId, LPCGUID RelatedActivityId, ULONG UserDataCount,
                           PEVENT_DATA_DESCRIPTOR UserData);
ULONG EVNTAPI EventWriteString(REGHANDLE RegHandle, UCHAR Level, ULONGLONG Keyword, PCWSTR String)
    OPENETW_WIDE(EventWriteString);
ULONG EVNTAPI EventActivityIdControl(ULONG ControlCode, LPGUID ActivityId);

FORCEINLINE VOID EventDataDescCreate(PEVENT_DATA_DESCRIPTOR EventDataDescriptor, const VOID *DataPtr, ULONG DataSize) {
  EventDataDescriptor->Ptr = (ULONGLONG)(ULONG_PTR)DataPtr;
  EventDataDescriptor->Size = DataSize;
  EventDataDescriptor->Reserved = 0;
}

/* Not of Windows: describes this many characters, which are written as UTF-16 whatever WCHAR is. */
FORCEINLINE VOID OpenEtwDataDescCreateWide(PEVENT_DATA_DESCRIPTOR EventDataDescriptor, PCWCH Text, ULONG Length) {
#if OPENETW_WIDE_BITS == 32
  EventDataDescCreate(EventDataDescriptor, Text, Length);
  EventDataDescriptor->Type = OPENETW_DATA_DESCRIPTOR_UNITS32;
#else
  EventDataDescCreate(EventDataDescriptor, Text, 2 * Length);
#endif
}

FORCEINLINE VOID EventDescCreate(PEVENT_DESCRIPTOR EventDescriptor, USHORT Id, UCHAR Version, UCHAR Channel,
                                 UCHAR Level, USHORT Task, UCHAR Opcode, ULONGLONG Keyword) {
  EventDescriptor->Id = Id;
  EventDescriptor->Version = Version;
  EventDescriptor->Channel = Channel;
  EventDescriptor->Level = Level;
  EventDescriptor->Task = Task;
  EventDescriptor->Opcode = Opcode;
  EventDescriptor->Keyword = Keyword;
}

FORCEINLINE VOID EventDescZero(PEVENT_DESCRIPTOR EventDescriptor) { memset(EventDescriptor, 0, sizeof *EventDescriptor); }

#define OPENETW_DESC_(name, type)                                                                                      \
  FORCEINLINE type EventDescGet##name(PCEVENT_DESCRIPTOR EventDescriptor) { return EventDescriptor->name; }            \
  FORCEINLINE PEVENT_DESCRIPTOR EventDescSet##name(PEVENT_DESCRIPTOR EventDescriptor, type value) {                    \
    EventDescriptor->name = value;                                                                                     \
    return EventDescriptor;                                                                                            \
  }
OPENETW_DESC_(Id, USHORT)
OPENETW_DESC_(Version, UCHAR)
OPENETW_DESC_(Task, USHORT)
OPENETW_DESC_(Opcode, UCHAR)
OPENETW_DESC_(Channel, UCHAR)
OPENETW_DESC_(Level, UCHAR)
OPENETW_DESC_(Keyword, ULONGLONG)
#undef OPENETW_DESC_

FORCEINLINE PEVENT_DESCRIPTOR EventDescOrKeyword(PEVENT_DESCRIPTOR EventDescriptor, ULONGLONG Keyword) {
  EventDescriptor->Keyword |= Keyword;
  return EventDescriptor;
}

#ifdef __cplusplus
}
#endif

#if defined(__cplusplus) && OPENETW_WIDE_BITS == 32
/* Text of wchar_t is written as UTF-16, as on Windows. In C, wchar_t is the type of other numbers too. */
extern "C++" {
template <class T> struct OpenEtwIsWide {};
template <> struct OpenEtwIsWide<WCHAR> {
  typedef VOID type;
};
template <> struct OpenEtwIsWide<const WCHAR> {
  typedef VOID type;
};
template <class T>
inline typename OpenEtwIsWide<T>::type EventDataDescCreate(PEVENT_DATA_DESCRIPTOR EventDataDescriptor, T *Text,
                                                           ULONG Bytes) {
  if (Bytes % sizeof(WCHAR) == 0) {
    OpenEtwDataDescCreateWide(EventDataDescriptor, Text, (ULONG)(Bytes / sizeof(WCHAR)));
  } else {
    EventDataDescCreate(EventDataDescriptor, (const VOID *)Text, Bytes);
  }
}
}
#endif

#endif
