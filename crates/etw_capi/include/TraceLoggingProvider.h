/*
 * TraceLogging: events that describe themselves. Needs no manifest.
 *
 * The description of an event is built at compile time. An event that nobody wants costs one load and one branch.
 * Works with GCC and Clang, as C11 and as C++11 or later.
 */
#ifndef OPENETW_TRACELOGGINGPROVIDER_H
#define OPENETW_TRACELOGGINGPROVIDER_H

#pragma GCC system_header

#include <windows.h>
#include <evntprov.h>
#include <winmeta.h>
#ifdef __cplusplus
extern "C++" {
#include <string>
#include <type_traits>
}
#endif

#define TLG_STATUS HRESULT

/*
 * A provider, defined by TRACELOGGING_DEFINE_PROVIDER.
 *
 * Without a GUID (`TRACELOGGING_DEFINE_PROVIDER(MyProvider, "MyCompany.MyProvider", );`) it is derived from the name.
 *
 * Programs that write descriptions of their own with EventWriteTransfer may read RegHandle and ProviderMetadataPtr. The
 * other fields are the library's; it changes them.
 */
struct _tlgProvider_t {
  /* The lowest level that no session wants; 0 without sessions. */
  UINT32 LevelPlus1;
  UINT32 reserved;
  REGHANDLE RegHandle;
  const void *provider;
  /* Size in bytes, name, and traits, as EventSetInformation takes them. */
  const UINT16 *ProviderMetadataPtr;
  GUID guid;
};
typedef struct _tlgProvider_t *TraceLoggingHProvider;

/* What is constant of an event, except its description, which follows: the descriptor as records have it. */
struct openetw_tl_event {
  UINT64 descriptor; /* channel << 24 | level << 32 | opcode << 40 */
  UINT64 keyword;
};

/* A part of a payload. */
struct openetw_tl_data {
  UINT64 pointer;
  UINT32 size;
  UINT32 kind;
};

#define OPENETW_TL_BYTES 0u     /* size bytes */
#define OPENETW_TL_COUNTED 1u   /* a 16-bit size, and size bytes */
#define OPENETW_TL_TEXT32 2u    /* size characters of 32 bits, written with 16 bits, and a zero */
#define OPENETW_TL_COUNTED32 3u /* size characters of 32 bits, written with 16 bits, after their size */
#define OPENETW_TL_SOCKET 4u    /* a socket address of size bytes, after its size */
#define OPENETW_TL_ARRAY 5u     /* size bytes after the number of elements; bits 8 and up: bytes of an element */
#define OPENETW_TL_UNITS32 6u   /* size characters of 32 bits, written as as many units of UTF-16 */
#define OPENETW_TL_VALUE 7u     /* pointer is the value, of 1 to 8 bytes; the others are zero */
#define OPENETW_TL_CHARS32 8u   /* as UNITS32, after their number */

#if __has_attribute(noplt)
#define OPENETW_TL_NOPLT_ __attribute__((noplt))
#else
#define OPENETW_TL_NOPLT_
#endif

EXTERN_C_START
HRESULT openetw_tl_register(struct _tlgProvider_t *provider, PENABLECALLBACK callback, PVOID context);
void openetw_tl_unregister(struct _tlgProvider_t *provider);
HRESULT openetw_tl_set_information(struct _tlgProvider_t *provider, EVENT_INFO_CLASS informationClass,
                                   const void *information, ULONG size);
void openetw_tl_provider_id(const struct _tlgProvider_t *provider, GUID *id);
BOOLEAN openetw_tl_enabled(const struct _tlgProvider_t *provider, UCHAR level, ULONGLONG keyword);
ULONG openetw_tl_write(const struct _tlgProvider_t *provider, const struct openetw_tl_event *event, LPCGUID activity,
                       LPCGUID related, UINT32 count, const struct openetw_tl_data *data);
/* With a payload of `size` bytes; the rest of the last word is zero. Called without a jump through the linkage table. */
OPENETW_TL_NOPLT_
ULONG openetw_tl_write_words(const struct _tlgProvider_t *provider, const struct openetw_tl_event *event,
                             LPCGUID activity, LPCGUID related, UINT32 size, const UINT64 *words);
EXTERN_C_END

/* Writes an event of 1 to 8 values. They are packed here, since the compiler knows their places. */
#define OPENETW_TL_PACKED_ 8
#if defined(__clang__)
#define OPENETW_TL_UNROLL_ _Pragma("clang loop unroll(full)")
#else
#define OPENETW_TL_UNROLL_ _Pragma("GCC unroll 8")
#endif
static inline __attribute__((unused, always_inline)) ULONG
openetw_tl_send_values(const struct _tlgProvider_t *provider, const struct openetw_tl_event *event, LPCGUID activity,
                       LPCGUID related, UINT32 count, const struct openetw_tl_data *data) {
  UINT64 words[OPENETW_TL_PACKED_], pending = 0;
  UINT32 bits = 0, next = 0;
  OPENETW_TL_UNROLL_
  for (UINT32 at = 0; at < OPENETW_TL_PACKED_; at++) {
    if (at < count) {
      UINT64 value = data[at].pointer;
      UINT32 filled = bits + 8 * data[at].size;
      pending |= value << bits;
      if (filled >= 64) {
        words[next++] = pending;
        pending = (value >> 1) >> (63 - bits);
        filled -= 64;
      }
      bits = filled;
    }
  }
  if (bits) {
    words[next] = pending;
  }
  return openetw_tl_write_words(provider, event, activity, related, 8 * next + bits / 8, words);
}

/* Writes an event. Where the compiler sees that all parts are values, it packs them; otherwise the library does. */
static inline __attribute__((unused, always_inline)) ULONG
openetw_tl_send(const struct _tlgProvider_t *provider, const struct openetw_tl_event *event, LPCGUID activity,
                LPCGUID related, UINT32 count, const struct openetw_tl_data *data) {
#ifdef __OPTIMIZE__
  if (count != 0 && count <= OPENETW_TL_PACKED_) {
    UINT32 size = 0, others = 0;
    OPENETW_TL_UNROLL_
    for (UINT32 at = 0; at < OPENETW_TL_PACKED_; at++) {
      if (at < count) {
        size += data[at].size;
        others |= data[at].kind ^ OPENETW_TL_VALUE;
      }
    }
    if (__builtin_constant_p(others) && others == 0 && __builtin_constant_p(size)) {
      return openetw_tl_send_values(provider, event, activity, related, count, data);
    }
  }
#endif
  return openetw_tl_write(provider, event, activity, related, count, data);
}

/* Declares a provider that another file defines. */
#define TRACELOGGING_DECLARE_PROVIDER(handleVariable) EXTERN_C struct _tlgProvider_t handleVariable[1]

/* Defines a provider: (handle, "Name", (GUID as 11 numbers), options). */
#define TRACELOGGING_DEFINE_PROVIDER(handleVariable, providerName, providerId, ...)                                    \
  OPENETW_TL_METADATA_(handleVariable, providerName, __VA_ARGS__)                                                      \
  EXTERN_C struct _tlgProvider_t handleVariable[1];                                                                    \
  struct _tlgProvider_t handleVariable[1] = {OPENETW_TL_PROVIDER_(handleVariable, providerId)}

/* Defines a provider to be used by its address. */
#define TRACELOGGING_DEFINE_PROVIDER_STORAGE(storageVariable, providerName, providerId, ...)                           \
  OPENETW_TL_METADATA_(storageVariable, providerName, __VA_ARGS__)                                                     \
  static struct _tlgProvider_t storageVariable = OPENETW_TL_PROVIDER_(storageVariable, providerId)

/* Members of a group are enabled together. */
#define TraceLoggingOptionGroup(l, w1, w2, b1, b2, b3, b4, b5, b6, b7, b8)                                             \
  1, OPENETW_TL_GUID_(l, w1, w2, b1, b2, b3, b4, b5, b6, b7, b8)

#define OPENETW_TL_PROVIDER_(variable, providerId)                                                                     \
  { 0, 0, 0, NULL, &variable##OpenEtwMetadata.size, OPENETW_TL_EITHER_(providerId) providerId }
/* The group is a trait: its size, its type and the GUID. Without one, it is zero, and the metadata ends before it. */
#define OPENETW_TL_METADATA_(variable, providerName, ...)                                                              \
  _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wmissing-field-initializers\"")                    \
  static const struct {                                                                                                \
    UINT16 size;                                                                                                       \
    struct __attribute__((packed)) {                                                                                   \
      char name[sizeof(providerName)];                                                                                 \
      UINT16 traitSize;                                                                                                \
      UINT8 traitType;                                                                                                 \
      GUID group;                                                                                                      \
    } rest;                                                                                                            \
  } variable##OpenEtwMetadata = {                                                                                      \
      (UINT16)(2 + sizeof(providerName) + 19 * (OPENETW_TL_FIRST_(__VA_ARGS__, ) + 0)),                                \
      {providerName, 19, 1, OPENETW_TL_REST_(__VA_ARGS__, )}};                                                         \
  _Pragma("GCC diagnostic pop")
#define OPENETW_TL_FIRST_(first, ...) first
#define OPENETW_TL_REST_(first, ...) __VA_ARGS__
#define OPENETW_TL_GUID_(l, w1, w2, b1, b2, b3, b4, b5, b6, b7, b8)                                                    \
  { l, w1, w2, { b1, b2, b3, b4, b5, b6, b7, b8 } }
/* The macro for a GUID in parentheses, or the GUID for none: only parentheses make the probe a comma. */
#define OPENETW_TL_EITHER_(providerId)                                                                                 \
  OPENETW_TL_EXPANDED_THIRD_(OPENETW_TL_PROBE_ providerId, OPENETW_TL_GUID_, OPENETW_TL_NO_GUID_, 0)
#define OPENETW_TL_PROBE_(...) ,
#define OPENETW_TL_EXPANDED_THIRD_(...) OPENETW_TL_THIRD_(__VA_ARGS__)
#define OPENETW_TL_THIRD_(first, second, third, ...) third
#ifdef __cplusplus
#define OPENETW_TL_NO_GUID_ {}
#else
#define OPENETW_TL_NO_GUID_ { 0 }
#endif

/* Registering. These return S_OK: a program works the same when nobody records it. */
#define TraceLoggingRegister(handle) openetw_tl_register((handle), NULL, NULL)
#define TraceLoggingRegisterEx(handle, callback, context) openetw_tl_register((handle), (callback), (context))
#define TraceLoggingUnregister(handle) openetw_tl_unregister(handle)
#define TraceLoggingSetInformation(handle, informationClass, information, size)                                        \
  openetw_tl_set_information((handle), (informationClass), (information), (size))

