/*
 * Glue between Tcl and libopenetw: the commands of the namespace twapi::native, of which the scripts in library make TWAPI's.
 *
 * It compiles with the headers of Tcl 8.6 and of Tcl 9. A library serves one of them, since their stubs differ.
 *
 * What scripts pass is checked here or by libopenetw, so wrong arguments give errors. Callbacks for events run on the
 * thread that called `process_trace`; those for providers run on others, and touch nothing of Tcl.
 */
#include <evntrace.h>
#include <openetw.h>
#include <tdh.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tcl.h>

#ifndef TCL_SIZE_MAX
typedef int Tcl_Size;
#endif

/* Error codes that are used here. */
enum { SUCCESS = 0, INSUFFICIENT_BUFFER = 122, MORE_DATA = 234, CANCELLED = 1223, CLOSE_PENDING = 7007 };

/* ---- Errors ---- */

static const char *text_of_error(ULONG code) {
  switch (code) {
  case 2: return "no such file";
  case 5: return "access denied";
  case 6: return "invalid handle";
  case 8: return "not enough memory";
  case 13: return "not a trace, or damaged";
  case 24: return "too long";
  case 50: return "not supported";
  case 87: return "invalid argument";
  case 161: return "invalid path";
  case 170: return "busy";
  case 183: return "a trace with this name exists already";
  case 234: return "too long";
  case 534: return "too long";
  case 1168: return "not found";
  case 1450: return "not enough resources of the system";
  case 4201: return "no such trace";
  default: return "failed";
  }
}

/* Leaves an error with errorCode {TWAPI_WIN32 CODE TEXT}, as TWAPI does. */
static int fail(Tcl_Interp *interp, const char *what, ULONG code) {
  const char *text = text_of_error(code);
  char number[16];
  snprintf(number, sizeof number, "%u", code);
  Tcl_SetErrorCode(interp, "TWAPI_WIN32", number, text, (char *)NULL);
  Tcl_SetObjResult(interp, Tcl_ObjPrintf("%s: %s (error %s)", what, text, number));
  return TCL_ERROR;
}

static int fail_own(Tcl_Interp *interp, const char *what) {
  Tcl_SetErrorCode(interp, "TWAPI", "OPENETW", what, (char *)NULL);
  Tcl_SetObjResult(interp, Tcl_ObjPrintf("%s", what));
  return TCL_ERROR;
}

/* ---- Texts: Tcl's own form of UTF-8 differs for zeros and surrogates ---- */

static Tcl_Encoding utf8;

static Tcl_Obj *obj_of_bytes(const char *bytes, Tcl_Size len) {
  Tcl_DString text;
  Tcl_ExternalToUtfDString(utf8, bytes, len, &text);
  Tcl_Obj *obj = Tcl_NewStringObj(Tcl_DStringValue(&text), Tcl_DStringLength(&text));
  Tcl_DStringFree(&text);
  return obj;
}

static Tcl_Obj *obj_of_text(const char *text) { return text ? obj_of_bytes(text, -1) : Tcl_NewObj(); }

static void append_character(Tcl_DString *out, uint32_t c) {
  char bytes[4];
  int len = 0;
  if (c < 0x80) {
    bytes[len++] = (char)c;
  } else if (c < 0x800) {
    bytes[len++] = (char)(0xC0 | c >> 6);
    bytes[len++] = (char)(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    bytes[len++] = (char)(0xE0 | c >> 12);
    bytes[len++] = (char)(0x80 | (c >> 6 & 0x3F));
    bytes[len++] = (char)(0x80 | (c & 0x3F));
  } else {
    bytes[len++] = (char)(0xF0 | (c >> 18 & 7));
    bytes[len++] = (char)(0x80 | (c >> 12 & 0x3F));
    bytes[len++] = (char)(0x80 | (c >> 6 & 0x3F));
    bytes[len++] = (char)(0x80 | (c & 0x3F));
  }
  Tcl_DStringAppend(out, bytes, len);
}

static Tcl_Obj *obj_of_wide(const WCHAR *text) {
  if (!text) return Tcl_NewObj();
  Tcl_DString bytes;
  Tcl_DStringInit(&bytes);
  for (; *text; text++) append_character(&bytes, (uint32_t)*text);
  Tcl_Obj *obj = obj_of_bytes(Tcl_DStringValue(&bytes), Tcl_DStringLength(&bytes));
  Tcl_DStringFree(&bytes);
  return obj;
}

/* Returns a text for libopenetw, which the caller frees, or NULL and an error if it contains a zero. */
static const char *text_of(Tcl_Interp *interp, Tcl_Obj *obj, Tcl_DString *out) {
  Tcl_Size len;
  const char *text = Tcl_GetStringFromObj(obj, &len);
#if TCL_MAJOR_VERSION >= 9
  Tcl_UtfToExternalDStringEx(NULL, utf8, text, len, TCL_ENCODING_PROFILE_REPLACE, out, NULL);
#else
  Tcl_UtfToExternalDString(utf8, text, len, out);
#endif
  if (strlen(Tcl_DStringValue(out)) != (size_t)Tcl_DStringLength(out)) {
    Tcl_DStringFree(out);
    fail_own(interp, "a name contains a zero character");
    return NULL;
  }
  return Tcl_DStringValue(out);
}

/* ---- Numbers and GUIDs ---- */

static int number_of(Tcl_Interp *interp, Tcl_Obj *obj, Tcl_WideInt low, Tcl_WideInt high, Tcl_WideInt *out) {
  if (Tcl_GetWideIntFromObj(interp, obj, out) != TCL_OK) return TCL_ERROR;
  if (*out >= low && *out <= high) return TCL_OK;
  char range[64];
  snprintf(range, sizeof range, "%lld to %lld", (long long)low, (long long)high);
  Tcl_SetObjResult(interp, Tcl_ObjPrintf("%s is not a number from %s", Tcl_GetString(obj), range));
  return TCL_ERROR;
}

static int guid_of(Tcl_Interp *interp, Tcl_Obj *obj, GUID *out) {
  Tcl_Size len;
  const char *text = Tcl_GetStringFromObj(obj, &len);
  if (len == 38 && text[0] == '{' && text[37] == '}') text++, len -= 2;
  unsigned a, b, c, d[8];
  bool is_guid = len == 36;
  for (int at = 0; is_guid && at < 36; at++) {
    bool is_dash = at == 8 || at == 13 || at == 18 || at == 23;
    is_guid = is_dash ? text[at] == '-' : strchr("0123456789abcdefABCDEF", text[at]) != NULL;
  }
  if (!is_guid || sscanf(text, "%8x-%4x-%4x-%2x%2x-%2x%2x%2x%2x%2x%2x", &a, &b, &c, &d[0], &d[1], &d[2], &d[3], &d[4],
                         &d[5], &d[6], &d[7]) != 11) {
    Tcl_SetObjResult(interp, Tcl_ObjPrintf("\"%.100s\" is not a GUID", Tcl_GetString(obj)));
    return TCL_ERROR;
  }
  out->Data1 = a, out->Data2 = (USHORT)b, out->Data3 = (USHORT)c;
  for (int at = 0; at < 8; at++) out->Data4[at] = (UCHAR)d[at];
  return TCL_OK;
}

static Tcl_Obj *obj_of_guid(const GUID *guid) {
  const UCHAR *d = guid->Data4;
  char text[40];
  int len = snprintf(text, sizeof text, "{%08X-%04X-%04X-%02X%02X-%02X%02X%02X%02X%02X%02X}", guid->Data1, guid->Data2,
                     guid->Data3, d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7]);
  return Tcl_NewStringObj(text, len);
}

