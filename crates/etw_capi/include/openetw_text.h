/*
 * The functions of Windows' C library for wide text, and those with bounds.
 *
 * Formats of the wide functions mean what they mean on Windows: %s is wide text and %S is 8-bit text, %I64u and %I32u
 * have their sizes, and %lu has 32 bits. They write UTF-8 and leave the stream's orientation alone, so that a program
 * may mix them with printf. Define OPENETW_LIBC_TEXT before including windows.h to keep the functions of libc.
 */
/* windows.h includes this header in its place. */
#ifndef OPENETW_WINDOWS_H
#include <windows.h>
#endif
#ifndef OPENETW_TEXT_H
#define OPENETW_TEXT_H

#pragma GCC system_header


#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <wctype.h>
#ifdef __cplusplus
extern "C++" {
#include <cstdio>
#include <cwchar>
}
#endif

#define OPENETW_INLINE_ static inline __attribute__((unused))

#ifdef __cplusplus
extern "C" {
#endif
/* What libc does not declare for every version of C. */
char *openetw_getcwd(char *to, size_t size) __asm__("getcwd");
char *openetw_strdup(const char *text) __asm__("strdup");
wchar_t *openetw_libc_wcsdup(const wchar_t *text) __asm__("wcsdup");
#ifdef __cplusplus
}
#endif

/* Text in UTF-8 that grows. */
struct openetw_text {
  char *bytes;
  size_t length;
  size_t capacity;
};

OPENETW_INLINE_ int openetw_text_reserve(struct openetw_text *out, size_t more) {
  if (more > out->capacity - out->length) {
    size_t capacity = 2 * (out->length + more) + 64;
    char *bytes = (char *)realloc(out->bytes, capacity);
    if (bytes == NULL) {
      return 0;
    }
    out->bytes = bytes;
    out->capacity = capacity;
  }
  return 1;
}

OPENETW_INLINE_ void openetw_text_pad(struct openetw_text *out, int count, char with) {
  if (count > 0 && openetw_text_reserve(out, (size_t)count)) {
    memset(out->bytes + out->length, with, (size_t)count);
    out->length += (size_t)count;
  }
}

OPENETW_INLINE_ void openetw_text_put(struct openetw_text *out, UINT32 character) {
  if (!openetw_text_reserve(out, 4)) {
    return;
  }
  char *to = out->bytes + out->length;
  if (character < 0x80) {
    to[0] = (char)character;
    out->length += 1;
  } else if (character < 0x800) {
    to[0] = (char)(0xC0 | character >> 6);
    to[1] = (char)(0x80 | (character & 0x3F));
    out->length += 2;
  } else if (character < 0x10000) {
    to[0] = (char)(0xE0 | character >> 12);
    to[1] = (char)(0x80 | (character >> 6 & 0x3F));
    to[2] = (char)(0x80 | (character & 0x3F));
    out->length += 3;
  } else {
    to[0] = (char)(0xF0 | character >> 18);
    to[1] = (char)(0x80 | (character >> 12 & 0x3F));
    to[2] = (char)(0x80 | (character >> 6 & 0x3F));
    to[3] = (char)(0x80 | (character & 0x3F));
    out->length += 4;
  }
}

/* Returns the character at a place of wide text, and moves the place after it. Wrong ones become U+FFFD. */
OPENETW_INLINE_ UINT32 openetw_wide_next(const WCHAR **at, const WCHAR *end) {
  UINT32 unit = (UINT32) * (*at)++;
#if OPENETW_WIDE_BITS == 16
  unit &= 0xFFFF;
  if (unit >= 0xD800 && unit < 0xDC00 && *at != end && ((UINT32) * *at & 0xFC00) == 0xDC00) {
    return 0x10000 + ((unit & 0x3FF) << 10) + ((UINT32) * (*at)++ & 0x3FF);
  }
#else
  (void)end;
#endif
  return unit > 0x10FFFF || (unit & 0xFFFFF800) == 0xD800 ? 0xFFFD : unit;
}

/* The same for UTF-8. */
OPENETW_INLINE_ UINT32 openetw_narrow_next(const char **at, const char *end) {
  const unsigned char *bytes = (const unsigned char *)*at;
  size_t left = (size_t)(end - *at);
  UINT32 first = bytes[0];
  size_t length = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  UINT32 character = length < 2 ? first : first & (0x7Fu >> length);
  for (size_t index = 1; index < length; index++) {
    if (index >= left || (bytes[index] & 0xC0) != 0x80) {
      length = 0;
      break;
    }
    character = character << 6 | (bytes[index] & 0x3F);
  }
  if (length == 0 || (length == 3 && (character < 0x800 || (character & 0xF800) == 0xD800)) ||
      (length == 4 && (character < 0x10000 || character > 0x10FFFF))) {
    *at += 1;
    return 0xFFFD;
  }
  *at += length;
  return character;
}