static inline __attribute__((unused)) GUID OpenEtwTraceLoggingProviderId(const struct _tlgProvider_t *provider) {
  GUID id;
  openetw_tl_provider_id(provider, &id);
  return id;
}
#define TraceLoggingProviderId(handle) OpenEtwTraceLoggingProviderId(handle)

/* Whether a session may want an event of this level; one load and one branch. */
#define OPENETW_TL_IS_OPEN_(provider, level)                                                                           \
  __builtin_expect(__atomic_load_n(&(provider)->LevelPlus1, __ATOMIC_RELAXED) > (UINT32)(level), 0)

/* Whether a session wants events of a level (0: any) and keywords (0: any). */
#define TraceLoggingProviderEnabled(handle, level, keyword) OpenEtwTraceLoggingEnabled((handle), (level), (keyword))
static inline __attribute__((unused)) BOOLEAN OpenEtwTraceLoggingEnabled(const struct _tlgProvider_t *provider,
                                                                         UCHAR level, ULONGLONG keyword) {
  return OPENETW_TL_IS_OPEN_(provider, level) && openetw_tl_enabled(provider, level, keyword);
}

/* Writes an event: TraceLoggingWrite(provider, "Name", fields and options). A macro may stand for several of them, such as
   _GENERIC_PARTB_FIELDS_ENABLED: arguments are expanded before they are told apart, which `##` would prevent. */