static bool is_zero(const GUID *guid) {
  static const GUID zero;
  return memcmp(guid, &zero, sizeof zero) == 0;
}

static Tcl_Obj *wide(uint64_t value) { return Tcl_NewWideIntObj((Tcl_WideInt)value); }

static void put(Tcl_Obj *list, const char *key, Tcl_Obj *value) {
  Tcl_ListObjAppendElement(NULL, list, Tcl_NewStringObj(key, -1));
  Tcl_ListObjAppendElement(NULL, list, value);
}

/* ---- Providers ---- */

/* A registered provider. What its callback stores is read by commands. */
typedef struct Provider {
  struct Provider *next;
  TRACEHANDLE handle;
  GUID guid;
  GUID class_guid;
  atomic_uint calls; /* of its callback */
  unsigned calls_before;
  atomic_int is_enabled;
  atomic_int level;
  atomic_uint flags;
} Provider;

static pthread_mutex_t provider_mutex = PTHREAD_MUTEX_INITIALIZER;
static Provider *providers;

static ULONG WINAPI on_control(WMIDPREQUESTCODE code, PVOID context, ULONG *size, PVOID buffer) {
  Provider *provider = context;
  (void)size;
  TRACEHANDLE logger = GetTraceLoggerHandle(buffer);
  atomic_store(&provider->level, GetTraceEnableLevel(logger));
  atomic_store(&provider->flags, GetTraceEnableFlags(logger));
  atomic_store(&provider->is_enabled, code == WMI_ENABLE_EVENTS);
  atomic_fetch_add(&provider->calls, 1);
  return SUCCESS;
}

/* register PROVIDERGUID CLASSGUID */
static int register_command(void *data, Tcl_Interp *interp, int objc, Tcl_Obj *const objv[]) {
  (void)data;
  if (objc != 3) return Tcl_WrongNumArgs(interp, 1, objv, "provider class"), TCL_ERROR;
  Provider *provider = calloc(1, sizeof *provider);
  if (!provider) return fail(interp, "registering a provider", 8);
  if (guid_of(interp, objv[1], &provider->guid) != TCL_OK || guid_of(interp, objv[2], &provider->class_guid) != TCL_OK) {
    free(provider);
    return TCL_ERROR;
  }
  TRACE_GUID_REGISTRATION classes = {&provider->class_guid, NULL};
  ULONG code = RegisterTraceGuidsA(on_control, provider, &provider->guid, 1, &classes, NULL, NULL, &provider->handle);
  if (code != SUCCESS) {
    free(provider);
    return fail(interp, "registering a provider", code);
  }
  pthread_mutex_lock(&provider_mutex);
  provider->next = providers;
  providers = provider;
  pthread_mutex_unlock(&provider_mutex);
  Tcl_SetObjResult(interp, wide(provider->handle));
  return TCL_OK;
}

/* unregister HANDLE */
static int unregister_command(void *data, Tcl_Interp *interp, int objc, Tcl_Obj *const objv[]) {
  (void)data;
  Tcl_WideInt handle;
  if (objc != 2) return Tcl_WrongNumArgs(interp, 1, objv, "handle"), TCL_ERROR;
  if (Tcl_GetWideIntFromObj(interp, objv[1], &handle) != TCL_OK) return TCL_ERROR;
  pthread_mutex_lock(&provider_mutex);
  Provider **place = &providers;
  while (*place && (*place)->handle != (TRACEHANDLE)handle) place = &(*place)->next;
  Provider *provider = *place;
  if (provider) *place = provider->next;
  pthread_mutex_unlock(&provider_mutex);
  if (!provider) return fail(interp, "unregistering a provider", 6);
  ULONG code = UnregisterTraceGuids(provider->handle);
  free(provider);
  return code == SUCCESS ? TCL_OK : fail(interp, "unregistering a provider", code);
}

/* provider_state ?HANDLE?: whether it is enabled, the level, the flags; without a handle, of all providers together. */
static int provider_state_command(void *data, Tcl_Interp *interp, int objc, Tcl_Obj *const objv[]) {
  (void)data;
  Tcl_WideInt handle = 0;
  if (objc > 2) return Tcl_WrongNumArgs(interp, 1, objv, "?handle?"), TCL_ERROR;
  if (objc == 2 && Tcl_GetWideIntFromObj(interp, objv[1], &handle) != TCL_OK) return TCL_ERROR;
  bool is_found = objc == 1, is_enabled = false;
  int level = 0;
  unsigned flags = 0;
  pthread_mutex_lock(&provider_mutex);
  for (Provider *provider = providers; provider; provider = provider->next) {
    if (objc == 2 && provider->handle != (TRACEHANDLE)handle) continue;
    is_found = true;
    if (!atomic_load(&provider->is_enabled)) continue;
    is_enabled = true;
    if (atomic_load(&provider->level) > level) level = atomic_load(&provider->level);
    flags |= atomic_load(&provider->flags);
  }
  pthread_mutex_unlock(&provider_mutex);
  if (!is_found) return fail(interp, "the state of a provider", 6);
  Tcl_Obj *state[] = {Tcl_NewBooleanObj(is_enabled), Tcl_NewIntObj(level), wide(flags)};
  Tcl_SetObjResult(interp, Tcl_NewListObj(3, state));
  return TCL_OK;
}

