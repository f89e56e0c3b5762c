/*
 * OpenETW's own interface to traces, for programs and for bindings of other languages: plain C, texts in UTF-8.
 *
 * It has what the functions of Windows lack: filters, levels of reading, and events as JSON.
 *
 *     openetw_trace *trace = openetw_trace_new();
 *     if (openetw_trace_add_file(trace, "trace.etl") != 0 || openetw_trace_read(trace, OPENETW_LAYOUTS, print, NULL) != 0) {
 *       fprintf(stderr, "%s\n", openetw_error());
 *     }
 *     openetw_trace_free(trace);
 *
 * Functions that return int return 0, or -1 after an error; openetw_error() describes it.
 */
#ifndef OPENETW_H
#define OPENETW_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Files and sessions to read, and how. */
typedef struct openetw_trace openetw_trace;
/* An event; valid during the callback that gets it. */
typedef struct openetw_event openetw_event;
struct _EVENT_RECORD;

/* Levels of reading: each costs more than the one before. */
enum openetw_level {
  OPENETW_RECORDS = 1, /* headers and payloads */
  OPENETW_SCHEMAS = 2, /* and names */
  OPENETW_LAYOUTS = 3  /* and properties, and JSON */
};

/* Called for each event in the order of time; returns 0 to go on, anything else to end. */
typedef int (*openetw_callback)(const openetw_event *event, void *context);

/*
 * The header of an event. Set size to sizeof(struct openetw_header) before the call: as many bytes are written, or fewer by
 * a library that has fewer members; size says how many.
 */
struct openetw_header {
  uint32_t size;
  uint32_t source; /* number of the file or session, in the order of adding */
  int64_t time; /* 100 ns since 1601, UTC */
  uint64_t keyword;
  const uint8_t *payload;
  uint32_t payload_size;
  uint32_t process_id; /* 0xFFFFFFFF if not known */
  uint32_t thread_id;  /* 0xFFFFFFFF if not known */
  uint16_t processor;
  uint16_t id;
  uint16_t task;
  uint8_t version;
  uint8_t channel;
  uint8_t level;
  uint8_t opcode;
  uint8_t is_64_bit;
  uint8_t reserved;
  uint8_t provider[16]; /* as a GUID in memory on Windows */
  uint8_t activity[16]; /* zeros if there is none */
};

/* Counts of a trace, while it is read or afterwards. Set size to sizeof(struct openetw_counts) before the call, as above. */
struct openetw_counts {
  uint32_t size;
  uint32_t reserved;
  uint64_t records;
  uint64_t delivered;
  uint64_t undecoded;
  uint64_t failed; /* payloads that do not match their schema */
  uint64_t events_lost;
  uint64_t buffers_lost;
  uint64_t damaged;
};

/* The version of the library: "0.1.0". */
const char *openetw_version(void);
/* The error of this thread's last function that failed; never NULL. Valid until the next one fails. */
const char *openetw_error(void);

openetw_trace *openetw_trace_new(void);
/* Frees a trace, which must not be read any more. NULL is allowed. */
void openetw_trace_free(openetw_trace *trace);
int openetw_trace_add_file(openetw_trace *trace, const char *path);
int openetw_trace_add_session(openetw_trace *trace, const char *name);
/* Adds the schemas in a manifest, .dll, .mof, .tmf or .pdb file, or in a directory of them. */
int openetw_trace_add_schemas(openetw_trace *trace, const char *path);
/* Delivers only events for which an expression holds: "pid == 4711 and level <= Warning" (docs/filters.md). */
int openetw_trace_set_filter(openetw_trace *trace, const char *expression);
/* Reads to the end of all files and sessions, until the callback ends it, or openetw_trace_stop. */
int openetw_trace_read(openetw_trace *trace, enum openetw_level level, openetw_callback callback, void *context);
/* Ends reading soon; from any thread. */
void openetw_trace_stop(openetw_trace *trace);
void openetw_trace_counts(const openetw_trace *trace, struct openetw_counts *counts);

void openetw_event_header(const openetw_event *event, struct openetw_header *header);
/* Texts are valid until the callback returns. These return NULL if there is none, or if the level of reading is too low. */
const char *openetw_event_provider_name(const openetw_event *event);
const char *openetw_event_name(const openetw_event *event);
/* The event as one JSON object (docs/json.md). */
const char *openetw_event_json(const openetw_event *event);
/*
 * Values of the payload by their paths: "Field", "Struct.Member", "Array[3]", "Array[3].Member". All need OPENETW_LAYOUTS.
 */
enum openetw_type {
  OPENETW_NOTHING = 0, /* there is no such value */
  OPENETW_INT = 1,     /* openetw_event_int64 */
  OPENETW_UINT = 2,    /* openetw_event_uint64; also addresses */
  OPENETW_DOUBLE = 3,  /* openetw_event_double */
  OPENETW_BOOL = 4,    /* openetw_event_int64 */
  OPENETW_TEXT = 5,    /* openetw_event_text; also SIDs and addresses of networks */
  OPENETW_GUID = 6,    /* openetw_event_bytes: 16, as a GUID in memory on Windows */
  OPENETW_TIME = 7,    /* openetw_event_int64: 100 ns since 1601, UTC */
  OPENETW_BINARY = 8,  /* openetw_event_bytes */
  OPENETW_ARRAY = 9,   /* openetw_event_count */
  OPENETW_STRUCT = 10  /* openetw_event_count, openetw_event_member */
};
enum openetw_type openetw_event_type(const openetw_event *event, const char *path);
/* The number of elements of an array, of members of a struct, or of fields of the event (NULL); -1 for other values. */
int64_t openetw_event_count(const openetw_event *event, const char *path);
/* The name of a member of a struct, or of a field of the event (NULL), from 0; NULL after the last. */
const char *openetw_event_member(const openetw_event *event, const char *path, uint32_t number);
/* Any value as text, as its schema formats it. */
const char *openetw_event_text(const openetw_event *event, const char *path);
/* A value as a number; these fail if there is none, or it does not fit. */
int openetw_event_int64(const openetw_event *event, const char *path, int64_t *value);
int openetw_event_uint64(const openetw_event *event, const char *path, uint64_t *value);
int openetw_event_double(const openetw_event *event, const char *path, double *value);
/* The bytes of a GUID, SID or binary value, which are valid until the callback returns. */
int openetw_event_bytes(const openetw_event *event, const char *path, const uint8_t **bytes, size_t *size);

/*
 * The fields of an EVENT_RECORD (evntcons.h) as one JSON object, the EventData of docs/json.md; NULL if they are not known.
 * Fastest in the callback of ProcessTrace that got the record. Valid until this thread's next call.
 */
const char *openetw_record_fields(const struct _EVENT_RECORD *record);

/* Adds the schemas in a manifest, .dll, .mof, .tmf or .pdb file to the user's store, as `etw schema add` does. */
int openetw_store_add(const char *path);
/* Removes what the user's store has of a provider or class, by its GUID: "{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}". */
int openetw_store_remove(const char *provider);

#ifdef __cplusplus
}
#endif

#endif