/* Returns the length of wide text, at most `limit`. */
OPENETW_INLINE_ size_t openetw_wcsnlen(const WCHAR *text, size_t limit) {
  size_t length = 0;
  while (length < limit && text[length]) {
    length++;
  }
  return length;
}

/*
 * Writes UTF-8 as wide text with a zero. Returns its length without the zero, and (size_t)-1 if it does not fit; what
 * fits is then written.
 */
OPENETW_INLINE_ size_t openetw_widen(WCHAR *to, size_t size, const char *from, size_t length) {
  const char *end = from + length;
  size_t at = 0;
  while (from != end) {
    UINT32 character = openetw_narrow_next(&from, end);
    size_t units = OPENETW_WIDE_BITS == 16 && character > 0xFFFF ? 2 : 1;
    if (at + units >= size) {
      if (size) {
        to[at] = 0;
      }
      return (size_t)-1;
    }
    if (units == 2) {
      to[at++] = (WCHAR)(0xD800 | (character - 0x10000) >> 10);
      to[at++] = (WCHAR)(0xDC00 | (character & 0x3FF));
    } else {
      to[at++] = (WCHAR)character;
    }
  }
  if (size == 0) {
    return (size_t)-1;
  }
  to[at] = 0;
  return at;
}

struct openetw_arguments {
  va_list list;
};

/* Appends a number as snprintf writes it. */
#define OPENETW_TEXT_NUMBER_(out, ...)                                                                                 \
  do {                                                                                                                 \
    int openetwLength = snprintf(NULL, 0, __VA_ARGS__);                                                                \
    if (openetwLength > 0 && openetw_text_reserve((out), (size_t)openetwLength + 1)) {                                 \
      snprintf((out)->bytes + (out)->length, (size_t)openetwLength + 1, __VA_ARGS__);                                  \
      (out)->length += (size_t)openetwLength;                                                                          \
    }                                                                                                                  \
  } while (0)

/* Appends text of either width (-1: up to its zero), at most `precision` characters (-1: all), in `width` columns. */
OPENETW_INLINE_ void openetw_text_string(struct openetw_text *out, const void *text, int isWide, long length, int width,
                                         int precision, int isLeft) {
  if (text == NULL) {
    text = "(null)";
    isWide = 0;
    length = -1;
  }
  size_t start = out->length;
  int count = 0;
  if (isWide) {
    const WCHAR *at = (const WCHAR *)text;
    const WCHAR *end = length < 0 ? NULL : at + length;
    for (; (end ? at != end : *at != 0) && (precision < 0 || count < precision); count++) {
      openetw_text_put(out, openetw_wide_next(&at, end));
    }
  } else {
    const char *at = (const char *)text;
    size_t limit = precision < 0 ? (size_t)-1 : 4 * (size_t)precision, bytes = 0;
    while (bytes < limit && (length < 0 ? at[bytes] != 0 : bytes < (size_t)length)) {
      bytes++;
    }
    const char *end = at + bytes;
    for (; at != end && (precision < 0 || count < precision); count++) {
      openetw_text_put(out, openetw_narrow_next(&at, end));
    }
  }
  if (count < width) {
    size_t added = (size_t)(width - count);
    size_t bytes = out->length - start;
    openetw_text_pad(out, (int)added, ' ');
    if (!isLeft && out->length == start + bytes + added) {
      memmove(out->bytes + start + added, out->bytes + start, bytes);
      memset(out->bytes + start, ' ', added);
    }
  }
}

