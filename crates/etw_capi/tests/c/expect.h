/* Checks of test programs: prints what is not as expected. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

__attribute__((unused)) static void expect_number(int line, const char *what, unsigned long long found, unsigned long long expected) {
  if (found != expected) {
    printf("line %d: %s: %llu, expected %llu\n", line, what, found, expected);
    failures++;
  }
}

__attribute__((unused)) static void expect_text(int line, const char *what, const char *found, const char *expected) {
  if (strcmp(found, expected) != 0) {
    printf("line %d: %s: '%s', expected '%s'\n", line, what, found, expected);
    failures++;
  }
}

#define EXPECT(call, expected)                                                                                         \
  expect_number(__LINE__, #call, (unsigned long long)(call), (unsigned long long)(expected))
#define EXPECT_TEXT(call, expected) expect_text(__LINE__, #call, (call), (expected))
