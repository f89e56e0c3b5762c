/*
 * Glue between Tcl and libopenetw: the commands of the namespace twapi::native, of which the scripts in library make
 * TWAPI's.
 *
 * It compiles with the headers of Tcl 8.6 and of Tcl 9. A library serves one of them, since their stubs differ.
 *
 * What scripts pass is checked here or by libopenetw, so wrong arguments give errors. Callbacks for events run on the
 * thread that called `process_trace`; those for providers run on others, and touch nothing of Tcl.
 */
#ifndef TWAPI_ETW_H
#define TWAPI_ETW_H

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

/* Most sessions, and most traces that are read together. */
enum { MAX_SESSIONS = 64 };

/* values.c: errors, texts, numbers and GUIDs. */

extern Tcl_Encoding utf8;

/* Leaves an error with errorCode {TWAPI_WIN32 CODE TEXT}, as TWAPI does. */
int fail(Tcl_Interp *interp, const char *what, ULONG code);
/* Leaves an error of the package. */
int fail_own(Tcl_Interp *interp, const char *what);
/* Values of UTF-8 bytes (-1: up to a zero), of a text or NULL, and of wide characters or NULL. */
Tcl_Obj *obj_of_bytes(const char *bytes, Tcl_Size len);
Tcl_Obj *obj_of_text(const char *text);
Tcl_Obj *obj_of_wide(const WCHAR *text);
/* Appends a character as UTF-8. */
void append_character(Tcl_DString *out, uint32_t c);
/* Returns a text for libopenetw, which the caller frees, or NULL and an error if it contains a zero. */
const char *text_of(Tcl_Interp *interp, Tcl_Obj *obj, Tcl_DString *out);
/* Reads a number in a range. */
int number_of(Tcl_Interp *interp, Tcl_Obj *obj, Tcl_WideInt low, Tcl_WideInt high, Tcl_WideInt *out);
/* Reads a GUID, with braces or without. */
int guid_of(Tcl_Interp *interp, Tcl_Obj *obj, GUID *out);
Tcl_Obj *obj_of_guid(const GUID *guid);
bool is_zero(const GUID *guid);
Tcl_Obj *wide(uint64_t value);
/* Appends a key and its value. */
void put(Tcl_Obj *list, const char *key, Tcl_Obj *value);

/* fields.c */

/* Returns the fields of an event as names and lists of values; NULL if they are not known. */
Tcl_Obj *fields_of(const EVENT_RECORD *record);

/* providers.c, sessions.c, consumers.c: the commands. */

/* Remembers how often the callbacks of this process's providers ran, or returns whether each has run since. */
bool providers_were_told(const GUID *guid, bool is_start);

#define COMMAND(name) int name##_command(void *data, Tcl_Interp *interp, int objc, Tcl_Obj *const objv[])
COMMAND(close_trace);
COMMAND(control_trace);
COMMAND(enable_trace);
COMMAND(open_trace);
COMMAND(process_trace);
COMMAND(provider_state);
COMMAND(providers);
COMMAND(query_all_traces);
COMMAND(register);
COMMAND(start_trace);
COMMAND(store_add);
COMMAND(store_remove);
COMMAND(trace_event);
COMMAND(unregister);

#endif