/* Appends what a wide format of Windows' C library says. */
OPENETW_INLINE_ void openetw_text_format(struct openetw_text *out, const WCHAR *format,
                                         struct openetw_arguments *arguments) {
  while (*format) {
    if (*format != '%') {
      openetw_text_put(out, openetw_wide_next(&format, NULL));
      continue;
    }
    format++;
    char spec[16];
    size_t used = 0;
    int isLeft = 0, width = 0, precision = -1, bits = 32, isNarrow = 0, isWide = 0, isLong = 0;
    spec[used++] = '%';
    for (; *format == '-' || *format == '+' || *format == ' ' || *format == '#' || *format == '0'; format++) {
      isLeft |= *format == '-';
      if (used < 8) {
        spec[used++] = (char)*format;
      }
    }
    if (*format == '*') {
      width = va_arg(arguments->list, int);
      format++;
      if (width < 0) {
        isLeft = 1;
        width = -width;
        spec[used++] = '-';
      }
    }
    for (; *format >= '0' && *format <= '9'; format++) {
      width = width < 100000 ? 10 * width + (int)(*format - '0') : width;
    }
    if (*format == '.') {
      format++;
      precision = 0;
      if (*format == '*') {
        precision = va_arg(arguments->list, int);
        format++;
      }
      for (; *format >= '0' && *format <= '9'; format++) {
        precision = precision < 100000 ? 10 * precision + (int)(*format - '0') : precision;
      }
    }
    for (int isSize = 1; isSize;) {
      switch (*format) {
      case 'h':
        bits = bits == 16 ? 8 : 16;
        isNarrow = 1;
        format++;
        break;
      case 'l':
        bits = isWide ? 64 : 32;
        isWide = 1;
        format++;
        break;
      case 'w':
        isWide = 1;
        format++;
        break;
      case 'L':
        isLong = 1;
        format++;
        break;
      case 'z':
      case 't':
      case 'j':
        bits = 64;
        format++;
        break;
      case 'I':
        if (format[1] == '3' && format[2] == '2') {
          format += 3;
        } else {
          bits = 64;
          format += format[1] == '6' && format[2] == '4' ? 3 : 1;
        }
        break;
      default:
        isSize = 0;
      }
    }
    char conversion = *format < 0x80 ? (char)*format : '?';
    if (conversion) {
      format++;
    }
    memcpy(spec + used, "*.*", 3);
    used += 3;
    switch (conversion) {
    case 'd':
    case 'i': {
      long long value = bits == 64 ? va_arg(arguments->list, long long) : va_arg(arguments->list, int);
      value = bits == 16 ? (short)value : bits == 8 ? (signed char)value : value;
      memcpy(spec + used, "lld", 4);
      OPENETW_TEXT_NUMBER_(out, spec, width, precision, value);
      break;
    }
    case 'u':
    case 'o':
    case 'x':
    case 'X': {
      unsigned long long value =
          bits == 64 ? va_arg(arguments->list, unsigned long long) : va_arg(arguments->list, unsigned);
      value = bits == 16 ? (unsigned short)value : bits == 8 ? (unsigned char)value : value;
      spec[used++] = 'l';
      spec[used++] = 'l';
      spec[used++] = conversion;
      spec[used] = 0;
      OPENETW_TEXT_NUMBER_(out, spec, width, precision, value);
      break;
    }
    case 'p': {
      unsigned long long value = (unsigned long long)(UINT_PTR)va_arg(arguments->list, void *);
      OPENETW_TEXT_NUMBER_(out, isLeft ? "%-*.16llX" : "%*.16llX", width, value);
      break;
    }
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
    case 'a':
    case 'A':
      if (isLong) {
        spec[used++] = 'L';
      }
      spec[used++] = conversion;
      spec[used] = 0;
      if (isLong) {
        long double value = va_arg(arguments->list, long double);
        OPENETW_TEXT_NUMBER_(out, spec, width, precision, value);
      } else {
        double value = va_arg(arguments->list, double);
        OPENETW_TEXT_NUMBER_(out, spec, width, precision, value);
      }
      break;
    case 'c':
    case 'C': {
      int unit = va_arg(arguments->list, int);
      if ((conversion == 'c' && !isNarrow) || isWide) {
        WCHAR wide = (WCHAR)unit;
        openetw_text_string(out, &wide, 1, 1, width, -1, isLeft);
      } else {
        char narrow = (char)unit;
        openetw_text_string(out, &narrow, 0, 1, width, -1, isLeft);
      }
      break;
    }
    case 's':
    case 'S':
      openetw_text_string(out, va_arg(arguments->list, const void *),
                          (conversion == 's' && !isNarrow) || isWide, -1, width, precision, isLeft);
      break;
    case 'Z': {
      const UNICODE_STRING *value = va_arg(arguments->list, const UNICODE_STRING *);
      long length = value == NULL ? -1 : isWide ? (long)(value->Length / sizeof(WCHAR)) : (long)value->Length;
      openetw_text_string(out, value ? value->Buffer : NULL, isWide, length, width, precision, isLeft);
      break;
    }
    case 'n':
      /* As on Windows, where it is disabled. */
      (void)va_arg(arguments->list, void *);
      break;
    case 0:
      break;
    default:
      openetw_text_put(out, (UINT32)(unsigned char)conversion);
    }
  }
}