/* trace_event HANDLE TYPE LEVEL PAYLOAD: the error code, since a lost event is no error of the script that is traced. */
static int trace_event_command(void *data, Tcl_Interp *interp, int objc, Tcl_Obj *const objv[]) {
  (void)data;
  Tcl_WideInt handle, type, level;
  if (objc != 5) return Tcl_WrongNumArgs(interp, 1, objv, "handle type level payload"), TCL_ERROR;
  if (Tcl_GetWideIntFromObj(interp, objv[1], &handle) != TCL_OK ||
      number_of(interp, objv[2], 0, 255, &type) != TCL_OK || number_of(interp, objv[3], 0, 255, &level) != TCL_OK)
    return TCL_ERROR;
  Tcl_Size len;
  const unsigned char *payload = Tcl_GetByteArrayFromObj(objv[4], &len);
  if (!payload) return fail_own(interp, "the payload is not binary");
  struct {
    EVENT_TRACE_HEADER header;
    MOF_FIELD field;
  } event;
  memset(&event, 0, sizeof event);
  bool is_found = false;
  pthread_mutex_lock(&provider_mutex);
  for (Provider *provider = providers; provider && !is_found; provider = provider->next) {
    if (provider->handle != (TRACEHANDLE)handle) continue;
    is_found = true;
    event.header.Guid = provider->class_guid;
  }
  pthread_mutex_unlock(&provider_mutex);
  if (!is_found) return fail(interp, "writing an event", 6);
  event.header.Size = sizeof event;
  event.header.Flags = WNODE_FLAG_TRACED_GUID | WNODE_FLAG_USE_MOF_PTR;
  event.header.Class.Type = (UCHAR)type;
  event.header.Class.Level = (UCHAR)level;
  event.field.DataPtr = (ULONG64)(uintptr_t)payload;
  event.field.Length = (ULONG)len;
  Tcl_SetObjResult(interp, wide(TraceEvent((TRACEHANDLE)handle, &event.header)));
  return TCL_OK;
}

/* ---- Sessions ---- */

enum { MAX_TEXT = 4096, MAX_SESSIONS = 64 };

/* EVENT_TRACE_PROPERTIES with room for its texts. */
typedef struct {
  EVENT_TRACE_PROPERTIES p;
  char file[MAX_TEXT];
  char name[MAX_TEXT];
} Settings;

static void init_settings(Settings *settings) {
  memset(settings, 0, sizeof *settings);
  settings->p.Wnode.BufferSize = sizeof *settings;
  settings->p.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
  settings->p.LogFileNameOffset = offsetof(Settings, file);
  settings->p.LoggerNameOffset = offsetof(Settings, name);
}

static int copy_text(Tcl_Interp *interp, Tcl_Obj *obj, char out[MAX_TEXT]) {
  Tcl_DString text;
  if (!text_of(interp, obj, &text)) return TCL_ERROR;
  bool fits = Tcl_DStringLength(&text) < MAX_TEXT;
  if (fits) memcpy(out, Tcl_DStringValue(&text), (size_t)Tcl_DStringLength(&text) + 1);
  Tcl_DStringFree(&text);
  return fits ? TCL_OK : fail_own(interp, "a name is longer than 4095 bytes");
}

/* Reads FILE GUID NUMBERS; empty texts stay 0, and so do numbers at the end that are absent. */
static int read_settings(Tcl_Interp *interp, Tcl_Obj *const objv[3], Settings *settings) {
  init_settings(settings);
  if (copy_text(interp, objv[0], settings->file) != TCL_OK) return TCL_ERROR;
  if (*Tcl_GetString(objv[1]) && guid_of(interp, objv[1], &settings->p.Wnode.Guid) != TCL_OK) return TCL_ERROR;
  ULONG *const places[] = {&settings->p.BufferSize,         &settings->p.MinimumBuffers, &settings->p.MaximumBuffers,
                           &settings->p.MaximumFileSize,    &settings->p.LogFileMode,    &settings->p.FlushTimer,
                           &settings->p.EnableFlags,        &settings->p.Wnode.ClientContext};
  Tcl_Obj **numbers;
  Tcl_Size count;
  if (Tcl_ListObjGetElements(interp, objv[2], &count, &numbers) != TCL_OK) return TCL_ERROR;
  if (count > (Tcl_Size)(sizeof places / sizeof *places)) return fail_own(interp, "too many numbers");
  for (Tcl_Size at = 0; at < count; at++) {
    Tcl_WideInt number;
    if (number_of(interp, numbers[at], 0, UINT32_MAX, &number) != TCL_OK) return TCL_ERROR;
    *places[at] = (ULONG)number;
  }
  return TCL_OK;
}

/* Returns a session's settings and status, with TWAPI's keys in TWAPI's order. */
static Tcl_Obj *obj_of_settings(const Settings *settings) {
  const EVENT_TRACE_PROPERTIES *p = &settings->p;
  Tcl_Obj *list = Tcl_NewListObj(0, NULL);
  put(list, "logfile", obj_of_text(settings->file));
  put(list, "trace_name", obj_of_text(settings->name));
  put(list, "trace_guid", obj_of_guid(&p->Wnode.Guid));
  put(list, "buffer_size", wide(p->BufferSize));
  put(list, "min_buffers", wide(p->MinimumBuffers));
  put(list, "max_buffers", wide(p->MaximumBuffers));
  put(list, "max_file_size", wide(p->MaximumFileSize));
  put(list, "logfile_mode", wide(p->LogFileMode));
  put(list, "flush_timer", wide(p->FlushTimer));
  put(list, "enable_flags", wide(p->EnableFlags));
  put(list, "clock_resolution", wide(p->Wnode.ClientContext));
  put(list, "age_limit", Tcl_NewWideIntObj(p->AgeLimit));
  put(list, "buffer_count", wide(p->NumberOfBuffers));
  put(list, "free_buffers", wide(p->FreeBuffers));
  put(list, "events_lost", wide(p->EventsLost));
  put(list, "buffers_written", wide(p->BuffersWritten));
  put(list, "log_buffers_lost", wide(p->LogBuffersLost));
  put(list, "real_time_buffers_lost", wide(p->RealTimeBuffersLost));
  put(list, "logger_tid", wide((uintptr_t)p->LoggerThreadId));
  return list;
}

