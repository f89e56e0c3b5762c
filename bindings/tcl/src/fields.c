/* The fields of events: JSON as Tcl values. */
#include "twapi_etw.h"

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

Tcl_Obj *fields_of(const EVENT_RECORD *record) {
  const char *text = openetw_record_fields(record);
  if (!text || *text != '{') return NULL;
  Json json = {.at = text};
  Tcl_DStringInit(&json.text);
  Tcl_Obj *fields = json_value(&json, 0);
  Tcl_DStringFree(&json.text);
  return fields;
}