/* Writes text to a stream, whatever its orientation. */
OPENETW_INLINE_ int openetw_text_write(FILE *stream, const char *bytes, size_t length) {
  if (fwide(stream, 0) <= 0) {
    return fwrite(bytes, 1, length, stream) == length ? (int)length : -1;
  }
  const char *end = bytes + length;
  while (bytes != end) {
    if (fputwc((wchar_t)openetw_narrow_next(&bytes, end), stream) == WEOF) {
      return -1;
    }
  }
  return (int)length;
}

OPENETW_INLINE_ int openetw_vfwprintf(FILE *stream, const WCHAR *format, va_list list) {
  struct openetw_text text = {NULL, 0, 0};
  struct openetw_arguments arguments;
  va_copy(arguments.list, list);
  openetw_text_format(&text, format, &arguments);
  va_end(arguments.list);
  int result = text.length ? openetw_text_write(stream, text.bytes, text.length) : 0;
  free(text.bytes);
  return result;
}

/* Returns -1 if the text does not fit; it is then cut. */
OPENETW_INLINE_ int openetw_vswprintf(WCHAR *to, size_t size, const WCHAR *format, va_list list) {
  struct openetw_text text = {NULL, 0, 0};
  struct openetw_arguments arguments;
  va_copy(arguments.list, list);
  openetw_text_format(&text, format, &arguments);
  va_end(arguments.list);
  size_t length = openetw_widen(to, size, text.bytes, text.length);
  free(text.bytes);
  return length == (size_t)-1 ? -1 : (int)length;
}

#define OPENETW_FORWARD_(result, last, call)                                                                           \
  va_list list;                                                                                                        \
  va_start(list, last);                                                                                                \
  int result = call;                                                                                                   \
  va_end(list)

OPENETW_INLINE_ int openetw_fwprintf(FILE *stream, const WCHAR *format, ...) {
  OPENETW_FORWARD_(result, format, openetw_vfwprintf(stream, format, list));
  return result;
}
OPENETW_INLINE_ int openetw_wprintf(const WCHAR *format, ...) {
  OPENETW_FORWARD_(result, format, openetw_vfwprintf(stdout, format, list));
  return result;
}
OPENETW_INLINE_ int openetw_swprintf(WCHAR *to, size_t size, const WCHAR *format, ...) {
  OPENETW_FORWARD_(result, format, openetw_vswprintf(to, size, format, list));
  return result;
}
OPENETW_INLINE_ int openetw_fputws(const WCHAR *text, FILE *stream) {
  struct openetw_text out = {NULL, 0, 0};
  openetw_text_string(&out, text, 1, -1, 0, -1, 1);
  int result = out.length ? openetw_text_write(stream, out.bytes, out.length) : 0;
  free(out.bytes);
  return result;
}
OPENETW_INLINE_ int openetw_putws(const WCHAR *text) {
  return openetw_fputws(text, stdout) < 0 || fputc('\n', stdout) < 0 ? -1 : 0;
}

/* Comparisons that ignore the case of ASCII and of what libc knows. */
OPENETW_INLINE_ UINT32 openetw_lower(UINT32 character) {
  return character < 0x80 ? (UINT32)tolower((int)character) : (UINT32)towlower((wint_t)character);
}
OPENETW_INLINE_ int openetw_wcsnicmp(const WCHAR *one, const WCHAR *other, size_t limit) {
  for (size_t at = 0; at < limit; at++) {
    UINT32 a = openetw_lower((UINT32)one[at]), b = openetw_lower((UINT32)other[at]);
    if (a != b) {
      return a < b ? -1 : 1;
    }
    if (a == 0) {
      break;
    }
  }
  return 0;
}
#define _wcsicmp(one, other) openetw_wcsnicmp((one), (other), (size_t)-1)
#define _wcsnicmp(one, other, limit) openetw_wcsnicmp((one), (other), (limit))
#define wcsicmp(one, other) openetw_wcsnicmp((one), (other), (size_t)-1)
OPENETW_INLINE_ int openetw_strnicmp(const char *one, const char *other, size_t limit) {
  for (size_t at = 0; at < limit; at++) {
    int a = tolower((unsigned char)one[at]), b = tolower((unsigned char)other[at]);
    if (a != b || a == 0) {
      return a - b;
    }
  }
  return 0;
}
#define _stricmp(one, other) openetw_strnicmp((one), (other), (size_t)-1)
#define _strnicmp(one, other, limit) openetw_strnicmp((one), (other), (limit))
#define stricmp(one, other) openetw_strnicmp((one), (other), (size_t)-1)
#define lstrcmpiW(one, other) openetw_wcsnicmp((one), (other), (size_t)-1)
#define lstrcmpiA(one, other) openetw_strnicmp((one), (other), (size_t)-1)