/* start_trace NAME FILE GUID NUMBERS: the handle. */
static int start_trace_command(void *data, Tcl_Interp *interp, int objc, Tcl_Obj *const objv[]) {
  (void)data;
  if (objc != 5) return Tcl_WrongNumArgs(interp, 1, objv, "name file guid numbers"), TCL_ERROR;
  Settings settings;
  char name[MAX_TEXT];
  if (read_settings(interp, objv + 2, &settings) != TCL_OK || copy_text(interp, objv[1], name) != TCL_OK)
    return TCL_ERROR;
  TRACEHANDLE handle;
  ULONG code = StartTraceA(&handle, name, &settings.p);
  if (code != SUCCESS) return fail(interp, "starting a trace", code);
  Tcl_SetObjResult(interp, wide(handle));
  return TCL_OK;
}

/* control_trace CODE HANDLE NAME FILE GUID NUMBERS: the session's properties; without a name, of the handle. */
static int control_trace_command(void *data, Tcl_Interp *interp, int objc, Tcl_Obj *const objv[]) {
  (void)data;
  if (objc != 7) return Tcl_WrongNumArgs(interp, 1, objv, "code handle name file guid numbers"), TCL_ERROR;
  Settings settings;
  char name[MAX_TEXT];
  Tcl_WideInt control, handle;
  if (number_of(interp, objv[1], 0, 3, &control) != TCL_OK ||
      Tcl_GetWideIntFromObj(interp, objv[2], &handle) != TCL_OK || copy_text(interp, objv[3], name) != TCL_OK ||
      read_settings(interp, objv + 4, &settings) != TCL_OK)
    return TCL_ERROR;
  static const char *const what[] = {"querying a trace", "stopping a trace", "updating a trace", "flushing a trace"};
  ULONG code = ControlTraceA((TRACEHANDLE)handle, *name ? name : NULL, &settings.p, (ULONG)control);
  if (code != SUCCESS && code != MORE_DATA) return fail(interp, what[control], code);
  Tcl_SetObjResult(interp, obj_of_settings(&settings));
  return TCL_OK;
}

/* query_all_traces: a list of properties. */
static int query_all_traces_command(void *data, Tcl_Interp *interp, int objc, Tcl_Obj *const objv[]) {
  (void)data;
  if (objc != 1) return Tcl_WrongNumArgs(interp, 1, objv, NULL), TCL_ERROR;
  Settings *all = malloc(MAX_SESSIONS * sizeof *all);
  if (!all) return fail(interp, "listing traces", 8);
  EVENT_TRACE_PROPERTIES *places[MAX_SESSIONS];
  for (int at = 0; at < MAX_SESSIONS; at++) {
    init_settings(&all[at]);
    places[at] = &all[at].p;
  }
  ULONG count = 0;
  ULONG code = QueryAllTracesA(places, MAX_SESSIONS, &count);
  Tcl_Obj *list = Tcl_NewListObj(0, NULL);
  for (ULONG at = 0; at < count && at < MAX_SESSIONS; at++)
    Tcl_ListObjAppendElement(NULL, list, obj_of_settings(&all[at]));
  free(all);
  Tcl_SetObjResult(interp, list);
  return code == SUCCESS || code == MORE_DATA ? TCL_OK : fail(interp, "listing traces", code);
}

/* Remembers how often the callbacks of this process's providers ran, or returns whether each has run since. */
static bool providers_were_told(const GUID *guid, bool is_start) {
  bool told = true;
  pthread_mutex_lock(&provider_mutex);
  for (Provider *provider = providers; provider; provider = provider->next) {
    if (memcmp(&provider->guid, guid, sizeof *guid) != 0) continue;
    unsigned calls = atomic_load(&provider->calls);
    if (is_start) provider->calls_before = calls;
    told &= calls != provider->calls_before;
  }
  pthread_mutex_unlock(&provider_mutex);
  return told;
}

/* enable_trace HANDLE PROVIDERGUID ENABLE LEVEL FLAGS */
static int enable_trace_command(void *data, Tcl_Interp *interp, int objc, Tcl_Obj *const objv[]) {
  (void)data;
  if (objc != 6) return Tcl_WrongNumArgs(interp, 1, objv, "handle provider enable level flags"), TCL_ERROR;
  GUID guid;
  Tcl_WideInt handle, level, flags;
  int enable;
  if (Tcl_GetWideIntFromObj(interp, objv[1], &handle) != TCL_OK || guid_of(interp, objv[2], &guid) != TCL_OK ||
      Tcl_GetBooleanFromObj(interp, objv[3], &enable) != TCL_OK ||
      number_of(interp, objv[4], 0, 255, &level) != TCL_OK || Tcl_GetWideIntFromObj(interp, objv[5], &flags) != TCL_OK)
    return TCL_ERROR;
  ULONG control = enable ? EVENT_CONTROL_CODE_ENABLE_PROVIDER : EVENT_CONTROL_CODE_DISABLE_PROVIDER;
  providers_were_told(&guid, true);
  ULONG code = EnableTraceEx2((TRACEHANDLE)handle, &guid, control, (UCHAR)level, (ULONGLONG)flags, 0, 0, NULL);
  if (code == SUCCESS) {
    /* Another thread tells this process's own providers, which on Windows know when the function returns. */
    for (int wait = 0; wait < 500 && !providers_were_told(&guid, false); wait++) Tcl_Sleep(1);
    return TCL_OK;
  }
  return fail(interp, enable ? "enabling a provider" : "disabling a provider", code);
}