#define TraceLoggingWrite(handle, ...) OPENETW_TL_WRITE_(handle, NULL, NULL, __VA_ARGS__)
/* Writes an event of an activity, which another one caused; either may be NULL. */
#define TraceLoggingWriteActivity(handle, ...) OPENETW_TL_WRITE_ACTIVITY_(handle, __VA_ARGS__)
#define OPENETW_TL_WRITE_ACTIVITY_(handle, eventName, activityId, relatedActivityId, ...)                              \
  OPENETW_TL_WRITE_(handle, activityId, relatedActivityId, eventName, ##__VA_ARGS__)

/* Options of an event. */
#define TraceLoggingLevel(level) (O, (level) + 1, 0, 0, 0)
#define TraceLoggingKeyword(keyword) (O, 0, (keyword), 0, 0)
#define TraceLoggingOpcode(opcode) (O, 0, 0, (opcode), 0)
#define TraceLoggingEventTag(tag) (T, tag)
#define TraceLoggingChannel(channel) (O, 0, 0, 0, (channel) + 1)
/* For readers of the source; not recorded. */
#define TraceLoggingDescription(text) (O, 0, 0, 0, 0)
#define TraceLoggingCustomAttribute(key, value) (O, 0, 0, 0, 0)

/*
 * Fields are TraceLoggingTYPE(value), (value, "name"), (value, "name", "description") or
 * (value, "name", "description", tags). Without a name, the text of the value is the name.
 */

enum TlgIn_t {
  TlgInNULL = 0,
  TlgInUNICODESTRING = 1,
  TlgInANSISTRING = 2,
  TlgInINT8 = 3,
  TlgInUINT8 = 4,
  TlgInINT16 = 5,
  TlgInUINT16 = 6,
  TlgInINT32 = 7,
  TlgInUINT32 = 8,
  TlgInINT64 = 9,
  TlgInUINT64 = 10,
  TlgInFLOAT = 11,
  TlgInDOUBLE = 12,
  TlgInBOOL32 = 13,
  TlgInBINARY = 14,
  TlgInGUID = 15,
  TlgInFILETIME = 17,
  TlgInSYSTEMTIME = 18,
  TlgInSID = 19,
  TlgInHEXINT32 = 20,
  TlgInHEXINT64 = 21,
  TlgInCOUNTEDSTRING = 22,
  TlgInCOUNTEDANSISTRING = 23,
  TlgInSTRUCT = 24,
  TlgInCOUNTEDBINARY = 25,
  TlgIn_ISPOINTER = 64,
  TlgInPOINTER = TlgInHEXINT64,
  TlgInINTPTR = TlgInINT64,
  TlgInUINTPTR = TlgInUINT64,
  TlgInHEXINTPTR = TlgInHEXINT64,
  TlgInLONG = TlgInINT32,
  TlgInULONG = TlgInUINT32
};
enum TlgOut_t {
  TlgOutNULL = 0,
  TlgOutNOPRINT = 1,
  TlgOutSTRING = 2,
  TlgOutBOOLEAN = 3,
  TlgOutHEX = 4,
  TlgOutPID = 5,
  TlgOutTID = 6,
  TlgOutPORT = 7,
  TlgOutIPV4 = 8,
  TlgOutIPV6 = 9,
  TlgOutSOCKETADDRESS = 10,
  TlgOutXML = 11,
  TlgOutJSON = 12,
  TlgOutWIN32ERROR = 13,
  TlgOutNTSTATUS = 14,
  TlgOutHRESULT = 15,
  TlgOutFILETIME = 16,
  TlgOutSIGNED = 17,
  TlgOutUNSIGNED = 18,
  TlgOutUTF8 = 35,
  TlgOutPKCS7_WITH_TYPE_INFO = 36,
  TlgOutCODE_POINTER = 37,
  TlgOutDATETIME_UTC = 38
};

#define TraceLoggingInt8(value, ...) OPENETW_TL_F_(0, 0, TlgInINT8, 0, 0, V, (INT8, value), #value, ##__VA_ARGS__)
#define TraceLoggingUInt8(value, ...) OPENETW_TL_F_(0, 0, TlgInUINT8, 0, 0, V, (UINT8, value), #value, ##__VA_ARGS__)
#define TraceLoggingInt16(value, ...) OPENETW_TL_F_(0, 0, TlgInINT16, 0, 0, V, (INT16, value), #value, ##__VA_ARGS__)
#define TraceLoggingUInt16(value, ...)                                                                                 \
  OPENETW_TL_F_(0, 0, TlgInUINT16, 0, 0, V, (UINT16, value), #value, ##__VA_ARGS__)
#define TraceLoggingInt32(value, ...) OPENETW_TL_F_(0, 0, TlgInINT32, 0, 0, V, (INT32, value), #value, ##__VA_ARGS__)
#define TraceLoggingUInt32(value, ...)                                                                                 \
  OPENETW_TL_F_(0, 0, TlgInUINT32, 0, 0, V, (UINT32, value), #value, ##__VA_ARGS__)
#define TraceLoggingInt64(value, ...) OPENETW_TL_F_(0, 0, TlgInINT64, 0, 0, V, (INT64, value), #value, ##__VA_ARGS__)
#define TraceLoggingUInt64(value, ...)                                                                                 \
  OPENETW_TL_F_(0, 0, TlgInUINT64, 0, 0, V, (UINT64, value), #value, ##__VA_ARGS__)
#define TraceLoggingIntPtr(value, ...)                                                                                 \
  OPENETW_TL_F_(0, 0, TlgInINT64, 0, 0, V, (INT_PTR, value), #value, ##__VA_ARGS__)
#define TraceLoggingUIntPtr(value, ...)                                                                                \
  OPENETW_TL_F_(0, 0, TlgInUINT64, 0, 0, V, (UINT_PTR, value), #value, ##__VA_ARGS__)
#define TraceLoggingLong(value, ...) OPENETW_TL_F_(0, 0, TlgInINT32, 0, 0, V, (LONG, value), #value, ##__VA_ARGS__)
#define TraceLoggingULong(value, ...) OPENETW_TL_F_(0, 0, TlgInUINT32, 0, 0, V, (ULONG, value), #value, ##__VA_ARGS__)
#define TraceLoggingHexInt8(value, ...)                                                                                \
  OPENETW_TL_F_(1, 0, TlgInINT8, TlgOutHEX, 0, V, (INT8, value), #value, ##__VA_ARGS__)
#define TraceLoggingHexUInt8(value, ...)                                                                               \
  OPENETW_TL_F_(1, 0, TlgInUINT8, TlgOutHEX, 0, V, (UINT8, value), #value, ##__VA_ARGS__)
#define TraceLoggingHexInt16(value, ...)                                                                               \
  OPENETW_TL_F_(1, 0, TlgInINT16, TlgOutHEX, 0, V, (INT16, value), #value, ##__VA_ARGS__)
#define TraceLoggingHexUInt16(value, ...)                                                                              \
  OPENETW_TL_F_(1, 0, TlgInUINT16, TlgOutHEX, 0, V, (UINT16, value), #value, ##__VA_ARGS__)
#define TraceLoggingHexInt32(value, ...)                                                                               \
  OPENETW_TL_F_(0, 0, TlgInHEXINT32, 0, 0, V, (INT32, value), #value, ##__VA_ARGS__)
#define TraceLoggingHexUInt32(value, ...)                                                                              \
  OPENETW_TL_F_(0, 0, TlgInHEXINT32, 0, 0, V, (UINT32, value), #value, ##__VA_ARGS__)
#define TraceLoggingHexInt64(value, ...)                                                                               \
  OPENETW_TL_F_(0, 0, TlgInHEXINT64, 0, 0, V, (INT64, value), #value, ##__VA_ARGS__)
#define TraceLoggingHexUInt64(value, ...)                                                                              \
  OPENETW_TL_F_(0, 0, TlgInHEXINT64, 0, 0, V, (UINT64, value), #value, ##__VA_ARGS__)
#define TraceLoggingHexIntPtr(value, ...)                                                                              \
  OPENETW_TL_F_(0, 0, TlgInHEXINT64, 0, 0, V, (INT_PTR, value), #value, ##__VA_ARGS__)
#define TraceLoggingHexUIntPtr(value, ...)                                                                             \
  OPENETW_TL_F_(0, 0, TlgInHEXINT64, 0, 0, V, (UINT_PTR, value), #value, ##__VA_ARGS__)
#define TraceLoggingHexLong(value, ...)                                                                                \
  OPENETW_TL_F_(0, 0, TlgInHEXINT32, 0, 0, V, (LONG, value), #value, ##__VA_ARGS__)
#define TraceLoggingHexULong(value, ...)                                                                               \
  OPENETW_TL_F_(0, 0, TlgInHEXINT32, 0, 0, V, (ULONG, value), #value, ##__VA_ARGS__)
#define TraceLoggingFloat32(value, ...)                                                                                \
  OPENETW_TL_F_(0, 0, TlgInFLOAT, 0, 0, V, (FLOAT, value), #value, ##__VA_ARGS__)
#define TraceLoggingFloat64(value, ...)                                                                                \
  OPENETW_TL_F_(0, 0, TlgInDOUBLE, 0, 0, V, (DOUBLE, value), #value, ##__VA_ARGS__)
#define TraceLoggingBoolean(value, ...)                                                                                \
  OPENETW_TL_F_(1, 0, TlgInUINT8, TlgOutBOOLEAN, 0, V, (UINT8, value), #value, ##__VA_ARGS__)
#define TraceLoggingBool(value, ...) OPENETW_TL_F_(0, 0, TlgInBOOL32, 0, 0, V, (INT32, value), #value, ##__VA_ARGS__)
#define TraceLoggingChar(value, ...)                                                                                   \
  OPENETW_TL_F_(1, 0, TlgInUINT8, TlgOutSTRING, 0, V, (CHAR, value), #value, ##__VA_ARGS__)
#define TraceLoggingChar16(value, ...)                                                                                 \
  OPENETW_TL_F_(1, 0, TlgInUINT16, TlgOutSTRING, 0, V, (UINT16, value), #value, ##__VA_ARGS__)
#define TraceLoggingWChar(value, ...)                                                                                  \
  OPENETW_TL_F_(1, 0, TlgInUINT16, TlgOutSTRING, 0, V, (UINT16, value), #value, ##__VA_ARGS__)
#define TraceLoggingPid(value, ...)                                                                                    \
  OPENETW_TL_F_(1, 0, TlgInUINT32, TlgOutPID, 0, V, (UINT32, value), #value, ##__VA_ARGS__)
#define TraceLoggingTid(value, ...)                                                                                    \
  OPENETW_TL_F_(1, 0, TlgInUINT32, TlgOutTID, 0, V, (UINT32, value), #value, ##__VA_ARGS__)
#define TraceLoggingPort(value, ...)                                                                                   \
  OPENETW_TL_F_(1, 0, TlgInUINT16, TlgOutPORT, 0, V, (UINT16, value), #value, ##__VA_ARGS__)
#define TraceLoggingWinError(value, ...)                                                                               \
  OPENETW_TL_F_(1, 0, TlgInUINT32, TlgOutWIN32ERROR, 0, V, (UINT32, value), #value, ##__VA_ARGS__)
#define TraceLoggingNTStatus(value, ...)                                                                               \
  OPENETW_TL_F_(1, 0, TlgInINT32, TlgOutNTSTATUS, 0, V, (INT32, value), #value, ##__VA_ARGS__)
#define TraceLoggingHResult(value, ...)                                                                                \
  OPENETW_TL_F_(1, 0, TlgInINT32, TlgOutHRESULT, 0, V, (INT32, value), #value, ##__VA_ARGS__)
#define TraceLoggingFileTime(value, ...)                                                                               \
  OPENETW_TL_F_(0, 0, TlgInFILETIME, 0, 0, V, (FILETIME, value), #value, ##__VA_ARGS__)
#define TraceLoggingFileTimeUtc(value, ...)                                                                            \
  OPENETW_TL_F_(1, 0, TlgInFILETIME, TlgOutDATETIME_UTC, 0, V, (FILETIME, value), #value, ##__VA_ARGS__)
#define TraceLoggingSystemTime(value, ...)                                                                             \
  OPENETW_TL_F_(0, 0, TlgInSYSTEMTIME, 0, 0, V, (SYSTEMTIME, value), #value, ##__VA_ARGS__)
#define TraceLoggingSystemTimeUtc(value, ...)                                                                          \
  OPENETW_TL_F_(1, 0, TlgInSYSTEMTIME, TlgOutDATETIME_UTC, 0, V, (SYSTEMTIME, value), #value, ##__VA_ARGS__)
#define TraceLoggingGuid(value, ...) OPENETW_TL_F_(0, 0, TlgInGUID, 0, 0, V, (GUID, value), #value, ##__VA_ARGS__)
#define TraceLoggingIPv4Address(value, ...)                                                                            \
  OPENETW_TL_F_(1, 0, TlgInUINT32, TlgOutIPV4, 0, V, (UINT32, value), #value, ##__VA_ARGS__)
#define TraceLoggingPointer(value, ...)                                                                                \
  OPENETW_TL_F_(0, 0, TlgInHEXINT64, 0, 0, V, (UINT64, (UINT64)(UINT_PTR)(value)), #value, ##__VA_ARGS__)
#define TraceLoggingCodePointer(value, ...)                                                                            \
  OPENETW_TL_F_(1, 0, TlgInHEXINT64, TlgOutCODE_POINTER, 0, V, (UINT64, (UINT64)(UINT_PTR)(value)), #value,            \
                ##__VA_ARGS__)

/* Arrays of a constant number of elements, and of a number that is known at run time. */
#define TraceLoggingInt8FixedArray(pointer, count, ...)                                                                \
  OPENETW_TL_F_(0, 1, TlgInINT8 | 0x20, 0, count, X, (INT8, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingInt8Array(pointer, count, ...)                                                                     \
  OPENETW_TL_F_(0, 0, TlgInINT8 | 0x40, 0, 0, A, (INT8, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingUInt8FixedArray(pointer, count, ...)                                                               \
  OPENETW_TL_F_(0, 1, TlgInUINT8 | 0x20, 0, count, X, (UINT8, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingUInt8Array(pointer, count, ...)                                                                    \
  OPENETW_TL_F_(0, 0, TlgInUINT8 | 0x40, 0, 0, A, (UINT8, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingInt16FixedArray(pointer, count, ...)                                                               \
  OPENETW_TL_F_(0, 1, TlgInINT16 | 0x20, 0, count, X, (INT16, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingInt16Array(pointer, count, ...)                                                                    \
  OPENETW_TL_F_(0, 0, TlgInINT16 | 0x40, 0, 0, A, (INT16, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingUInt16FixedArray(pointer, count, ...)                                                              \
  OPENETW_TL_F_(0, 1, TlgInUINT16 | 0x20, 0, count, X, (UINT16, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingUInt16Array(pointer, count, ...)                                                                   \
  OPENETW_TL_F_(0, 0, TlgInUINT16 | 0x40, 0, 0, A, (UINT16, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingInt32FixedArray(pointer, count, ...)                                                               \
  OPENETW_TL_F_(0, 1, TlgInINT32 | 0x20, 0, count, X, (INT32, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingInt32Array(pointer, count, ...)                                                                    \
  OPENETW_TL_F_(0, 0, TlgInINT32 | 0x40, 0, 0, A, (INT32, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingUInt32FixedArray(pointer, count, ...)                                                              \
  OPENETW_TL_F_(0, 1, TlgInUINT32 | 0x20, 0, count, X, (UINT32, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingUInt32Array(pointer, count, ...)                                                                   \
  OPENETW_TL_F_(0, 0, TlgInUINT32 | 0x40, 0, 0, A, (UINT32, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingInt64FixedArray(pointer, count, ...)                                                               \
  OPENETW_TL_F_(0, 1, TlgInINT64 | 0x20, 0, count, X, (INT64, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingInt64Array(pointer, count, ...)                                                                    \
  OPENETW_TL_F_(0, 0, TlgInINT64 | 0x40, 0, 0, A, (INT64, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingUInt64FixedArray(pointer, count, ...)                                                              \
  OPENETW_TL_F_(0, 1, TlgInUINT64 | 0x20, 0, count, X, (UINT64, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingUInt64Array(pointer, count, ...)                                                                   \
  OPENETW_TL_F_(0, 0, TlgInUINT64 | 0x40, 0, 0, A, (UINT64, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingIntPtrFixedArray(pointer, count, ...)                                                              \
  OPENETW_TL_F_(0, 1, TlgInINT64 | 0x20, 0, count, X, (INT_PTR, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingIntPtrArray(pointer, count, ...)                                                                   \
  OPENETW_TL_F_(0, 0, TlgInINT64 | 0x40, 0, 0, A, (INT_PTR, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingUIntPtrFixedArray(pointer, count, ...)                                                             \
  OPENETW_TL_F_(0, 1, TlgInUINT64 | 0x20, 0, count, X, (UINT_PTR, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingUIntPtrArray(pointer, count, ...)                                                                  \
  OPENETW_TL_F_(0, 0, TlgInUINT64 | 0x40, 0, 0, A, (UINT_PTR, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingLongFixedArray(pointer, count, ...)                                                                \
  OPENETW_TL_F_(0, 1, TlgInINT32 | 0x20, 0, count, X, (LONG, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingLongArray(pointer, count, ...)                                                                     \
  OPENETW_TL_F_(0, 0, TlgInINT32 | 0x40, 0, 0, A, (LONG, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingULongFixedArray(pointer, count, ...)                                                               \
  OPENETW_TL_F_(0, 1, TlgInUINT32 | 0x20, 0, count, X, (ULONG, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingULongArray(pointer, count, ...)                                                                    \
  OPENETW_TL_F_(0, 0, TlgInUINT32 | 0x40, 0, 0, A, (ULONG, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingHexInt8FixedArray(pointer, count, ...)                                                             \
  OPENETW_TL_F_(1, 1, TlgInINT8 | 0x20, TlgOutHEX, count, X, (INT8, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingHexInt8Array(pointer, count, ...)                                                                  \
  OPENETW_TL_F_(1, 0, TlgInINT8 | 0x40, TlgOutHEX, 0, A, (INT8, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingHexUInt8FixedArray(pointer, count, ...)                                                            \
  OPENETW_TL_F_(1, 1, TlgInUINT8 | 0x20, TlgOutHEX, count, X, (UINT8, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingHexUInt8Array(pointer, count, ...)                                                                 \
  OPENETW_TL_F_(1, 0, TlgInUINT8 | 0x40, TlgOutHEX, 0, A, (UINT8, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingHexInt16FixedArray(pointer, count, ...)                                                            \
  OPENETW_TL_F_(1, 1, TlgInINT16 | 0x20, TlgOutHEX, count, X, (INT16, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingHexInt16Array(pointer, count, ...)                                                                 \
  OPENETW_TL_F_(1, 0, TlgInINT16 | 0x40, TlgOutHEX, 0, A, (INT16, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingHexUInt16FixedArray(pointer, count, ...)                                                           \
  OPENETW_TL_F_(1, 1, TlgInUINT16 | 0x20, TlgOutHEX, count, X, (UINT16, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingHexUInt16Array(pointer, count, ...)                                                                \
  OPENETW_TL_F_(1, 0, TlgInUINT16 | 0x40, TlgOutHEX, 0, A, (UINT16, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingHexInt32FixedArray(pointer, count, ...)                                                            \
  OPENETW_TL_F_(0, 1, TlgInHEXINT32 | 0x20, 0, count, X, (INT32, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingHexInt32Array(pointer, count, ...)                                                                 \
  OPENETW_TL_F_(0, 0, TlgInHEXINT32 | 0x40, 0, 0, A, (INT32, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingHexUInt32FixedArray(pointer, count, ...)                                                           \
  OPENETW_TL_F_(0, 1, TlgInHEXINT32 | 0x20, 0, count, X, (UINT32, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingHexUInt32Array(pointer, count, ...)                                                                \
  OPENETW_TL_F_(0, 0, TlgInHEXINT32 | 0x40, 0, 0, A, (UINT32, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingHexInt64FixedArray(pointer, count, ...)                                                            \
  OPENETW_TL_F_(0, 1, TlgInHEXINT64 | 0x20, 0, count, X, (INT64, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingHexInt64Array(pointer, count, ...)                                                                 \
  OPENETW_TL_F_(0, 0, TlgInHEXINT64 | 0x40, 0, 0, A, (INT64, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingHexUInt64FixedArray(pointer, count, ...)                                                           \
  OPENETW_TL_F_(0, 1, TlgInHEXINT64 | 0x20, 0, count, X, (UINT64, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingHexUInt64Array(pointer, count, ...)                                                                \
  OPENETW_TL_F_(0, 0, TlgInHEXINT64 | 0x40, 0, 0, A, (UINT64, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingHexIntPtrFixedArray(pointer, count, ...)                                                           \
  OPENETW_TL_F_(0, 1, TlgInHEXINT64 | 0x20, 0, count, X, (INT_PTR, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingHexIntPtrArray(pointer, count, ...)                                                                \
  OPENETW_TL_F_(0, 0, TlgInHEXINT64 | 0x40, 0, 0, A, (INT_PTR, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingHexUIntPtrFixedArray(pointer, count, ...)                                                          \
  OPENETW_TL_F_(0, 1, TlgInHEXINT64 | 0x20, 0, count, X, (UINT_PTR, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingHexUIntPtrArray(pointer, count, ...)                                                               \
  OPENETW_TL_F_(0, 0, TlgInHEXINT64 | 0x40, 0, 0, A, (UINT_PTR, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingHexLongFixedArray(pointer, count, ...)                                                             \
  OPENETW_TL_F_(0, 1, TlgInHEXINT32 | 0x20, 0, count, X, (LONG, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingHexLongArray(pointer, count, ...)                                                                  \
  OPENETW_TL_F_(0, 0, TlgInHEXINT32 | 0x40, 0, 0, A, (LONG, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingHexULongFixedArray(pointer, count, ...)                                                            \
  OPENETW_TL_F_(0, 1, TlgInHEXINT32 | 0x20, 0, count, X, (ULONG, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingHexULongArray(pointer, count, ...)                                                                 \
  OPENETW_TL_F_(0, 0, TlgInHEXINT32 | 0x40, 0, 0, A, (ULONG, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingFloat32FixedArray(pointer, count, ...)                                                             \
  OPENETW_TL_F_(0, 1, TlgInFLOAT | 0x20, 0, count, X, (FLOAT, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingFloat32Array(pointer, count, ...)                                                                  \
  OPENETW_TL_F_(0, 0, TlgInFLOAT | 0x40, 0, 0, A, (FLOAT, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingFloat64FixedArray(pointer, count, ...)                                                             \
  OPENETW_TL_F_(0, 1, TlgInDOUBLE | 0x20, 0, count, X, (DOUBLE, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingFloat64Array(pointer, count, ...)                                                                  \
  OPENETW_TL_F_(0, 0, TlgInDOUBLE | 0x40, 0, 0, A, (DOUBLE, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingBooleanFixedArray(pointer, count, ...)                                                             \
  OPENETW_TL_F_(1, 1, TlgInUINT8 | 0x20, TlgOutBOOLEAN, count, X, (UINT8, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingBooleanArray(pointer, count, ...)                                                                  \
  OPENETW_TL_F_(1, 0, TlgInUINT8 | 0x40, TlgOutBOOLEAN, 0, A, (UINT8, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingBoolFixedArray(pointer, count, ...)                                                                \
  OPENETW_TL_F_(0, 1, TlgInBOOL32 | 0x20, 0, count, X, (INT32, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingBoolArray(pointer, count, ...)                                                                     \
  OPENETW_TL_F_(0, 0, TlgInBOOL32 | 0x40, 0, 0, A, (INT32, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingCharFixedArray(pointer, count, ...)                                                                \
  OPENETW_TL_F_(1, 1, TlgInUINT8 | 0x20, TlgOutSTRING, count, X, (CHAR, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingCharArray(pointer, count, ...)                                                                     \
  OPENETW_TL_F_(1, 0, TlgInUINT8 | 0x40, TlgOutSTRING, 0, A, (CHAR, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingChar16FixedArray(pointer, count, ...)                                                              \
  OPENETW_TL_F_(1, 1, TlgInUINT16 | 0x20, TlgOutSTRING, count, X, (UINT16, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingChar16Array(pointer, count, ...)                                                                   \
  OPENETW_TL_F_(1, 0, TlgInUINT16 | 0x40, TlgOutSTRING, 0, A, (UINT16, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingWCharFixedArray(pointer, count, ...)                                                               \
  OPENETW_TL_F_(1, 1, TlgInUINT16 | 0x20, TlgOutSTRING, count, XL, (pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingWCharArray(pointer, count, ...)                                                                    \
  OPENETW_TL_F_(1, 0, TlgInUINT16 | 0x40, TlgOutSTRING, 0, AL, (pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingFileTimeFixedArray(pointer, count, ...)                                                            \
  OPENETW_TL_F_(0, 1, TlgInFILETIME | 0x20, 0, count, X, (FILETIME, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingFileTimeArray(pointer, count, ...)                                                                 \
  OPENETW_TL_F_(0, 0, TlgInFILETIME | 0x40, 0, 0, A, (FILETIME, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingFileTimeUtcFixedArray(pointer, count, ...)                                                         \
  OPENETW_TL_F_(1, 1, TlgInFILETIME | 0x20, TlgOutDATETIME_UTC, count, X, (FILETIME, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingFileTimeUtcArray(pointer, count, ...)                                                              \
  OPENETW_TL_F_(1, 0, TlgInFILETIME | 0x40, TlgOutDATETIME_UTC, 0, A, (FILETIME, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingSystemTimeFixedArray(pointer, count, ...)                                                          \
  OPENETW_TL_F_(0, 1, TlgInSYSTEMTIME | 0x20, 0, count, X, (SYSTEMTIME, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingSystemTimeArray(pointer, count, ...)                                                               \
  OPENETW_TL_F_(0, 0, TlgInSYSTEMTIME | 0x40, 0, 0, A, (SYSTEMTIME, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingSystemTimeUtcFixedArray(pointer, count, ...)                                                       \
  OPENETW_TL_F_(1, 1, TlgInSYSTEMTIME | 0x20, TlgOutDATETIME_UTC, count, X, (SYSTEMTIME, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingSystemTimeUtcArray(pointer, count, ...)                                                            \
  OPENETW_TL_F_(1, 0, TlgInSYSTEMTIME | 0x40, TlgOutDATETIME_UTC, 0, A, (SYSTEMTIME, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingGuidFixedArray(pointer, count, ...)                                                                \
  OPENETW_TL_F_(0, 1, TlgInGUID | 0x20, 0, count, X, (GUID, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingGuidArray(pointer, count, ...)                                                                     \
  OPENETW_TL_F_(0, 0, TlgInGUID | 0x40, 0, 0, A, (GUID, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingPointerFixedArray(pointer, count, ...)                                                             \
  OPENETW_TL_F_(0, 1, TlgInHEXINT64 | 0x20, 0, count, X, (void *, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingPointerArray(pointer, count, ...)                                                                  \
  OPENETW_TL_F_(0, 0, TlgInHEXINT64 | 0x40, 0, 0, A, (void *, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingCodePointerFixedArray(pointer, count, ...)                                                         \
  OPENETW_TL_F_(1, 1, TlgInHEXINT64 | 0x20, TlgOutCODE_POINTER, count, X, (void *, pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingCodePointerArray(pointer, count, ...)                                                              \
  OPENETW_TL_F_(1, 0, TlgInHEXINT64 | 0x40, TlgOutCODE_POINTER, 0, A, (void *, pointer, count), #pointer, ##__VA_ARGS__)

/* Text that ends with a zero; NULL is empty text. The 8-bit forms differ in how the text is shown. */
#define TraceLoggingString(value, ...) OPENETW_TL_F_(0, 0, TlgInANSISTRING, 0, 0, S, (value), #value, ##__VA_ARGS__)
#define TraceLoggingUtf8String(value, ...)                                                                             \
  OPENETW_TL_F_(1, 0, TlgInANSISTRING, TlgOutUTF8, 0, S, (value), #value, ##__VA_ARGS__)
#define TraceLoggingWideString(value, ...)                                                                             \
  OPENETW_TL_F_(0, 0, TlgInUNICODESTRING, 0, 0, L, (value), #value, ##__VA_ARGS__)
#define TraceLoggingString16(value, ...)                                                                               \
  OPENETW_TL_F_(0, 0, TlgInUNICODESTRING, 0, 0, U, (value), #value, ##__VA_ARGS__)

/* Text of a number of characters. */
#define TraceLoggingCountedString(pointer, count, ...)                                                                 \
  OPENETW_TL_F_(0, 0, TlgInCOUNTEDANSISTRING, 0, 0, C, (pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingCountedAnsiString(pointer, count, ...)                                                             \
  OPENETW_TL_F_(0, 0, TlgInCOUNTEDANSISTRING, 0, 0, C, (pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingCountedUtf8String(pointer, count, ...)                                                             \
  OPENETW_TL_F_(1, 0, TlgInCOUNTEDANSISTRING, TlgOutUTF8, 0, C, (pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingCountedWideString(pointer, count, ...)                                                             \
  OPENETW_TL_F_(0, 0, TlgInCOUNTEDSTRING, 0, 0, CL, (pointer, count), #pointer, ##__VA_ARGS__)
#define TraceLoggingCountedString16(pointer, count, ...)                                                               \
  OPENETW_TL_F_(0, 0, TlgInCOUNTEDSTRING, 0, 0, CU, (pointer, count), #pointer, ##__VA_ARGS__)
/* A UNICODE_STRING or ANSI_STRING by its address. */
#define TraceLoggingUnicodeString(value, ...)                                                                          \
  OPENETW_TL_F_(0, 0, TlgInCOUNTEDSTRING, 0, 0, CL, ((value)->Buffer, (value)->Length / sizeof(WCHAR)), #value,        \
                ##__VA_ARGS__)
#define TraceLoggingAnsiString(value, ...)                                                                             \
  OPENETW_TL_F_(0, 0, TlgInCOUNTEDANSISTRING, 0, 0, C, ((value)->Buffer, (value)->Length), #value, ##__VA_ARGS__)

/* Bytes. */
#define TraceLoggingBinary(pointer, size, ...)                                                                         \
  OPENETW_TL_F_(0, 0, TlgInBINARY, 0, 0, C, (pointer, size), #pointer, ##__VA_ARGS__)
#define TraceLoggingBinaryEx(pointer, size, outType, ...)                                                              \
  OPENETW_TL_F_(1, 0, TlgInBINARY, outType, 0, C, (pointer, size), #pointer, ##__VA_ARGS__)
/* What a structure with the members Buffer and Length (in bytes) points to. */
#define TraceLoggingBinaryBuffer(pointer, type, ...)                                                                   \
  OPENETW_TL_F_(0, 0, TlgInBINARY, 0, 0, C, (((const type *)(pointer))->Buffer, ((const type *)(pointer))->Length),    \
                #pointer, ##__VA_ARGS__)
#define TraceLoggingBinaryBufferEx(pointer, type, outType, ...)                                                        \
  OPENETW_TL_F_(1, 0, TlgInBINARY, outType, 0, C,                                                                      \
                (((const type *)(pointer))->Buffer, ((const type *)(pointer))->Length), #pointer, ##__VA_ARGS__)
/* A struct sockaddr of this system; recorded with the numbers of Windows. */
#define TraceLoggingSocketAddress(pointer, size, ...)                                                                  \
  OPENETW_TL_F_(1, 0, TlgInBINARY, TlgOutSOCKETADDRESS, 0, K, (pointer, size), #pointer, ##__VA_ARGS__)
/* 16 bytes. */
#define TraceLoggingIPv6Address(pointer, ...)                                                                          \
  OPENETW_TL_F_(1, 0, TlgInBINARY, TlgOutIPV6, 0, C, (pointer, 16), #pointer, ##__VA_ARGS__)
/* A SID in its binary form. */
#define TraceLoggingSid(pointer, ...)                                                                                  \
  OPENETW_TL_F_(0, 0, TlgInSID, 0, 0, B, (pointer, 8 + 4 * ((const UINT8 *)(pointer))[1]), #pointer, ##__VA_ARGS__)

/* The next `fieldCount` fields (1 to 127) are members of a structure: (fieldCount, "name", "description", tags). */
#define TraceLoggingStruct(fieldCount, ...)                                                                            \
  OPENETW_TL_F_(1, 0, TlgInSTRUCT, (fieldCount), 0, Z, (0), "", ##__VA_ARGS__)

/*
 * Packed fields: descriptions apart from the data. One TraceLoggingPackedData has the values of several
 * TraceLoggingPackedMetadata.
 */
#define TraceLoggingPackedField(pointer, size, inType, ...)                                                            \
  OPENETW_TL_F_(0, 0, inType, 0, 0, B, (pointer, size), #pointer, ##__VA_ARGS__)
#define TraceLoggingPackedFieldEx(pointer, size, inType, outType, ...)                                                 \
  OPENETW_TL_F_(1, 0, inType, outType, 0, B, (pointer, size), #pointer, ##__VA_ARGS__)
#define TraceLoggingPackedMetadata(inType, ...) OPENETW_TL_F_(0, 0, inType, 0, 0, Z, (0), "", ##__VA_ARGS__)
#define TraceLoggingPackedMetadataEx(inType, outType, ...)                                                             \
  OPENETW_TL_F_(1, 0, inType, outType, 0, Z, (0), "", ##__VA_ARGS__)
#define TraceLoggingPackedStruct(fieldCount, ...)                                                                      \
  OPENETW_TL_F_(1, 0, TlgInSTRUCT, (fieldCount), 0, Z, (0), "", ##__VA_ARGS__)
/* Its data starts with the number of structures, as 16 bits. */
#define TraceLoggingPackedStructArray(fieldCount, ...)                                                                 \
  OPENETW_TL_F_(1, 0, TlgInSTRUCT | 0x40, (fieldCount), 0, Z, (0), "", ##__VA_ARGS__)
#define TraceLoggingPackedData(pointer, size) (D, B, (pointer, size))
#define TraceLoggingPackedDataEx(pointer, size, dataType) (D, B, (pointer, size))

/*
 * Data of a program's own format: `protocol` (5 to 31) says which, and the `cbSchema` constant bytes of `bSchema`, in
 * parentheses, describe it.
 */
#define TraceLoggingCustom(pbValue, cbValue, protocol, bSchema, cbSchema, ...)                                         \
  OPENETW_TL_F_(1, 2, TlgInBINARY | 0x60, protocol, (bSchema, cbSchema), C, (pbValue, cbValue), #pbValue,              \
                ##__VA_ARGS__)

#ifdef __cplusplus
/* A field whose type is that of the value. */
#define TraceLoggingValue(value, ...)                                                                                  \
  OPENETW_TL_F_(1, 0, (::openetw_tl::Auto<typename ::std::decay<decltype(value)>::type>::in),                          \
                (::openetw_tl::Auto<typename ::std::decay<decltype(value)>::type>::out), 0, Q, (value), #value,        \
                ##__VA_ARGS__)
#endif

/*
 * What the macros above become. An argument of TraceLoggingWrite is one of
 *   (O, level + 1, keyword, opcode, channel + 1)          an option
 *   (T, tag)                                              the event's tag
 *   (F, name, size of type, (type), kind, (data))         a field
 *   (D, kind, (data))                                     data without a field
 * and each pass over the arguments takes what it needs of them.
 */

#define OPENETW_TL_F_(hasOut, hasCount, in, out, count, kind, data, ...)                                               \
  OPENETW_TL_F2_(OPENETW_TL_SELECT_(__VA_ARGS__, 4, 3, 2, 1, 0), hasOut, hasCount, in, out, count, kind, data,         \
                 __VA_ARGS__)
#define OPENETW_TL_SELECT_(a, b, c, d, count, ...) count
#define OPENETW_TL_F2_(arity, ...) OPENETW_TL_F3_(arity, __VA_ARGS__)
#define OPENETW_TL_F3_(arity, ...) OPENETW_TL_NAMED##arity##_(__VA_ARGS__)
#define OPENETW_TL_NAMED1_(o, c, in, out, count, kind, data, name)                                                     \
  (F, name, OPENETW_TL_TYPE0##o##c##_(in, out, count, 0), kind, data)
#define OPENETW_TL_NAMED2_(o, c, in, out, count, kind, data, text, name)                                               \
  (F, name, OPENETW_TL_TYPE0##o##c##_(in, out, count, 0), kind, data)
#define OPENETW_TL_NAMED3_(o, c, in, out, count, kind, data, text, name, description)                                  \
  (F, name, OPENETW_TL_TYPE0##o##c##_(in, out, count, 0), kind, data)
#define OPENETW_TL_NAMED4_(o, c, in, out, count, kind, data, text, name, description, tags)                            \
  (F, name, OPENETW_TL_TYPE1##o##c##_(in, out, count, tags), kind, data)

/* The bytes of a type: in-type, out-type, tags, number of elements; by the presence of tags, out-type and number. */
#define OPENETW_TL_TYPE000_(in, out, count, tags) 1, ((UINT8)(in))
#define OPENETW_TL_TYPE001_(in, out, count, tags) 3, ((UINT8)(in), OPENETW_TL_COUNT_(count))
#define OPENETW_TL_TYPE010_(in, out, count, tags) 2, ((UINT8)((in) | 0x80), (UINT8)(out))
#define OPENETW_TL_TYPE011_(in, out, count, tags) 4, ((UINT8)((in) | 0x80), (UINT8)(out), OPENETW_TL_COUNT_(count))
#define OPENETW_TL_TYPE100_(in, out, count, tags) 6, ((UINT8)((in) | 0x80), 0x80, OPENETW_TL_TAGS_(tags))
#define OPENETW_TL_TYPE101_(in, out, count, tags)                                                                      \
  8, ((UINT8)((in) | 0x80), 0x80, OPENETW_TL_TAGS_(tags), OPENETW_TL_COUNT_(count))
#define OPENETW_TL_TYPE110_(in, out, count, tags)                                                                      \
  6, ((UINT8)((in) | 0x80), (UINT8)((out) | 0x80), OPENETW_TL_TAGS_(tags))
#define OPENETW_TL_TYPE111_(in, out, count, tags)                                                                      \
  8, ((UINT8)((in) | 0x80), (UINT8)((out) | 0x80), OPENETW_TL_TAGS_(tags), OPENETW_TL_COUNT_(count))
/* With a custom schema in place of the number. */
#define OPENETW_TL_TYPE012_(in, out, count, tags)                                                                      \
  4 + OPENETW_TL_SCHEMA_SIZE_ count, ((UINT8)((in) | 0x80), (UINT8)(out), OPENETW_TL_SCHEMA_ count)
#define OPENETW_TL_TYPE112_(in, out, count, tags)                                                                      \
  8 + OPENETW_TL_SCHEMA_SIZE_ count,                                                                                   \
      ((UINT8)((in) | 0x80), (UINT8)((out) | 0x80), OPENETW_TL_TAGS_(tags), OPENETW_TL_SCHEMA_ count)
#define OPENETW_TL_SCHEMA_SIZE_(schema, size) (size)
#define OPENETW_TL_SCHEMA_(schema, size) OPENETW_TL_COUNT_(size), OPENETW_TL_BYTES_ schema
#define OPENETW_TL_COUNT_(count) (UINT8)((count) & 0xFF), (UINT8)((count) >> 8 & 0xFF)
#define OPENETW_TL_TAGS_(tags)                                                                                         \
  (UINT8)(((tags) >> 21 & 0x7F) | 0x80), (UINT8)(((tags) >> 14 & 0x7F) | 0x80), (UINT8)(((tags) >> 7 & 0x7F) | 0x80),  \
      (UINT8)((tags) & 0x7F)

/* Calls a pass with a number and the parts of an argument. */
#define OPENETW_TL_ONE_(pass, number, argument) OPENETW_TL_ONE2_(pass, number, OPENETW_TL_PARTS_ argument)
#define OPENETW_TL_PARTS_(...) __VA_ARGS__
#define OPENETW_TL_ONE2_(pass, number, ...) OPENETW_TL_ONE3_(pass, number, __VA_ARGS__)
#define OPENETW_TL_ONE3_(pass, number, kind, ...) OPENETW_TL_##pass##_##kind##_(number, __VA_ARGS__)
#define OPENETW_TL_BYTES_(...) __VA_ARGS__

/* The options. */
#define OPENETW_TL_LEVEL_O_(number, level, keyword, opcode, channel) +(level)
#define OPENETW_TL_LEVEL_T_(...)
#define OPENETW_TL_LEVEL_F_(...)
#define OPENETW_TL_LEVEL_D_(...)
#define OPENETW_TL_KEYWORD_O_(number, level, keyword, opcode, channel) | (UINT64)(keyword)
#define OPENETW_TL_KEYWORD_T_(...)
#define OPENETW_TL_KEYWORD_F_(...)
#define OPENETW_TL_KEYWORD_D_(...)
#define OPENETW_TL_OPCODE_O_(number, level, keyword, opcode, channel) | (opcode)
#define OPENETW_TL_OPCODE_T_(...)
#define OPENETW_TL_OPCODE_F_(...)
#define OPENETW_TL_OPCODE_D_(...)
#define OPENETW_TL_CHANNEL_O_(number, level, keyword, opcode, channel) +(channel)
#define OPENETW_TL_CHANNEL_T_(...)
#define OPENETW_TL_CHANNEL_F_(...)
#define OPENETW_TL_CHANNEL_D_(...)
/* The event's tag: three bytes if there is one, and the last byte, which every event has. */
#define OPENETW_TL_TAGSHAPE_O_(...)
#define OPENETW_TL_TAGSHAPE_T_(number, tag) UINT8 openetwTag[3];
#define OPENETW_TL_TAGSHAPE_F_(...)
#define OPENETW_TL_TAGSHAPE_D_(...)
#define OPENETW_TL_TAG_O_(...)
#define OPENETW_TL_TAG_T_(number, tag)                                                                                 \
  {(UINT8)(((tag) >> 21 & 0x7F) | 0x80), (UINT8)(((tag) >> 14 & 0x7F) | 0x80), (UINT8)(((tag) >> 7 & 0x7F) | 0x80)},
#define OPENETW_TL_TAG_F_(...)
#define OPENETW_TL_TAG_D_(...)
#define OPENETW_TL_LASTTAG_O_(...)
#define OPENETW_TL_LASTTAG_T_(number, tag) | ((tag) & 0x7F)
#define OPENETW_TL_LASTTAG_F_(...)
#define OPENETW_TL_LASTTAG_D_(...)
/* The fields' descriptions: their shape and their bytes. */
#define OPENETW_TL_SHAPE_O_(...)
#define OPENETW_TL_SHAPE_T_(...)
#define OPENETW_TL_SHAPE_F_(number, name, size, type, kind, data)                                                      \
  char openetwName##number[sizeof(name)];                                                                              \
  UINT8 openetwType##number[size];
#define OPENETW_TL_SHAPE_D_(...)

#define OPENETW_TL_VALUE_O_(...)
#define OPENETW_TL_VALUE_T_(...)
#define OPENETW_TL_VALUE_F_(number, name, size, type, kind, data) name, {OPENETW_TL_BYTES_ type},
#define OPENETW_TL_VALUE_D_(...)
/* The data. */
#define OPENETW_TL_DATA_O_(...)
#define OPENETW_TL_DATA_T_(...)
#define OPENETW_TL_DATA_F_(number, name, size, type, kind, data) OPENETW_TL_DATA_##kind##_ data
#define OPENETW_TL_DATA_D_(number, kind, data) OPENETW_TL_DATA_##kind##_ data
#define OPENETW_TL_DATA_Z_(none)

/* The description follows the constant parts as an extended item of the record: its own header, then the metadata. */
#define OPENETW_TL_EVENT_(eventName, ...) OPENETW_TL_NAMED_(const, eventName, eventName, ##__VA_ARGS__)
/* The name's size and its text, for names that are no literals. */
#define OPENETW_TL_NAMED_(qualifier, eventName, nameText, ...)                                                         \
  __extension__ static qualifier struct {                                                                                  \
    struct openetw_tl_event event;                                                                                     \
    struct {                                                                                                           \
      UINT16 size;                                                                                                     \
      UINT16 type;                                                                                                     \
      UINT16 linkage;                                                                                                  \
      UINT16 dataSize;                                                                                                 \
      struct {                                                                                                         \
        UINT16 size;                                                                                                   \
        OPENETW_TL_EACH_(TAGSHAPE, 0, ##__VA_ARGS__)                                                                   \
        UINT8 lastTag;                                                                                                 \
        char openetwEventName[sizeof(eventName)];                                                                      \
        OPENETW_TL_EACH_(SHAPE, 0, ##__VA_ARGS__)                                                                      \
      } __attribute__((packed)) data;                                                                                  \
    } __attribute__((aligned(8))) item;                                                                                \
  } openetwEvent = {                                                                                                   \
      {(UINT64)(UINT8)((0 OPENETW_TL_EACH_(CHANNEL, 0, ##__VA_ARGS__))                                                 \
                           ? (0 OPENETW_TL_EACH_(CHANNEL, 0, ##__VA_ARGS__)) - 1                                       \
                           : 11) << 24 |                                                                               \
           (UINT64)(UINT8)OPENETW_TL_LEVEL_OF_(0, ##__VA_ARGS__) << 32 |                                               \
           (UINT64)(UINT8)(0 OPENETW_TL_EACH_(OPCODE, 0, ##__VA_ARGS__)) << 40,                                        \
       0 OPENETW_TL_EACH_(KEYWORD, 0, ##__VA_ARGS__)},                                                                 \
      {(UINT16)sizeof(openetwEvent.item),                                                                              \
       11,                                                                                                             \
       0,                                                                                                              \
       (UINT16)sizeof(openetwEvent.item.data),                                                                         \
       {(UINT16)sizeof(openetwEvent.item.data),                                                                        \
        OPENETW_TL_EACH_(TAG, 0, ##__VA_ARGS__)(UINT8)(0 OPENETW_TL_EACH_(LASTTAG, 0, ##__VA_ARGS__)),                 \
        nameText, OPENETW_TL_EACH_(VALUE, 0, ##__VA_ARGS__)}}}

/* 5 (verbose) without TraceLoggingLevel. */
#define OPENETW_TL_LEVEL_OF_(none, ...)                                                                                \
  ((0 OPENETW_TL_EACH_(LEVEL, 0, ##__VA_ARGS__)) ? (0 OPENETW_TL_EACH_(LEVEL, 0, ##__VA_ARGS__)) - 1 : 5)

#define OPENETW_TL_CHECK_                                                                                              \
  OPENETW_TL_ASSERT_(sizeof(openetwEvent.item) <= 0xFF00, "the description of the event is too large")
#ifdef __cplusplus
#define OPENETW_TL_ASSERT_ static_assert
#else
#define OPENETW_TL_ASSERT_ _Static_assert
#endif

#ifndef __cplusplus

#define OPENETW_TL_WRITE_(handle, activityId, relatedId, eventName, ...)                                               \
  do {                                                                                                                 \
    struct _tlgProvider_t *const openetwProvider = (handle);                                                           \
    if (OPENETW_TL_IS_OPEN_(openetwProvider, OPENETW_TL_LEVEL_OF_(0, ##__VA_ARGS__))) {                                \
      OPENETW_TL_EVENT_(eventName, ##__VA_ARGS__);                                                                     \
      OPENETW_TL_CHECK_;                                                                                               \
      const struct openetw_tl_data openetwData[] = {OPENETW_TL_EACH_(DATA, 0, ##__VA_ARGS__){0, 0, 0}};                \
      openetw_tl_send(openetwProvider, &openetwEvent.event, (activityId), (relatedId),                                 \
                      sizeof openetwData / sizeof openetwData[0] - 1, openetwData);                                    \
    }                                                                                                                  \
  } while (0)

#define OPENETW_TL_DATA_V_(type, value) openetw_tl_value((type[1]){value}, sizeof(type)),
#define OPENETW_TL_DATA_X_(type, pointer, count) openetw_tl_bytes((const type *){pointer}, (count) * sizeof(type)),
#define OPENETW_TL_DATA_A_(type, pointer, count) openetw_tl_array((const type *){pointer}, (count), sizeof(type)),
#define OPENETW_TL_DATA_XL_(pointer, count) openetw_tl_wide_array((pointer), (count), OPENETW_TL_UNITS32),
#define OPENETW_TL_DATA_AL_(pointer, count) openetw_tl_wide_array((pointer), (count), OPENETW_TL_CHARS32),
#define OPENETW_TL_DATA_S_(value) openetw_tl_text8(value),
#define OPENETW_TL_DATA_L_(value) openetw_tl_wide(value),
#define OPENETW_TL_DATA_U_(value) openetw_tl_text16(value),
#define OPENETW_TL_DATA_C_(pointer, count) openetw_tl_counted((pointer), (count)),
#define OPENETW_TL_DATA_CL_(pointer, count) openetw_tl_counted_wide((pointer), (count)),
#define OPENETW_TL_DATA_CU_(pointer, count) openetw_tl_counted((pointer), 2 * (size_t)(count)),
#define OPENETW_TL_DATA_K_(pointer, size) openetw_tl_socket((pointer), (size)),
#define OPENETW_TL_DATA_B_(pointer, size) openetw_tl_bytes((pointer), (size)),

#endif

/* 4 GiB and more are as impossible as 64 KiB. */
static inline __attribute__((unused)) struct openetw_tl_data openetw_tl_of(const void *pointer, size_t size,
                                                                           UINT32 kind) {
  struct openetw_tl_data data = {(UINT64)(UINT_PTR)pointer, size > 0x100000 ? 0x100000u : (UINT32)size, kind};
  return data;
}
static inline __attribute__((unused)) struct openetw_tl_data openetw_tl_bytes(const void *pointer, size_t size) {
  return openetw_tl_of(pointer, size, OPENETW_TL_BYTES);
}
/* A value that lives until the event is written. The size is constant, so this is a few moves. */
static inline __attribute__((unused, always_inline)) struct openetw_tl_data openetw_tl_value(const void *pointer,
                                                                                             size_t size) {
  struct openetw_tl_data data = {0, (UINT32)size, OPENETW_TL_VALUE};
  if (size > sizeof data.pointer) {
    return openetw_tl_bytes(pointer, size);
  }
  memcpy(&data.pointer, pointer, size);
  return data;
}
static inline __attribute__((unused)) struct openetw_tl_data openetw_tl_counted(const void *pointer, size_t size) {
  return openetw_tl_of(pointer, size, OPENETW_TL_COUNTED);
}
static inline __attribute__((unused)) struct openetw_tl_data openetw_tl_socket(const void *pointer, size_t size) {
  return openetw_tl_of(pointer, size, OPENETW_TL_SOCKET);
}
static inline __attribute__((unused)) struct openetw_tl_data openetw_tl_array(const void *pointer, size_t count,
                                                                              size_t element) {
  return openetw_tl_of(pointer, (count > 0xFFFF ? 0x10000 : count) * element, OPENETW_TL_ARRAY | (UINT32)element << 8);
}
static inline __attribute__((unused)) struct openetw_tl_data openetw_tl_text8(const char *text) {
  return openetw_tl_of(text ? text : "", text ? strlen(text) + 1 : 1, OPENETW_TL_BYTES);
}
static inline __attribute__((unused)) struct openetw_tl_data openetw_tl_text16(const void *text) {
  static const UINT16 empty[1] = {0};
  const UINT16 *units = text ? (const UINT16 *)text : empty;
  size_t count = 0;
  while (units[count]) {
    count++;
  }
  return openetw_tl_of(units, 2 * (count + 1), OPENETW_TL_BYTES);
}
static inline __attribute__((unused)) struct openetw_tl_data openetw_tl_counted_wide(const WCHAR *text, size_t count) {
#if OPENETW_WIDE_BITS == 32
  return openetw_tl_of(text, count, OPENETW_TL_COUNTED32);
#else
  return openetw_tl_of(text, 2 * count, OPENETW_TL_COUNTED);
#endif
}
/* Elements; `kind` is that of characters of 32 bits, with their number or without. */
static inline __attribute__((unused)) struct openetw_tl_data openetw_tl_wide_array(const WCHAR *text, size_t count,
                                                                                   UINT32 kind) {
#if OPENETW_WIDE_BITS == 32
  return openetw_tl_of(text, count, kind);
#else
  return kind == OPENETW_TL_CHARS32 ? openetw_tl_array(text, count, 2) : openetw_tl_bytes(text, 2 * count);
#endif
}
static inline __attribute__((unused)) struct openetw_tl_data openetw_tl_wide(const WCHAR *text) {
#if OPENETW_WIDE_BITS == 32
  return openetw_tl_of(text, text ? wcslen(text) : 0, OPENETW_TL_TEXT32);
#else
  return openetw_tl_text16(text);
#endif
}

#ifdef __cplusplus

#define OPENETW_TL_WRITE_(handle, activityId, relatedId, eventName, ...)                                               \
  do {                                                                                                                 \
    struct _tlgProvider_t *const openetwProvider = (handle);                                                           \
    if (OPENETW_TL_IS_OPEN_(openetwProvider, OPENETW_TL_LEVEL_OF_(0, ##__VA_ARGS__))) {                                \
      OPENETW_TL_EVENT_(eventName, ##__VA_ARGS__);                                                                     \
      OPENETW_TL_CHECK_;                                                                                               \
      ::openetw_tl::write(openetwProvider, &openetwEvent.event, (activityId),                                          \
                          (relatedId)OPENETW_TL_EACH_(DATA, 0, ##__VA_ARGS__));                                        \
    }                                                                                                                  \
  } while (0)

#define OPENETW_TL_DATA_V_(type, value) , ::openetw_tl::Plain<type>{(type)(value)}
#define OPENETW_TL_DATA_X_(type, pointer, count)                                                                       \
  , openetw_tl_bytes(static_cast<type const *>(pointer), (count) * sizeof(type))
#define OPENETW_TL_DATA_A_(type, pointer, count)                                                                       \
  , openetw_tl_array(static_cast<type const *>(pointer), (count), sizeof(type))
#define OPENETW_TL_DATA_XL_(pointer, count) , openetw_tl_wide_array((pointer), (count), OPENETW_TL_UNITS32)
#define OPENETW_TL_DATA_AL_(pointer, count) , openetw_tl_wide_array((pointer), (count), OPENETW_TL_CHARS32)
#define OPENETW_TL_DATA_S_(value) , openetw_tl_text8(value)
#define OPENETW_TL_DATA_L_(value) , openetw_tl_wide(value)
#define OPENETW_TL_DATA_U_(value) , openetw_tl_text16(value)
#define OPENETW_TL_DATA_C_(pointer, count) , openetw_tl_counted((pointer), (count))
#define OPENETW_TL_DATA_CL_(pointer, count) , openetw_tl_counted_wide((pointer), (count))
#define OPENETW_TL_DATA_CU_(pointer, count) , openetw_tl_counted((pointer), 2 * (size_t)(count))
#define OPENETW_TL_DATA_K_(pointer, size) , openetw_tl_socket((pointer), (size))
#define OPENETW_TL_DATA_B_(pointer, size) , openetw_tl_bytes((pointer), (size))
#define OPENETW_TL_DATA_Q_(value) , ::openetw_tl::Auto<typename ::std::decay<decltype(value)>::type>::data(value)

extern "C++" {
namespace openetw_tl {

/* A value that lives until the event is written. */
template <class T> struct Plain {
  T value;
};
template <class T>
__attribute__((always_inline)) inline struct openetw_tl_data data_of(Plain<T> const &plain) {
  return openetw_tl_value(&plain.value, sizeof(T));
}
__attribute__((always_inline)) inline struct openetw_tl_data data_of(struct openetw_tl_data const &data) {
  return data;
}

/* Whether all parts are values of at most 8 bytes. The types tell it, also where the optimiser cannot. */
template <class... Parts> struct AreValues : ::std::true_type {};
template <class T, class... Rest>
struct AreValues<Plain<T>, Rest...> : ::std::integral_constant<bool, sizeof(T) <= 8 && AreValues<Rest...>::value> {};
template <class... Rest> struct AreValues<struct openetw_tl_data, Rest...> : ::std::false_type {};

template <class... Parts>
__attribute__((always_inline)) inline void
write(struct _tlgProvider_t *provider, struct openetw_tl_event const *event, LPCGUID activity, LPCGUID related,
      Parts const &...parts) {
  struct openetw_tl_data const data[] = {data_of(parts)..., {0, 0, 0}};
  const size_t count = sizeof...(parts);
  if (AreValues<Parts...>::value && count != 0 && count <= OPENETW_TL_PACKED_) {
    openetw_tl_send_values(provider, event, activity, related, count, data);
  } else {
    openetw_tl_send(provider, event, activity, related, count, data);
  }
}

/* The type of a value, for TraceLoggingValue. Types without one do not compile. */
template <class T> struct Auto;
#define OPENETW_TL_AUTO_(type, inType, outType)                                                                        \
  template <> struct Auto<type> {                                                                                      \
    enum { in = inType, out = outType };                                                                               \
    static Plain<type> data(type value) { return Plain<type>{value}; }                                                 \
  };
OPENETW_TL_AUTO_(bool, TlgInUINT8, TlgOutBOOLEAN)
OPENETW_TL_AUTO_(char, TlgInUINT8, TlgOutSTRING)
OPENETW_TL_AUTO_(signed char, TlgInINT8, TlgOutNULL)
OPENETW_TL_AUTO_(unsigned char, TlgInUINT8, TlgOutNULL)
OPENETW_TL_AUTO_(short, TlgInINT16, TlgOutNULL)
OPENETW_TL_AUTO_(unsigned short, TlgInUINT16, TlgOutNULL)
OPENETW_TL_AUTO_(int, TlgInINT32, TlgOutNULL)
OPENETW_TL_AUTO_(unsigned int, TlgInUINT32, TlgOutNULL)
OPENETW_TL_AUTO_(long, TlgInINT64, TlgOutNULL)
OPENETW_TL_AUTO_(unsigned long, TlgInUINT64, TlgOutNULL)
OPENETW_TL_AUTO_(long long, TlgInINT64, TlgOutNULL)
OPENETW_TL_AUTO_(unsigned long long, TlgInUINT64, TlgOutNULL)
OPENETW_TL_AUTO_(float, TlgInFLOAT, TlgOutNULL)
OPENETW_TL_AUTO_(double, TlgInDOUBLE, TlgOutNULL)
OPENETW_TL_AUTO_(GUID, TlgInGUID, TlgOutNULL)
OPENETW_TL_AUTO_(FILETIME, TlgInFILETIME, TlgOutNULL)
OPENETW_TL_AUTO_(SYSTEMTIME, TlgInSYSTEMTIME, TlgOutNULL)
OPENETW_TL_AUTO_(char16_t, TlgInUINT16, TlgOutSTRING)
template <> struct Auto<wchar_t> {
  enum { in = TlgInUINT16, out = TlgOutSTRING };
  static Plain<UINT16> data(wchar_t value) { return Plain<UINT16>{(UINT16)value}; }
};
#undef OPENETW_TL_AUTO_
template <> struct Auto<const char *> {
  enum { in = TlgInANSISTRING, out = TlgOutNULL };
  static struct openetw_tl_data data(const char *value) { return openetw_tl_text8(value); }
};
template <> struct Auto<char *> : Auto<const char *> {};
template <> struct Auto<const WCHAR *> {
  enum { in = TlgInUNICODESTRING, out = TlgOutNULL };
  static struct openetw_tl_data data(const WCHAR *value) { return openetw_tl_wide(value); }
};
template <> struct Auto<WCHAR *> : Auto<const WCHAR *> {};
#if !defined(OPENETW_USE_CHAR16)
template <> struct Auto<const char16_t *> {
  enum { in = TlgInUNICODESTRING, out = TlgOutNULL };
  static struct openetw_tl_data data(const char16_t *value) { return openetw_tl_text16(value); }
};
template <> struct Auto<char16_t *> : Auto<const char16_t *> {};
#endif
template <> struct Auto<const SID *> {
  enum { in = TlgInSID, out = TlgOutNULL };
  static struct openetw_tl_data data(const SID *value) {
    return openetw_tl_bytes(value, 8 + 4 * (size_t)value->SubAuthorityCount);
  }
};
template <> struct Auto<SID *> : Auto<const SID *> {};
template <> struct Auto<decltype(nullptr)> {
  enum { in = TlgInHEXINT64, out = TlgOutNULL };
  static Plain<UINT64> data(decltype(nullptr)) { return Plain<UINT64>{0}; }
};
template <> struct Auto<std::string> {
  enum { in = TlgInCOUNTEDANSISTRING, out = TlgOutNULL };
  static struct openetw_tl_data data(std::string const &value) {
    return openetw_tl_counted(value.data(), value.size());
  }
};
template <class T> struct Auto<T *> {
  enum { in = TlgInHEXINT64, out = TlgOutNULL };
  static Plain<UINT64> data(T const *value) { return Plain<UINT64>{(UINT64)(UINT_PTR)value}; }
};

} // namespace openetw_tl
}

#endif

/* Applies a pass to each of up to 99 arguments. */
#define OPENETW_TL_EACH_(pass, none, ...) OPENETW_TL_EACH2_(OPENETW_TL_NARG_(none, ##__VA_ARGS__), pass, ##__VA_ARGS__)
#define OPENETW_TL_EACH2_(count, pass, ...) OPENETW_TL_EACH3_(count, pass, ##__VA_ARGS__)
#define OPENETW_TL_EACH3_(count, pass, ...) OPENETW_TL_EACH_##count##_(pass, ##__VA_ARGS__)

#define OPENETW_TL_NARG_(none, ...)                                                                                    \
  OPENETW_TL_NARG2_(none, ##__VA_ARGS__, 99, 98, 97, 96, 95, 94, 93, 92, 91, 90, 89, 88, 87, 86, 85, 84, 83, 82, 81,   \
  80, 79, 78, 77, 76, 75, 74, 73, 72, 71, 70, 69, 68, 67, 66, 65, 64, 63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53,      \
  52, 51, 50, 49, 48, 47, 46, 45, 44, 43, 42, 41, 40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25,      \
  24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define OPENETW_TL_NARG2_(                                                                                             \
    a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, a22, a23,      \
    a24, a25, a26, a27, a28, a29, a30, a31, a32, a33, a34, a35, a36, a37, a38, a39, a40, a41, a42, a43, a44, a45,      \
    a46, a47, a48, a49, a50, a51, a52, a53, a54, a55, a56, a57, a58, a59, a60, a61, a62, a63, a64, a65, a66, a67,      \
    a68, a69, a70, a71, a72, a73, a74, a75, a76, a77, a78, a79, a80, a81, a82, a83, a84, a85, a86, a87, a88, a89,      \
    a90, a91, a92, a93, a94, a95, a96, a97, a98, a99, count, ...)                                                      \
  count
#define OPENETW_TL_EACH_0_(pass)
#define OPENETW_TL_EACH_1_(pass, argument) OPENETW_TL_ONE_(pass, 1, argument)
#define OPENETW_TL_EACH_2_(pass, argument, ...)                                                                        \
  OPENETW_TL_ONE_(pass, 2, argument) OPENETW_TL_EACH_1_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_3_(pass, argument, ...)                                                                        \
  OPENETW_TL_ONE_(pass, 3, argument) OPENETW_TL_EACH_2_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_4_(pass, argument, ...)                                                                        \
  OPENETW_TL_ONE_(pass, 4, argument) OPENETW_TL_EACH_3_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_5_(pass, argument, ...)                                                                        \
  OPENETW_TL_ONE_(pass, 5, argument) OPENETW_TL_EACH_4_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_6_(pass, argument, ...)                                                                        \
  OPENETW_TL_ONE_(pass, 6, argument) OPENETW_TL_EACH_5_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_7_(pass, argument, ...)                                                                        \
  OPENETW_TL_ONE_(pass, 7, argument) OPENETW_TL_EACH_6_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_8_(pass, argument, ...)                                                                        \
  OPENETW_TL_ONE_(pass, 8, argument) OPENETW_TL_EACH_7_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_9_(pass, argument, ...)                                                                        \
  OPENETW_TL_ONE_(pass, 9, argument) OPENETW_TL_EACH_8_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_10_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 10, argument) OPENETW_TL_EACH_9_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_11_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 11, argument) OPENETW_TL_EACH_10_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_12_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 12, argument) OPENETW_TL_EACH_11_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_13_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 13, argument) OPENETW_TL_EACH_12_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_14_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 14, argument) OPENETW_TL_EACH_13_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_15_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 15, argument) OPENETW_TL_EACH_14_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_16_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 16, argument) OPENETW_TL_EACH_15_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_17_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 17, argument) OPENETW_TL_EACH_16_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_18_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 18, argument) OPENETW_TL_EACH_17_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_19_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 19, argument) OPENETW_TL_EACH_18_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_20_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 20, argument) OPENETW_TL_EACH_19_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_21_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 21, argument) OPENETW_TL_EACH_20_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_22_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 22, argument) OPENETW_TL_EACH_21_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_23_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 23, argument) OPENETW_TL_EACH_22_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_24_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 24, argument) OPENETW_TL_EACH_23_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_25_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 25, argument) OPENETW_TL_EACH_24_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_26_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 26, argument) OPENETW_TL_EACH_25_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_27_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 27, argument) OPENETW_TL_EACH_26_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_28_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 28, argument) OPENETW_TL_EACH_27_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_29_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 29, argument) OPENETW_TL_EACH_28_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_30_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 30, argument) OPENETW_TL_EACH_29_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_31_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 31, argument) OPENETW_TL_EACH_30_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_32_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 32, argument) OPENETW_TL_EACH_31_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_33_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 33, argument) OPENETW_TL_EACH_32_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_34_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 34, argument) OPENETW_TL_EACH_33_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_35_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 35, argument) OPENETW_TL_EACH_34_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_36_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 36, argument) OPENETW_TL_EACH_35_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_37_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 37, argument) OPENETW_TL_EACH_36_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_38_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 38, argument) OPENETW_TL_EACH_37_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_39_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 39, argument) OPENETW_TL_EACH_38_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_40_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 40, argument) OPENETW_TL_EACH_39_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_41_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 41, argument) OPENETW_TL_EACH_40_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_42_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 42, argument) OPENETW_TL_EACH_41_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_43_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 43, argument) OPENETW_TL_EACH_42_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_44_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 44, argument) OPENETW_TL_EACH_43_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_45_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 45, argument) OPENETW_TL_EACH_44_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_46_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 46, argument) OPENETW_TL_EACH_45_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_47_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 47, argument) OPENETW_TL_EACH_46_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_48_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 48, argument) OPENETW_TL_EACH_47_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_49_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 49, argument) OPENETW_TL_EACH_48_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_50_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 50, argument) OPENETW_TL_EACH_49_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_51_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 51, argument) OPENETW_TL_EACH_50_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_52_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 52, argument) OPENETW_TL_EACH_51_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_53_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 53, argument) OPENETW_TL_EACH_52_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_54_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 54, argument) OPENETW_TL_EACH_53_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_55_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 55, argument) OPENETW_TL_EACH_54_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_56_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 56, argument) OPENETW_TL_EACH_55_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_57_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 57, argument) OPENETW_TL_EACH_56_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_58_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 58, argument) OPENETW_TL_EACH_57_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_59_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 59, argument) OPENETW_TL_EACH_58_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_60_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 60, argument) OPENETW_TL_EACH_59_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_61_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 61, argument) OPENETW_TL_EACH_60_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_62_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 62, argument) OPENETW_TL_EACH_61_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_63_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 63, argument) OPENETW_TL_EACH_62_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_64_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 64, argument) OPENETW_TL_EACH_63_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_65_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 65, argument) OPENETW_TL_EACH_64_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_66_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 66, argument) OPENETW_TL_EACH_65_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_67_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 67, argument) OPENETW_TL_EACH_66_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_68_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 68, argument) OPENETW_TL_EACH_67_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_69_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 69, argument) OPENETW_TL_EACH_68_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_70_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 70, argument) OPENETW_TL_EACH_69_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_71_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 71, argument) OPENETW_TL_EACH_70_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_72_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 72, argument) OPENETW_TL_EACH_71_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_73_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 73, argument) OPENETW_TL_EACH_72_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_74_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 74, argument) OPENETW_TL_EACH_73_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_75_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 75, argument) OPENETW_TL_EACH_74_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_76_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 76, argument) OPENETW_TL_EACH_75_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_77_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 77, argument) OPENETW_TL_EACH_76_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_78_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 78, argument) OPENETW_TL_EACH_77_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_79_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 79, argument) OPENETW_TL_EACH_78_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_80_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 80, argument) OPENETW_TL_EACH_79_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_81_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 81, argument) OPENETW_TL_EACH_80_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_82_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 82, argument) OPENETW_TL_EACH_81_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_83_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 83, argument) OPENETW_TL_EACH_82_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_84_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 84, argument) OPENETW_TL_EACH_83_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_85_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 85, argument) OPENETW_TL_EACH_84_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_86_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 86, argument) OPENETW_TL_EACH_85_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_87_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 87, argument) OPENETW_TL_EACH_86_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_88_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 88, argument) OPENETW_TL_EACH_87_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_89_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 89, argument) OPENETW_TL_EACH_88_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_90_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 90, argument) OPENETW_TL_EACH_89_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_91_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 91, argument) OPENETW_TL_EACH_90_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_92_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 92, argument) OPENETW_TL_EACH_91_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_93_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 93, argument) OPENETW_TL_EACH_92_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_94_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 94, argument) OPENETW_TL_EACH_93_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_95_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 95, argument) OPENETW_TL_EACH_94_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_96_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 96, argument) OPENETW_TL_EACH_95_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_97_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 97, argument) OPENETW_TL_EACH_96_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_98_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 98, argument) OPENETW_TL_EACH_97_(pass, __VA_ARGS__)
#define OPENETW_TL_EACH_99_(pass, argument, ...)                                                                       \
  OPENETW_TL_ONE_(pass, 99, argument) OPENETW_TL_EACH_98_(pass, __VA_ARGS__)

#endif