/* Numbers in wide text. */
OPENETW_INLINE_ unsigned long long openetw_wcstoull(const WCHAR *text, WCHAR **end, int base, int *isNegative) {
  const WCHAR *at = text;
  while (*at == ' ' || (*at >= '\t' && *at <= '\r')) {
    at++;
  }
  *isNegative = *at == '-';
  at += *at == '-' || *at == '+';
  if ((base == 0 || base == 16) && at[0] == '0' && (at[1] == 'x' || at[1] == 'X')) {
    at += 2;
    base = 16;
  }
  base = base ? base : *at == '0' ? 8 : 10;
  unsigned long long value = 0;
  const WCHAR *first = at;
  for (;; at++) {
    int digit = *at >= '0' && *at <= '9' ? (int)(*at - '0') : *at >= 'a' && *at <= 'z' ? (int)(*at - 'a') + 10
                                                          : *at >= 'A' && *at <= 'Z'   ? (int)(*at - 'A') + 10
                                                                                       : 99;
    if (digit >= base) {
      break;
    }
    value = value > (ULLONG_MAX - (unsigned)digit) / (unsigned)base ? ULLONG_MAX : value * (unsigned)base + (unsigned)digit;
  }
  if (end) {
    *end = (WCHAR *)(at == first ? text : at);
  }
  return value;
}
OPENETW_INLINE_ long long openetw_wtoi64(const WCHAR *text) {
  int isNegative;
  unsigned long long value = openetw_wcstoull(text, NULL, 10, &isNegative);
  return isNegative ? -(long long)value : (long long)value;
}
#define _wtoi(text) ((int)openetw_wtoi64(text))
#define _wtol(text) ((int)openetw_wtoi64(text))
#define _wtoi64(text) openetw_wtoi64(text)
#define _atoi64(text) atoll(text)
#define _strtoui64(text, end, base) strtoull((text), (end), (base))
#define _strtoi64(text, end, base) strtoll((text), (end), (base))

/* Functions with bounds. Text that does not fit leaves an empty text and returns ERANGE. */
#ifndef _ERRNO_T_DEFINED
#define _ERRNO_T_DEFINED
typedef int errno_t;
#endif
#define _TRUNCATE ((size_t)-1)
#ifndef STRUNCATE
#define STRUNCATE 80
#endif
#define OPENETW_BOUNDED_(prefix, character)                                                                            \
  OPENETW_INLINE_ errno_t prefix##ncpy_s(character *to, size_t size, const character *from, size_t count) {            \
    if (to == NULL || size == 0) {                                                                                     \
      return EINVAL;                                                                                                   \
    }                                                                                                                  \
    if (from == NULL) {                                                                                                \
      to[0] = 0;                                                                                                       \
      return EINVAL;                                                                                                   \
    }                                                                                                                  \
    size_t at = 0;                                                                                                     \
    for (; at < count && from[at]; at++) {                                                                             \
      if (at + 1 == size) {                                                                                            \
        to[count == _TRUNCATE ? at : 0] = 0;                                                                           \
        return count == _TRUNCATE ? STRUNCATE : ERANGE;                                                                \
      }                                                                                                                \
      to[at] = from[at];                                                                                               \
    }                                                                                                                  \
    to[at] = 0;                                                                                                        \
    return 0;                                                                                                          \
  }                                                                                                                    \
  OPENETW_INLINE_ errno_t prefix##cpy_s(character *to, size_t size, const character *from) {                           \
    return prefix##ncpy_s(to, size, from, _TRUNCATE - 1);                                                              \
  }                                                                                                                    \
  OPENETW_INLINE_ errno_t prefix##cat_s(character *to, size_t size, const character *from) {                           \
    size_t length = 0;                                                                                                 \
    while (to && length < size && to[length]) {                                                                        \
      length++;                                                                                                        \
    }                                                                                                                  \
    errno_t result = to && length < size ? prefix##ncpy_s(to + length, size - length, from, _TRUNCATE - 1) : EINVAL;   \
    if (result != 0 && to && size) {                                                                                   \
      to[0] = 0;                                                                                                       \
    }                                                                                                                  \
    return result;                                                                                                     \
  }
OPENETW_BOUNDED_(str, char)
OPENETW_BOUNDED_(wcs, WCHAR)
#undef OPENETW_BOUNDED_