/* providers: a list of {GUID IS_MOF NAME}, sorted by name. */
static int providers_command(void *data, Tcl_Interp *interp, int objc, Tcl_Obj *const objv[]) {
  (void)data;
  if (objc != 1) return Tcl_WrongNumArgs(interp, 1, objv, NULL), TCL_ERROR;
  PROVIDER_ENUMERATION_INFO *info = NULL;
  ULONG size = 0, code;
  /* A provider may be added between two calls. */
  while ((code = TdhEnumerateProviders(info, &size)) == INSUFFICIENT_BUFFER) {
    PROVIDER_ENUMERATION_INFO *larger = realloc(info, size);
    if (!larger) {
      free(info);
      return fail(interp, "listing providers", 8);
    }
    info = larger;
  }
  Tcl_Obj *list = Tcl_NewListObj(0, NULL);
  for (ULONG at = 0; code == SUCCESS && info && at < info->NumberOfProviders; at++) {
    TRACE_PROVIDER_INFO *provider = &info->TraceProviderInfoArray[at];
    Tcl_Obj *entry[] = {obj_of_guid(&provider->ProviderGuid), wide(provider->SchemaSource),
                        obj_of_wide(PEI_PROVIDER_NAME(info, provider))};
    Tcl_ListObjAppendElement(NULL, list, Tcl_NewListObj(3, entry));
  }
  free(info);
  Tcl_SetObjResult(interp, list);
  return code == SUCCESS ? TCL_OK : fail(interp, "listing providers", code);
}

/* ---- The fields of events: JSON as Tcl values ---- */

enum { MAX_DEPTH = 64 };

typedef struct {
  const char *at;
  Tcl_DString text;
} Json;

static Tcl_Obj *json_value(Json *json, int depth);

static uint32_t json_hex(Json *json) {
  uint32_t value = 0;
  for (int digit = 0; digit < 4 && *json->at; digit++, json->at++) {
    const char *digits = "0123456789abcdef", *found = strchr(digits, *json->at | 0x20);
    value = value << 4 | (uint32_t)(found && *found ? found - digits : 0);
  }
  return value;
}

/* Reads a string after its first quote; NULL if it has no end. */
static Tcl_Obj *json_string(Json *json) {
  Tcl_DString *text = &json->text;
  Tcl_DStringSetLength(text, 0);
  for (;;) {
    size_t plain = strcspn(json->at, "\"\\");
    Tcl_DStringAppend(text, json->at, (Tcl_Size)plain);
    json->at += plain;
    char mark = *json->at;
    if (!mark) return NULL;
    json->at++;
    if (mark == '"') return obj_of_bytes(Tcl_DStringValue(text), Tcl_DStringLength(text));
    char escape = *json->at;
    if (!escape) return NULL;
    json->at++;
    if (escape == 'u') {
      uint32_t c = json_hex(json);
      if (c >= 0xD800 && c < 0xDC00 && json->at[0] == '\\' && json->at[1] == 'u') {
        json->at += 2;
        c = 0x10000 + ((c & 0x3FF) << 10) + (json_hex(json) & 0x3FF);
      }
      append_character(text, c);
    } else {
      const char *escapes = "bfnrt", *found = strchr(escapes, escape);
      append_character(text, (uint32_t)(unsigned char)(found ? "\b\f\n\r\t"[found - escapes] : escape));
    }
  }
}

/* Reads the elements up to `end`: of objects, names and values by turns. Values are lists, as TWAPI's are. */
static Tcl_Obj *json_elements(Json *json, char end, int depth) {
  Tcl_Obj *list = Tcl_NewListObj(0, NULL);
  bool is_object = end == '}';
  while (*json->at != end) {
    Tcl_Obj *element = NULL;
    if (*json->at == ',') json->at++;
    if (is_object && *json->at == '"') {
      json->at++;
      Tcl_Obj *name = json_string(json);
      if (!name) goto damaged;
      Tcl_ListObjAppendElement(NULL, list, name);
      if (*json->at != ':') goto damaged;
      json->at++;
    } else if (is_object) {
      goto damaged;
    }
    bool is_list = *json->at == '[';
    element = json_value(json, depth);
    if (!element) goto damaged;
    Tcl_ListObjAppendElement(NULL, list, is_object && !is_list ? Tcl_NewListObj(1, &element) : element);
  }
  json->at++;
  return list;
damaged:
  Tcl_DecrRefCount(list);
  return NULL;
}

/* Reads a value; NULL if it is not JSON. */
static Tcl_Obj *json_value(Json *json, int depth) {
  if (depth > MAX_DEPTH) return NULL;
  switch (*json->at++) {
  case '"': return json_string(json);
  case '{': return json_elements(json, '}', depth + 1);
  case '[': return json_elements(json, ']', depth + 1);
  default: break;
  }
  const char *start = --json->at;
  json->at += strcspn(start, ",}]");
  size_t len = (size_t)(json->at - start);
  if (len == 0) return NULL;
  if (len == 4 && memcmp(start, "null", 4) == 0) return Tcl_NewObj();
  if (len == 4 && memcmp(start, "true", 4) == 0) return Tcl_NewIntObj(1);
  if (len == 5 && memcmp(start, "false", 5) == 0) return Tcl_NewIntObj(0);
  return Tcl_NewStringObj(start, (Tcl_Size)len);
}

/* Returns the fields of an event as names and lists of values; NULL if they are not known. */
static Tcl_Obj *fields_of(const EVENT_RECORD *record) {
  const char *text = openetw_record_fields(record);
  if (!text || *text != '{') return NULL;
  Json json = {.at = text};
  Tcl_DStringInit(&json.text);
  Tcl_Obj *fields = json_value(&json, 0);
  Tcl_DStringFree(&json.text);
  return fields;
}

/* ---- Consumers ---- */

/* A call of process_trace. */
typedef struct {
  Tcl_Interp *interp;
  Tcl_Obj *callback; /* NULL if buffers are collected in `buffers` */
  Tcl_Obj *buffers;
  Tcl_Obj *events; /* of all that is read, in the order of time, since the last buffer */
  int result; /* of the callback that ended it */
  bool is_ended;
} Run;

