/*
 * What headers of manifests share (`etw mc -um`): the macros, types and functions that Windows' mc writes into each.
 *
 * A program may define these macros before it includes a header: MCGEN_EVENTREGISTER, MCGEN_EVENTUNREGISTER,
 * MCGEN_EVENTWRITETRANSFER, MCGEN_PENABLECALLBACK, MCGEN_GETLENGTHSID, MCGEN_EVENT_ENABLED, MCGEN_EVENT_BIT_SET,
 * MCGEN_ENABLE_CHECK, MCGEN_PRIVATE_ENABLE_CALLBACK_V2, MCGEN_DISABLE_PROVIDER_CODE_GENERATION, ETW_INLINE.
 */
#ifndef OPENETW_MC_H
#define OPENETW_MC_H

#pragma GCC system_header

#include <windows.h>
#include <wmistr.h>
#include <evntrace.h>
#include <evntprov.h>

#ifndef ETW_INLINE
#define ETW_INLINE static inline __attribute__((unused))
#endif
/* Every file has its own constants; files of one program or library share the state of a provider. */
#define MCGEN_CONST static const __attribute__((unused))
#define MCGEN_GLOBAL __attribute__((weak, visibility("hidden")))

#ifndef MCGEN_EVENTREGISTER
#define MCGEN_EVENTREGISTER EventRegister
#endif
#ifndef MCGEN_EVENTUNREGISTER
#define MCGEN_EVENTUNREGISTER EventUnregister
#endif
#ifndef MCGEN_EVENTWRITETRANSFER
#define MCGEN_EVENTWRITETRANSFER EventWriteTransfer
#endif
#ifndef MCGEN_PENABLECALLBACK
#define MCGEN_PENABLECALLBACK PENABLECALLBACK
#endif
#ifndef MCGEN_GETLENGTHSID
#define MCGEN_GETLENGTHSID(sid) GetLengthSid((PSID)(ULONG_PTR)(sid))
#endif
#ifndef MCGEN_EVENT_ENABLED
#define MCGEN_EVENT_ENABLED(EventName) EventEnabled##EventName()
#endif
#ifndef MCGEN_EVENT_BIT_SET
#define MCGEN_EVENT_BIT_SET(EnableBits, BitPosition)                                                                   \
  ((__atomic_load_n(&(EnableBits)[(BitPosition) >> 5], __ATOMIC_RELAXED) & (1u << ((BitPosition) & 31))) != 0)
#endif
#ifndef MCGEN_ENABLE_CHECK
#define MCGEN_ENABLE_CHECK(Context, Descriptor) ((Context).IsEnabled && McGenEventEnabled(&(Context), &(Descriptor)))
#endif

/* The state of a provider. Each bit of EnableBitMask is for one pair of EnableLevel and EnableKeyWords. */
typedef struct _MCGEN_TRACE_CONTEXT {
  TRACEHANDLE RegistrationHandle;
  TRACEHANDLE Logger;
  ULONGLONG MatchAnyKeyword;
  ULONGLONG MatchAllKeyword;
  ULONG Flags;
  ULONG IsEnabled;
  UCHAR Level;
  UCHAR Reserve;
  USHORT EnableBitsCount;
  PULONG EnableBitMask;
  const ULONGLONG *EnableKeyWords;
  const UCHAR *EnableLevel;
} MCGEN_TRACE_CONTEXT, *PMCGEN_TRACE_CONTEXT;

FORCEINLINE BOOLEAN McGenLevelKeywordEnabled(PMCGEN_TRACE_CONTEXT EnableInfo, UCHAR Level, ULONGLONG Keyword) {
  if (Level > EnableInfo->Level && EnableInfo->Level != 0) {
    return FALSE;
  }
  /* Without keywords a session wants all. */
  return Keyword == 0 || ((EnableInfo->MatchAnyKeyword == 0 || (Keyword & EnableInfo->MatchAnyKeyword) != 0) &&
                          (Keyword & EnableInfo->MatchAllKeyword) == EnableInfo->MatchAllKeyword);
}

FORCEINLINE BOOLEAN McGenEventEnabled(PMCGEN_TRACE_CONTEXT EnableInfo, PCEVENT_DESCRIPTOR EventDescriptor) {
  return McGenLevelKeywordEnabled(EnableInfo, EventDescriptor->Level, EventDescriptor->Keyword);
}