OPENETW_INLINE_ errno_t memcpy_s(void *to, size_t size, const void *from, size_t count) {
  if (count == 0) {
    return 0;
  }
  if (to == NULL) {
    return EINVAL;
  }
  if (from == NULL || count > size) {
    memset(to, 0, size);
    return from == NULL ? EINVAL : ERANGE;
  }
  memcpy(to, from, count);
  return 0;
}

OPENETW_INLINE_ int openetw_vsprintf_s(char *to, size_t size, const char *format, va_list list) {
  va_list copy;
  va_copy(copy, list);
  int length = vsnprintf(to, size, format, copy);
  va_end(copy);
  if (length >= 0 && (size_t)length < size) {
    return length;
  }
  if (size) {
    to[0] = 0;
  }
  return -1;
}
OPENETW_INLINE_ int openetw_vswprintf_s(WCHAR *to, size_t size, const WCHAR *format, va_list list) {
  int length = openetw_vswprintf(to, size, format, list);
  if (length < 0 && size) {
    to[0] = 0;
  }
  return length;
}
/* At most `count` characters; more are cut. */
OPENETW_INLINE_ int openetw_vsnwprintf_s(WCHAR *to, size_t size, size_t count, const WCHAR *format, va_list list) {
  return openetw_vswprintf(to, count < size ? count + 1 : size, format, list);
}
#define _vsnwprintf(to, size, format, list) openetw_vswprintf((to), (size), (format), (list))
#define _vsnwprintf_s(to, size, count, format, list) openetw_vsnwprintf_s((to), (size), (count), (format), (list))
#define _vsnprintf(to, size, format, list) vsnprintf((to), (size), (format), (list))
#define _snprintf snprintf
OPENETW_INLINE_ int _snwprintf(WCHAR *to, size_t size, const WCHAR *format, ...) {
  OPENETW_FORWARD_(result, format, openetw_vswprintf(to, size, format, list));
  return result;
}
OPENETW_INLINE_ int _snwprintf_s(WCHAR *to, size_t size, size_t count, const WCHAR *format, ...) {
  OPENETW_FORWARD_(result, format, openetw_vsnwprintf_s(to, size, count, format, list));
  return result;
}
OPENETW_INLINE_ int _snprintf_s(char *to, size_t size, size_t count, const char *format, ...) {
  size_t room = count < size ? count + 1 : size;
  OPENETW_FORWARD_(result, format, vsnprintf(to, room, format, list));
  return result >= 0 && (size_t)result < room ? result : -1;
}
OPENETW_INLINE_ int sprintf_s(char *to, size_t size, const char *format, ...) {
  OPENETW_FORWARD_(result, format, openetw_vsprintf_s(to, size, format, list));
  return result;
}
OPENETW_INLINE_ int swprintf_s(WCHAR *to, size_t size, const WCHAR *format, ...) {
  OPENETW_FORWARD_(result, format, openetw_vswprintf_s(to, size, format, list));
  return result;
}
OPENETW_INLINE_ int vsprintf_s(char *to, size_t size, const char *format, va_list list) {
  return openetw_vsprintf_s(to, size, format, list);
}
OPENETW_INLINE_ int vswprintf_s(WCHAR *to, size_t size, const WCHAR *format, va_list list) {
  return openetw_vswprintf_s(to, size, format, list);
}
/* Return the number of characters that the functions above would write. */
OPENETW_INLINE_ int _vscprintf(const char *format, va_list list) {
  va_list copy;
  va_copy(copy, list);
  int length = vsnprintf(NULL, 0, format, copy);
  va_end(copy);
  return length;
}
OPENETW_INLINE_ int _vscwprintf(const WCHAR *format, va_list list) {
  struct openetw_text text = {NULL, 0, 0};
  struct openetw_arguments arguments;
  va_copy(arguments.list, list);
  openetw_text_format(&text, format, &arguments);
  va_end(arguments.list);
  int length = 0;
  const char *at = text.bytes, *end = text.bytes + text.length;
  while (at != end) {
    length += openetw_narrow_next(&at, end) > 0xFFFF && OPENETW_WIDE_BITS == 16 ? 2 : 1;
  }
  free(text.bytes);
  return length;
}