/* An open file or session. */
typedef struct Consumer {
  struct Consumer *next;
  TRACEHANDLE handle;
  bool is_closed; /* while it is processed */
  Tcl_ThreadId thread;
  ULONG resolution; /* units of 100 ns of the processor times */
  Run *run;
  TRACE_EVENT_INFO *info;
  ULONG info_size;
} Consumer;

static pthread_mutex_t consumer_mutex = PTHREAD_MUTEX_INITIALIZER;
static Consumer *consumers;

/* Returns a consumer of this thread. */
static Consumer *find_consumer(TRACEHANDLE handle) {
  pthread_mutex_lock(&consumer_mutex);
  Consumer *found = consumers;
  while (found && (found->handle != handle || found->thread != Tcl_GetCurrentThread())) found = found->next;
  pthread_mutex_unlock(&consumer_mutex);
  return found;
}

static void free_consumer(Consumer *consumer) {
  pthread_mutex_lock(&consumer_mutex);
  Consumer **place = &consumers;
  while (*place && *place != consumer) place = &(*place)->next;
  if (*place) *place = consumer->next;
  pthread_mutex_unlock(&consumer_mutex);
  free(consumer->info);
  free(consumer);
}

/* Returns the schema of the current event, or NULL. */
static TRACE_EVENT_INFO *schema_of(Consumer *consumer, EVENT_RECORD *record) {
  ULONG size = consumer->info_size;
  ULONG code = TdhGetEventInformation(record, 0, NULL, consumer->info, &size);
  if (code == INSUFFICIENT_BUFFER) {
    TRACE_EVENT_INFO *larger = realloc(consumer->info, size);
    if (!larger) return NULL;
    consumer->info = larger;
    consumer->info_size = size;
    code = TdhGetEventInformation(record, 0, NULL, larger, &size);
  }
  return code == SUCCESS ? consumer->info : NULL;
}

/* Returns a name, or else the number. */
static Tcl_Obj *name_or(const WCHAR *name, unsigned number) {
  return name && *name ? obj_of_wide(name) : Tcl_NewIntObj((int)number);
}

/* Returns the keywords' names, which follow each other up to an empty one. */
static Tcl_Obj *keywords_of(TRACE_EVENT_INFO *info) {
  Tcl_Obj *list = Tcl_NewListObj(0, NULL);
  for (const WCHAR *name = info ? TEI_KEYWORDS_NAME(info) : NULL; name && *name;) {
    Tcl_ListObjAppendElement(NULL, list, obj_of_wide(name));
    while (*name++) {
    }
  }
  return list;
}

static Tcl_Obj *sid_of(const EVENT_RECORD *record) {
  for (int at = 0; at < record->ExtendedDataCount; at++) {
    const EVENT_HEADER_EXTENDED_DATA_ITEM *item = &record->ExtendedData[at];
    const UCHAR *sid = (const UCHAR *)(uintptr_t)item->DataPtr;
    if (item->ExtType != EVENT_HEADER_EXT_TYPE_SID || item->DataSize < 8 || item->DataSize < 8 + 4 * sid[1]) continue;
    uint64_t authority = 0;
    for (int byte = 2; byte < 8; byte++) authority = authority << 8 | sid[byte];
    char number[32];
    snprintf(number, sizeof number, "S-%u-%llu", sid[0], (unsigned long long)authority);
    Tcl_Obj *text = Tcl_NewStringObj(number, -1);
    for (int part = 0; part < sid[1]; part++) {
      uint32_t value;
      memcpy(&value, sid + 8 + 4 * part, sizeof value);
      snprintf(number, sizeof number, "-%u", value);
      Tcl_AppendToObj(text, number, -1);
    }
    return text;
  }
  return Tcl_NewObj();
}

/* Adds an event as the values of TWAPI's record etw_event, in its order. */
static void WINAPI on_event(PEVENT_RECORD record) {
  Consumer *consumer = record->UserContext;
  if (!consumer->run || consumer->run->is_ended) return;
  const EVENT_HEADER *header = &record->EventHeader;
  const EVENT_DESCRIPTOR *descriptor = &header->EventDescriptor;
  TRACE_EVENT_INFO *info = schema_of(consumer, record);
  Tcl_Obj *fields = info ? fields_of(record) : NULL;
  if (!fields) {
    fields = Tcl_NewListObj(0, NULL);
    put(fields, "mofdata", Tcl_NewByteArrayObj(record->UserData, record->UserDataLength));
  }
  bool is_class = header->Flags & EVENT_HEADER_FLAG_CLASSIC_HEADER;
  bool has_times = !(header->Flags & (EVENT_HEADER_FLAG_NO_CPUTIME | EVENT_HEADER_FLAG_PRIVATE_SESSION));
  bool has_guid = info && !is_zero(&info->EventGuid);
  uint64_t user = has_times ? (uint64_t)header->UserTime * consumer->resolution : 0;
  uint64_t kernel = has_times ? (uint64_t)header->KernelTime * consumer->resolution : 0;
  if (header->Flags & EVENT_HEADER_FLAG_PRIVATE_SESSION) user = header->ProcessorTime * consumer->resolution;
  char keywords[24];
  snprintf(keywords, sizeof keywords, "0x%llx", (unsigned long long)descriptor->Keyword);
  const GUID *event_guid = has_guid ? &info->EventGuid : is_class ? &header->ProviderId : NULL;
  Tcl_Obj *values[] = {
      wide(descriptor->Id),
      wide(descriptor->Version),
      wide(descriptor->Channel),
      wide(descriptor->Level),
      wide(descriptor->Opcode),
      wide(descriptor->Task),
      Tcl_NewStringObj(keywords, -1),
      Tcl_NewWideIntObj(header->TimeStamp.QuadPart),
      Tcl_NewWideIntObj(header->ThreadId == UINT32_MAX ? -1 : (Tcl_WideInt)header->ThreadId),
      Tcl_NewWideIntObj(header->ProcessId == UINT32_MAX ? -1 : (Tcl_WideInt)header->ProcessId),
      obj_of_guid(info ? &info->ProviderGuid : &header->ProviderId),
      wide(user),
      wide(kernel),
      obj_of_wide(info ? TEI_PROVIDER_NAME(info) : NULL),
      event_guid ? obj_of_guid(event_guid) : Tcl_NewObj(),
      name_or(info ? TEI_CHANNEL_NAME(info) : NULL, descriptor->Channel),
      name_or(info ? TEI_LEVEL_NAME(info) : NULL, descriptor->Level),
      name_or(info ? TEI_OPCODE_NAME(info) : NULL, descriptor->Opcode),
      name_or(info ? TEI_TASK_NAME(info) : NULL, descriptor->Task),
      keywords_of(info),
      fields,
      obj_of_wide(info ? TEI_EVENT_MESSAGE(info) : NULL),
      sid_of(record),
  };
  Tcl_ListObjAppendElement(NULL, consumer->run->events, Tcl_NewListObj(sizeof values / sizeof *values, values));
}

