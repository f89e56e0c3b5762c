/* Socket addresses of this system under the names of Windows; the address families have this system's numbers. */
#ifndef OPENETW_WINSOCK2_H
#define OPENETW_WINSOCK2_H

#pragma GCC system_header

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <windows.h>

typedef struct in_addr IN_ADDR, *PIN_ADDR;
typedef struct in6_addr IN6_ADDR, *PIN6_ADDR;
typedef struct sockaddr SOCKADDR, *PSOCKADDR, *LPSOCKADDR;
typedef struct sockaddr_in SOCKADDR_IN, *PSOCKADDR_IN;
typedef struct sockaddr_in6 SOCKADDR_IN6, *PSOCKADDR_IN6;
typedef struct sockaddr_storage SOCKADDR_STORAGE, *PSOCKADDR_STORAGE;

#endif