/* Returns the path or mode as UTF-8, to be freed. */
OPENETW_INLINE_ char *openetw_narrowed(const WCHAR *text) {
  struct openetw_text out = {NULL, 0, 0};
  openetw_text_string(&out, text, 1, -1, 0, -1, 1);
  openetw_text_pad(&out, 1, 0);
  return out.bytes;
}
/* The encodings that a mode may name (`ccs=UTF-8`) are ignored: text is UTF-8. */
OPENETW_INLINE_ FILE *_wfopen(const WCHAR *path, const WCHAR *mode) {
  char *narrowPath = openetw_narrowed(path), *narrowMode = openetw_narrowed(mode);
  FILE *file = NULL;
  if (narrowPath && narrowMode) {
    narrowMode[strcspn(narrowMode, ",")] = 0;
    file = fopen(narrowPath, narrowMode);
  }
  free(narrowPath);
  free(narrowMode);
  return file;
}
OPENETW_INLINE_ errno_t _wfopen_s(FILE **file, const WCHAR *path, const WCHAR *mode) {
  *file = _wfopen(path, mode);
  return *file ? 0 : errno;
}
/* The absolute path, which need not exist; allocated if `to` is NULL. */
OPENETW_INLINE_ char *_fullpath(char *to, const char *path, size_t size) {
  char start[4096] = "";
  if (path[0] != '/') {
    if (openetw_getcwd(start, sizeof start - 1) == NULL) {
      return NULL;
    }
    strcat(start, "/");
  }
  size_t needed = strlen(start) + strlen(path) + 1;
  char *result = to ? to : (char *)malloc(needed);
  if (result == NULL || (to && needed > size)) {
    return NULL;
  }
  return strcat(strcpy(result, start), path);
}
OPENETW_INLINE_ WCHAR *_wfullpath(WCHAR *to, const WCHAR *path, size_t size) {
  char *narrow = openetw_narrowed(path);
  char *full = narrow ? _fullpath(NULL, narrow, 0) : NULL;
  WCHAR *result = NULL;
  if (full) {
    size = to ? size : strlen(full) + 1;
    result = to ? to : (WCHAR *)malloc(size * sizeof(WCHAR));
    if (result && openetw_widen(result, size, full, strlen(full)) == (size_t)-1) {
      result = NULL;
    }
  }
  free(narrow);
  free(full);
  return result;
}
OPENETW_INLINE_ errno_t fopen_s(FILE **file, const char *path, const char *mode) {
  *file = fopen(path, mode);
  return *file ? 0 : errno;
}

#ifdef __cplusplus
extern "C++" {
/* The size of an array need not be stated in C++. */
template <size_t size> inline errno_t strcpy_s(char (&to)[size], const char *from) { return strcpy_s(to, size, from); }
template <size_t size> inline errno_t strcat_s(char (&to)[size], const char *from) { return strcat_s(to, size, from); }
template <size_t size> inline errno_t wcscpy_s(WCHAR (&to)[size], const WCHAR *from) {
  return wcscpy_s(to, size, from);
}
template <size_t size> inline errno_t wcscat_s(WCHAR (&to)[size], const WCHAR *from) {
  return wcscat_s(to, size, from);
}
template <size_t size> inline int sprintf_s(char (&to)[size], const char *format, ...) {
  OPENETW_FORWARD_(result, format, openetw_vsprintf_s(to, size, format, list));
  return result;
}
template <size_t size> inline int swprintf_s(WCHAR (&to)[size], const WCHAR *format, ...) {
  OPENETW_FORWARD_(result, format, openetw_vswprintf_s(to, size, format, list));
  return result;
}
namespace std {
using ::openetw_fputws;
using ::openetw_fwprintf;
using ::openetw_swprintf;
using ::openetw_vfwprintf;
using ::openetw_vswprintf;
using ::openetw_wprintf;
} // namespace std
}
#endif

#if !defined(OPENETW_LIBC_TEXT) && !defined(OPENETW_USE_CHAR16)
#define wprintf(...) openetw_wprintf(__VA_ARGS__)
#define fwprintf(...) openetw_fwprintf(__VA_ARGS__)
#define vwprintf(format, list) openetw_vfwprintf(stdout, (format), (list))
#define vfwprintf(stream, format, list) openetw_vfwprintf((stream), (format), (list))
#define swprintf(...) openetw_swprintf(__VA_ARGS__)
#define vswprintf(to, size, format, list) openetw_vswprintf((to), (size), (format), (list))
#define fputws(text, stream) openetw_fputws((text), (stream))
#endif
#define _putws(text) openetw_putws(text)
#define wprintf_s(...) openetw_wprintf(__VA_ARGS__)
#define fwprintf_s(...) openetw_fwprintf(__VA_ARGS__)
#define printf_s printf
#define fprintf_s fprintf