/* Passes the events since the last call to the script. Returns FALSE to end processing. */
static ULONG WINAPI on_buffer(PEVENT_TRACE_LOGFILEA logfile) {
  Consumer *consumer = logfile->Context;
  Run *run = consumer->run;
  if (!run || run->is_ended) return FALSE;
  Tcl_Size count = 0;
  Tcl_ListObjLength(NULL, run->events, &count);
  if (count == 0) return TRUE;
  Tcl_Obj *buffer = Tcl_NewListObj(0, NULL);
  put(buffer, "logfile", obj_of_text(logfile->LogFileName));
  put(buffer, "logger_name", obj_of_text(logfile->LoggerName));
  put(buffer, "current_time", Tcl_NewWideIntObj(logfile->CurrentTime));
  put(buffer, "buffers_read", wide(logfile->BuffersRead));
  put(buffer, "buffer_size", wide(logfile->BufferSize));
  put(buffer, "filled", wide(logfile->Filled));
  put(buffer, "events_lost", wide(logfile->EventsLost));
  put(buffer, "kernel_trace", wide(logfile->IsKernelTrace));
  Tcl_Obj *events = run->events;
  run->events = Tcl_NewListObj(0, NULL);
  Tcl_IncrRefCount(run->events);
  if (!run->callback) {
    Tcl_ListObjAppendElement(NULL, run->buffers, buffer);
    Tcl_ListObjAppendElement(NULL, run->buffers, events);
    Tcl_DecrRefCount(events);
    return TRUE;
  }
  Tcl_Obj *call = Tcl_DuplicateObj(run->callback);
  Tcl_IncrRefCount(call);
  Tcl_ListObjAppendElement(NULL, call, buffer);
  Tcl_ListObjAppendElement(NULL, call, events);
  Tcl_DecrRefCount(events);
  int result = Tcl_EvalObjEx(run->interp, call, TCL_EVAL_GLOBAL | TCL_EVAL_DIRECT);
  Tcl_DecrRefCount(call);
  if (result == TCL_ERROR)
    Tcl_AppendObjToErrorInfo(run->interp, Tcl_NewStringObj("\n    (callback for events)", -1));
  bool goes_on = result != TCL_ERROR && result != TCL_BREAK;
  if (goes_on) {
    Tcl_ResetResult(run->interp);
  } else {
    run->result = result;
    run->is_ended = true;
  }
  return goes_on && !consumer->is_closed && !Tcl_InterpDeleted(run->interp);
}

/* open_trace NAME IS_LIVE: a handle. */
static int open_trace_command(void *data, Tcl_Interp *interp, int objc, Tcl_Obj *const objv[]) {
  (void)data;
  int is_live;
  Tcl_DString name;
  if (objc != 3) return Tcl_WrongNumArgs(interp, 1, objv, "name live"), TCL_ERROR;
  if (Tcl_GetBooleanFromObj(interp, objv[2], &is_live) != TCL_OK) return TCL_ERROR;
  if (!text_of(interp, objv[1], &name)) return TCL_ERROR;
  Consumer *consumer = calloc(1, sizeof *consumer);
  if (!consumer) {
    Tcl_DStringFree(&name);
    return fail(interp, "opening a trace", 8);
  }
  EVENT_TRACE_LOGFILEA logfile;
  memset(&logfile, 0, sizeof logfile);
  *(is_live ? &logfile.LoggerName : &logfile.LogFileName) = Tcl_DStringValue(&name);
  logfile.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD | (is_live ? PROCESS_TRACE_MODE_REAL_TIME : 0);
  logfile.EventRecordCallback = on_event;
  logfile.BufferCallback = on_buffer;
  logfile.Context = consumer;
  consumer->handle = OpenTraceA(&logfile);
  consumer->thread = Tcl_GetCurrentThread();
  consumer->resolution = logfile.LogfileHeader.TimerResolution;
  if (consumer->handle == INVALID_PROCESSTRACE_HANDLE) {
    ULONG code = GetLastError();
    free(consumer);
    Tcl_Obj *what = Tcl_ObjPrintf("opening %s", Tcl_GetString(objv[1]));
    Tcl_IncrRefCount(what);
    fail(interp, Tcl_GetString(what), code);
    Tcl_DecrRefCount(what);
    Tcl_DStringFree(&name);
    return TCL_ERROR;
  }
  Tcl_DStringFree(&name);
  pthread_mutex_lock(&consumer_mutex);
  consumer->next = consumers;
  consumers = consumer;
  pthread_mutex_unlock(&consumer_mutex);
  Tcl_SetObjResult(interp, wide(consumer->handle));
  return TCL_OK;
}

/* close_trace HANDLE; while it is processed, that ends soon. */
static int close_trace_command(void *data, Tcl_Interp *interp, int objc, Tcl_Obj *const objv[]) {
  (void)data;
  Tcl_WideInt handle;
  if (objc != 2) return Tcl_WrongNumArgs(interp, 1, objv, "handle"), TCL_ERROR;
  if (Tcl_GetWideIntFromObj(interp, objv[1], &handle) != TCL_OK) return TCL_ERROR;
  Consumer *consumer = find_consumer((TRACEHANDLE)handle);
  if (!consumer || consumer->is_closed) return fail(interp, "closing a trace", 6);
  ULONG code = CloseTrace(consumer->handle);
  if (consumer->run) {
    consumer->is_closed = true;
  } else {
    free_consumer(consumer);
  }
  return code == SUCCESS || code == CLOSE_PENDING ? TCL_OK : fail(interp, "closing a trace", code);
}

