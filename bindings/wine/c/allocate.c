/* Allocates and frees memory with mimalloc, which writes an event for each, and prints the addresses. */
#include <mimalloc.h>
#include <stdio.h>

#define COUNT 100

/* Visual C++ takes the declaration in mimalloc's header for a definition, and GCC does not. */
unsigned long microsoft_windows_mimallocEnableBits[1];

int main(void) {
  void *blocks[COUNT];
  for (size_t index = 0; index < COUNT; index++) {
    blocks[index] = mi_malloc(16 * (index + 1));
    printf("%llu\n", (unsigned long long)(size_t)blocks[index]);
  }
  for (size_t index = 0; index < COUNT; index++) {
    mi_free(blocks[index]);
  }
  return 0;
}