#if OPENETW_WIDE_BITS == 16 && !defined(OPENETW_USE_CHAR16)
/* Those of libc are for characters of 32 bits. */
OPENETW_INLINE_ size_t openetw_wcslen(const WCHAR *text) { return openetw_wcsnlen(text, (size_t)-1); }
OPENETW_INLINE_ WCHAR *openetw_wcscpy(WCHAR *to, const WCHAR *from) {
  return (WCHAR *)memmove(to, from, (openetw_wcslen(from) + 1) * sizeof(WCHAR));
}
OPENETW_INLINE_ WCHAR *openetw_wcsncpy(WCHAR *to, const WCHAR *from, size_t count) {
  size_t length = openetw_wcsnlen(from, count);
  memmove(to, from, length * sizeof(WCHAR));
  memset(to + length, 0, (count - length) * sizeof(WCHAR));
  return to;
}
OPENETW_INLINE_ WCHAR *openetw_wcscat(WCHAR *to, const WCHAR *from) {
  openetw_wcscpy(to + openetw_wcslen(to), from);
  return to;
}
OPENETW_INLINE_ int openetw_wcsncmp(const WCHAR *one, const WCHAR *other, size_t limit) {
  for (size_t at = 0; at < limit; at++) {
    if (one[at] != other[at]) {
      return one[at] < other[at] ? -1 : 1;
    }
    if (one[at] == 0) {
      break;
    }
  }
  return 0;
}
OPENETW_INLINE_ WCHAR *openetw_wcschr(const WCHAR *text, WCHAR character) {
  for (;; text++) {
    if (*text == character) {
      return (WCHAR *)text;
    }
    if (*text == 0) {
      return NULL;
    }
  }
}
OPENETW_INLINE_ WCHAR *openetw_wcsrchr(const WCHAR *text, WCHAR character) {
  const WCHAR *found = NULL;
  for (;; text++) {
    found = *text == character ? text : found;
    if (*text == 0) {
      return (WCHAR *)found;
    }
  }
}
OPENETW_INLINE_ WCHAR *openetw_wcsstr(const WCHAR *text, const WCHAR *part) {
  size_t length = openetw_wcslen(part);
  for (;; text++) {
    if (openetw_wcsncmp(text, part, length) == 0) {
      return (WCHAR *)text;
    }
    if (*text == 0) {
      return NULL;
    }
  }
}
OPENETW_INLINE_ unsigned long openetw_wcstoul(const WCHAR *text, WCHAR **end, int base) {
  int isNegative;
  unsigned long value = (unsigned long)openetw_wcstoull(text, end, base, &isNegative);
  return isNegative ? 0 - value : value;
}
OPENETW_INLINE_ WCHAR *openetw_wcsdup(const WCHAR *text) {
  size_t size = (openetw_wcslen(text) + 1) * sizeof(WCHAR);
  WCHAR *copy = (WCHAR *)malloc(size);
  return copy ? (WCHAR *)memcpy(copy, text, size) : NULL;
}
#define wcslen(text) openetw_wcslen(text)
#define wcsnlen(text, limit) openetw_wcsnlen((text), (limit))
#define wcscpy(to, from) openetw_wcscpy((to), (from))
#define wcsncpy(to, from, count) openetw_wcsncpy((to), (from), (count))
#define wcscat(to, from) openetw_wcscat((to), (from))
#define wcscmp(one, other) openetw_wcsncmp((one), (other), (size_t)-1)
#define wcsncmp(one, other, limit) openetw_wcsncmp((one), (other), (limit))
#define wcschr(text, character) openetw_wcschr((text), (character))
#define wcsrchr(text, character) openetw_wcsrchr((text), (character))
#define wcsstr(text, part) openetw_wcsstr((text), (part))
#define wcstoul(text, end, base) openetw_wcstoul((text), (end), (base))
#define wcstol(text, end, base) ((long)openetw_wcstoul((text), (end), (base)))
#define _wcsdup(text) openetw_wcsdup(text)
#define lstrlenW(text) ((int)openetw_wcslen(text))
#ifdef __cplusplus
extern "C++" {
namespace std {
using ::openetw_wcscat;
using ::openetw_wcschr;
using ::openetw_wcscpy;
using ::openetw_wcslen;
using ::openetw_wcsncmp;
using ::openetw_wcsncpy;
using ::openetw_wcsrchr;
using ::openetw_wcsstr;
using ::openetw_wcstoul;
} // namespace std
}
#endif
#elif OPENETW_WIDE_BITS == 32
#define _wcsdup(text) openetw_libc_wcsdup(text)
#define lstrlenW(text) ((int)wcslen(text))
#define _wcstoui64(text, end, base) wcstoull((text), (end), (base))
#define _wcstoi64(text, end, base) wcstoll((text), (end), (base))
#endif
#define lstrlenA(text) ((int)strlen(text))
#define _strdup(text) openetw_strdup(text)

#endif