static int time_of(Tcl_Interp *interp, Tcl_Obj *obj, FILETIME *out) {
  Tcl_WideInt time;
  if (number_of(interp, obj, 0, INT64_MAX, &time) != TCL_OK) return TCL_ERROR;
  out->dwLowDateTime = (DWORD)time;
  out->dwHighDateTime = (DWORD)(time >> 32);
  return TCL_OK;
}

/* process_trace HANDLES CALLBACK START END: without a callback, a list of buffers and their events by turns. */
static int process_trace_command(void *data, Tcl_Interp *interp, int objc, Tcl_Obj *const objv[]) {
  (void)data;
  if (objc != 5) return Tcl_WrongNumArgs(interp, 1, objv, "handles callback start end"), TCL_ERROR;
  Tcl_Obj **elements;
  Tcl_Size count, words;
  if (Tcl_ListObjGetElements(interp, objv[1], &count, &elements) != TCL_OK ||
      Tcl_ListObjLength(interp, objv[2], &words) != TCL_OK)
    return TCL_ERROR;
  if (count < 1 || count > MAX_SESSIONS) return fail_own(interp, "from 1 to 64 handles can be processed together");
  FILETIME start, end;
  bool has_start = *Tcl_GetString(objv[3]), has_end = *Tcl_GetString(objv[4]);
  if ((has_start && time_of(interp, objv[3], &start) != TCL_OK) ||
      (has_end && time_of(interp, objv[4], &end) != TCL_OK))
    return TCL_ERROR;
  TRACEHANDLE handles[MAX_SESSIONS];
  Consumer *open[MAX_SESSIONS];
  for (Tcl_Size at = 0; at < count; at++) {
    Tcl_WideInt handle;
    if (Tcl_GetWideIntFromObj(interp, elements[at], &handle) != TCL_OK) return TCL_ERROR;
    handles[at] = (TRACEHANDLE)handle;
    open[at] = find_consumer(handles[at]);
    if (!open[at] || open[at]->is_closed) return fail(interp, "processing events", 6);
    if (open[at]->run) return fail(interp, "processing events", 170);
    for (Tcl_Size other = 0; other < at; other++)
      if (open[other] == open[at]) return fail_own(interp, "a handle is there twice");
  }
  Run run = {.interp = interp, .callback = words ? objv[2] : NULL, .result = TCL_OK};
  run.buffers = Tcl_NewListObj(0, NULL);
  run.events = Tcl_NewListObj(0, NULL);
  Tcl_IncrRefCount(run.buffers);
  Tcl_IncrRefCount(run.events);
  Tcl_IncrRefCount(objv[2]);
  for (Tcl_Size at = 0; at < count; at++) open[at]->run = &run;
  Tcl_Preserve(interp);
  ULONG code = ProcessTrace(handles, (ULONG)count, has_start ? &start : NULL, has_end ? &end : NULL);
  bool is_closed = false;
  for (Tcl_Size at = 0; at < count; at++) {
    open[at]->run = NULL;
    is_closed |= open[at]->is_closed;
    if (open[at]->is_closed) free_consumer(open[at]);
  }
  int result = run.result == TCL_ERROR ? TCL_ERROR : TCL_OK;
  if (result == TCL_OK) {
    Tcl_SetObjResult(interp, run.buffers);
    bool is_ended = run.is_ended || is_closed || code == CANCELLED;
    if (code != SUCCESS && !is_ended) result = fail(interp, "processing events", code);
  }
  Tcl_DecrRefCount(run.buffers);
  Tcl_DecrRefCount(run.events);
  Tcl_DecrRefCount(objv[2]);
  Tcl_Release(interp);
  return result;
}

/* ---- The store of schemas ---- */

static int change_store(Tcl_Interp *interp, int objc, Tcl_Obj *const objv[], int (*change)(const char *)) {
  Tcl_DString text;
  if (objc != 2) return Tcl_WrongNumArgs(interp, 1, objv, "file"), TCL_ERROR;
  if (!text_of(interp, objv[1], &text)) return TCL_ERROR;
  int result = change(Tcl_DStringValue(&text));
  Tcl_DStringFree(&text);
  if (result == 0) return TCL_OK;
  Tcl_SetObjResult(interp, obj_of_text(openetw_error()));
  return TCL_ERROR;
}

/* store_add FILE */
static int store_add_command(void *data, Tcl_Interp *interp, int objc, Tcl_Obj *const objv[]) {
  (void)data;
  return change_store(interp, objc, objv, openetw_store_add);
}

/* store_remove NAME */
static int store_remove_command(void *data, Tcl_Interp *interp, int objc, Tcl_Obj *const objv[]) {
  (void)data;
  return change_store(interp, objc, objv, openetw_store_remove);
}

/* ---- The package ---- */

__attribute__((visibility("default"))) int Twapi_etw_Init(Tcl_Interp *interp) {
  if (!Tcl_InitStubs(interp, TCL_VERSION, 0)) return TCL_ERROR;
  if (!utf8) utf8 = Tcl_GetEncoding(NULL, "utf-8");
  static const struct {
    const char *name;
    Tcl_ObjCmdProc *command;
  } commands[] = {
      {"close_trace", close_trace_command},
      {"control_trace", control_trace_command},
      {"enable_trace", enable_trace_command},
      {"open_trace", open_trace_command},
      {"process_trace", process_trace_command},
      {"provider_state", provider_state_command},
      {"providers", providers_command},
      {"query_all_traces", query_all_traces_command},
      {"register", register_command},
      {"start_trace", start_trace_command},
      {"store_add", store_add_command},
      {"store_remove", store_remove_command},
      {"trace_event", trace_event_command},
      {"unregister", unregister_command},
  };
  for (size_t at = 0; at < sizeof commands / sizeof *commands; at++) {
    char name[64];
    snprintf(name, sizeof name, "::twapi::native::%s", commands[at].name);
    /* The namespace has been created by the script that loads this library. */
    if (!Tcl_CreateObjCommand(interp, name, commands[at].command, NULL, NULL)) return TCL_ERROR;
  }
  return TCL_OK;
}
