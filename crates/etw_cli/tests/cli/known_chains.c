// Does what the tables by stack count, each in a chain of functions whose names start with k_.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define N __attribute__((noinline))
static volatile long sink;
static char data[65536];

static void rest(long microseconds) {
    struct timespec time = {0, microseconds * 1000};
    nanosleep(&time, 0);
}

// Waits: two kinds of sleep, and a thread that another one wakes after its own sleep.
N void k_nap(void) { rest(1000); sink++; }
N void k_naps(void) { for (int i = 0; i < 20; i++) k_nap(); sink++; }
N void k_sleep(void) { rest(4000); sink++; }
N void k_sleeps(void) { for (int i = 0; i < 10; i++) k_sleep(); sink++; }

static atomic_int turns;
N void k_take_turn(void) {
    while (!atomic_load(&turns)) syscall(SYS_futex, &turns, FUTEX_WAIT, 0, 0, 0, 0);
    atomic_fetch_sub(&turns, 1);
    sink++;
}
N void k_taker(void) { for (int i = 0; i < 20; i++) k_take_turn(); sink++; }
N void k_rest_before(void) { rest(2000); sink++; }
N void k_give_turn(void) {
    atomic_fetch_add(&turns, 1);
    syscall(SYS_futex, &turns, FUTEX_WAKE, 1, 0, 0, 0);
    sink++;
}
N void *k_giver(void *x) {
    for (int i = 0; i < 20; i++) { k_rest_before(); k_give_turn(); }
    sink++;
    return x;
}
static void waits(void) {
    pthread_t giver;
    k_naps();
    k_sleeps();
    pthread_create(&giver, 0, k_giver, 0);
    k_taker();
    pthread_join(giver, 0);
}

// Files and sockets.
N void k_write(int file) { sink += write(file, data, 4096); }
N void k_writes(int file) { for (int i = 0; i < 64; i++) k_write(file); sink++; }
N void k_sync(int file) { sink += fsync(file); }
N void k_syncs(int file) { k_sync(file); sink++; }
N void k_read(int file, int i) { sink += pread(file, data, 1000, i * 1000); }
N void k_reads(int file) { for (int i = 0; i < 50; i++) k_read(file, i); sink++; }
N void k_send(int socket) { sink += send(socket, data, 500, 0); }
N void k_sends(int socket) { for (int i = 0; i < 40; i++) k_send(socket); sink++; }
N void k_receive(int socket) { sink += recv(socket, data, 20000, MSG_WAITALL); }
N void k_receives(int socket) { k_receive(socket); sink++; }
N void k_page_in(volatile char *memory, int i) { sink += memory[i * 4096]; }
N void k_page_ins(int file) {
    volatile char *memory = mmap(0, 64 * 4096, PROT_READ, MAP_SHARED, file, 0);
    madvise((void *)memory, 64 * 4096, MADV_RANDOM);
    for (int i = 0; i < 64; i++) k_page_in(memory, i);
    munmap((void *)memory, 64 * 4096);
}

static void files(const char *path) {
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    k_writes(file);
    k_syncs(file);
    k_reads(file);
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    k_page_ins(file);
    close(file);
    struct sockaddr_in address = {AF_INET, 0, {htonl(INADDR_LOOPBACK)}, {0}};
    socklen_t size = sizeof address;
    int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    bind(server, (struct sockaddr *)&address, size);
    listen(server, 1);
    getsockname(server, (struct sockaddr *)&address, &size);
    connect(client, (struct sockaddr *)&address, size);
    int other = accept(server, 0, 0);
    k_sends(client);
    k_receives(other);
    close(other);
    close(client);
    close(server);
}

// Memory, system calls and time.
N char *k_map(void) { return mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
N void k_maps(char **blocks) { for (int i = 0; i < 8; i++) blocks[i] = k_map(); sink++; }
N void k_touch(char *page) { *page = 1; sink++; }
N void k_touches(char *block) { for (int i = 0; i < 256; i++) k_touch(block + i * 4096); sink++; }
N void k_ask(void) { sink += syscall(SYS_getppid); }
N void k_asks(void) { for (int i = 0; i < 300; i++) k_ask(); sink++; }

N void k_spin(void) {
    struct timespec time;
    do {
        for (int i = 0; i < 100000; i++) sink += i;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    } while (time.tv_sec == 0 && time.tv_nsec < 300000000);
}
N void k_spins(void) { k_spin(); sink++; }

static void memory(void) {
    char *blocks[8];
    k_maps(blocks);
    // Else one fault may bring 2 MiB.
    for (int i = 0; i < 8; i++) madvise(blocks[i], 1 << 20, MADV_NOHUGEPAGE);
    for (int i = 0; i < 8; i++) k_touches(blocks[i]);
    k_asks();
    k_spins();
}

int main(int count, char **arguments) {
    if (count > 2) files(arguments[2]);
    else if (!strcmp(arguments[1], "waits")) waits();
    else memory();
    return 0;
}
