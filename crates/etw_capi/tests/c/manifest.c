/* Writes the events of provider.man with the macros of its header. C and C++, all kinds of wide characters. */
#include "provider.h"

int main(void) {
  if (EventRegisterOpenETW_Test_Manifest() != ERROR_SUCCESS || EventRegisterOpenETW_Test_Manifest() != ERROR_SUCCESS) {
    return 1;
  }
  if (!EventEnabledNumbersEvent() || EventEnabledDetailEvent() || !MCGEN_ENABLE_CHECK(OPENETW_TEST_Context, TextsEvent)) {
    return 2;
  }
  GUID id = OPENETW_TEST;
  FILETIME when = {0xD53E8000, 0x019DB1DE};
  SYSTEMTIME parts = {2020, 2, 6, 29, 12, 30, 15, 250};
  SID user = {1, 1, {{0, 0, 0, 0, 0, 5}}, {18}};
  if (!SystemTimeToFileTime(&parts, &when)) {
    return 3;
  }
  EventWriteNumbersEvent(-1, ColorBlue, -300, 443, -70000, 77, -5000000000, 18446744073709551615u, 0.5f, 0.25, TRUE, &id,
                         (void *)0x1000, &when, &parts, &user, 0x1F, 0x20);
  const BYTE bytes[3] = {1, 2, 3};
  const BYTE address[16] = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  EventWriteTextsEvent(TEXT("w\u00e4de"), "ansi", TEXT("abcdef"), 3, "xyzw", bytes, 5, TEXT("counted"), 2, "hello", 3, bytes,
                       address);
  EventWriteTextsEvent(NULL, NULL, TEXT("abcd"), 0, "", bytes, 0, TEXT(""), 0, "", 0, bytes, address);
  const UINT numbers[2] = {7, 8};
  const SHORT three[3] = {-1, 0, 1};
  const BYTE place[3] = {1, 2, 0};
  EventWriteArraysEvent(2, numbers, three, 8, TEXT("one\0two"), TEXT("abcd"), 3, place, 2, bytes, 9);
  EventWriteEmptyEvent();
  EventWriteDetailEvent();
  if (OWN_CHANNEL != 16 || LEVEL_DETAIL != 16 || TASK_COUNT != 7 || KEYWORD_NET != 4 || NumbersEvent_value != 1 ||
      OPENETW_TEST_OPCODE_Again != 10 || OPENETW_TEST_CHANNEL_APP != 9 || TASK_COUNTId.Data4[7] != 0x11) {
    return 4;
  }
  /* Twice does no harm. */
  return (int)(EventUnregisterOpenETW_Test_Manifest() + EventUnregisterOpenETW_Test_Manifest());
}