ETW_INLINE VOID NTAPI McGenControlCallbackV2(LPCGUID SourceId, ULONG ControlCode, UCHAR Level,
                                             ULONGLONG MatchAnyKeyword, ULONGLONG MatchAllKeyword,
                                             PEVENT_FILTER_DESCRIPTOR FilterData, PVOID CallbackContext) {
  PMCGEN_TRACE_CONTEXT context = (PMCGEN_TRACE_CONTEXT)CallbackContext;
  if (context == NULL) {
    return;
  }
  if (ControlCode == EVENT_CONTROL_CODE_ENABLE_PROVIDER || ControlCode == EVENT_CONTROL_CODE_DISABLE_PROVIDER) {
    BOOLEAN isEnabled = ControlCode == EVENT_CONTROL_CODE_ENABLE_PROVIDER;
    context->Level = isEnabled ? Level : 0;
    context->MatchAnyKeyword = isEnabled ? MatchAnyKeyword : 0;
    context->MatchAllKeyword = isEnabled ? MatchAllKeyword : 0;
    context->IsEnabled = ControlCode;
    for (ULONG index = 0; index < context->EnableBitsCount; index++) {
      ULONG bit = 1u << (index & 31);
      if (isEnabled && McGenLevelKeywordEnabled(context, context->EnableLevel[index], context->EnableKeyWords[index])) {
        __atomic_fetch_or(&context->EnableBitMask[index >> 5], bit, __ATOMIC_RELAXED);
      } else {
        __atomic_fetch_and(&context->EnableBitMask[index >> 5], ~bit, __ATOMIC_RELAXED);
      }
    }
  }
#ifdef MCGEN_PRIVATE_ENABLE_CALLBACK_V2
  MCGEN_PRIVATE_ENABLE_CALLBACK_V2(SourceId, ControlCode, Level, MatchAnyKeyword, MatchAllKeyword, FilterData,
                                   CallbackContext);
#else
  (void)SourceId, (void)FilterData;
#endif
}

/* Registers a provider unless it is registered. */
ETW_INLINE ULONG McGenEventRegister(LPCGUID ProviderId, MCGEN_PENABLECALLBACK EnableCallback, PVOID CallbackContext,
                                    PREGHANDLE RegHandle) {
  return *RegHandle != 0 ? ERROR_SUCCESS : MCGEN_EVENTREGISTER(ProviderId, EnableCallback, CallbackContext, RegHandle);
}

/* Unregisters a provider if it is registered. */
ETW_INLINE ULONG McGenEventUnregister(PREGHANDLE RegHandle) {
  REGHANDLE handle = *RegHandle;
  *RegHandle = 0;
  return handle == 0 ? ERROR_SUCCESS : MCGEN_EVENTUNREGISTER(handle);
}

ETW_INLINE ULONG McGenEventWrite(PMCGEN_TRACE_CONTEXT Context, PCEVENT_DESCRIPTOR Descriptor, LPCGUID ActivityId,
                                 ULONG EventDataCount, EVENT_DATA_DESCRIPTOR *EventData) {
  return MCGEN_EVENTWRITETRANSFER(Context->RegistrationHandle, Descriptor, ActivityId, NULL, EventDataCount, EventData);
}

/* Parts of payloads. A text that is NULL is written as "NULL". */
FORCEINLINE VOID McGenAnsiString(PEVENT_DATA_DESCRIPTOR data, PCSTR text) {
  text = text ? text : "NULL";
  EventDataDescCreate(data, text, (ULONG)strlen(text) + 1);
}
FORCEINLINE VOID McGenWideString(PEVENT_DATA_DESCRIPTOR data, PCWSTR text) {
  text = text ? text : OPENETW_L_("NULL");
  ULONG length = 0;
  while (text[length]) {
    length++;
  }
  OpenEtwDataDescCreateWide(data, text, length + 1);
}
FORCEINLINE VOID McGenWideUnits(PEVENT_DATA_DESCRIPTOR data, PCWCH text, ULONG length) {
  OpenEtwDataDescCreateWide(data, text, length);
}
FORCEINLINE VOID McGenUnits16(PEVENT_DATA_DESCRIPTOR data, const UINT16 *units, ULONG count) {
  EventDataDescCreate(data, units, 2 * count);
}
/* A 16-bit size in bytes, and as many bytes. */
FORCEINLINE VOID McGenCounted(PEVENT_DATA_DESCRIPTOR data, const VOID *bytes, ULONG size) {
  EventDataDescCreate(data, bytes, size);
  data->Type = OPENETW_DATA_DESCRIPTOR_COUNTED;
}
FORCEINLINE VOID McGenCountedWide(PEVENT_DATA_DESCRIPTOR data, PCWCH text, ULONG length) {
  EventDataDescCreate(data, text, OPENETW_WIDE_BITS == 32 ? length : 2 * length);
  data->Type = OPENETW_WIDE_BITS == 32 ? OPENETW_DATA_DESCRIPTOR_COUNTED32 : OPENETW_DATA_DESCRIPTOR_COUNTED;
}

#endif
