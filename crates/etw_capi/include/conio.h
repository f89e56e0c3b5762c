/* Waiting for a key: on Linux, for a line. */
#ifndef OPENETW_CONIO_H
#define OPENETW_CONIO_H

#pragma GCC system_header

#include <stdio.h>

#define _getch() getchar()
#define _getwch() getchar()
#define getch() getchar()

#endif
