/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the programs use of the kernel: the fields of its structures that they read, and its helpers by number.
 * Only the names of structures and fields matter; their offsets are taken from the running kernel's BTF at load. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef short s16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;
typedef _Bool bool;
#define true ((bool)1)
#define false ((bool)0)

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static __attribute__((always_inline)) inline
/* A large function whose code the programs share. */
#define SHARED static __attribute__((noinline))
/* The same, but verified separately and once. Its arguments are numbers of any value. */
#define GLOBAL __attribute__((noinline))
#define RELOCATED __attribute__((preserve_access_index))

/* Definition of a map by the types of its members in the object's BTF. */
#define NUMBER(name, value) int(*name)[value]
#define TYPE(name, value) typeof(value) *name
#define VALUES(name, value) typeof(value) *name[]
#define MAP SECTION(".maps")

/* Flag of a map whose memory the reader shares. */
#define MAP_MMAPABLE 1024

enum map_type {
	MAP_HASH = 1,
	MAP_ARRAY = 2,
	MAP_PERCPU_ARRAY = 6,
	MAP_LRU_HASH = 9,
	MAP_ARRAY_OF_MAPS = 12,
	MAP_RINGBUF = 27,
};

#define UPDATE_ANY 0
#define UPDATE_NEW_ONLY 1
#define RING_NO_WAKEUP 1
#define RING_UNREAD 0
#define STACK_OF_USER 256

static void *(*const map_lookup)(const void *map, const void *key) = (void *)1;
static long (*const map_update)(const void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_delete)(const void *map, const void *key) = (void *)3;
static u64 (*const ktime)(void) = (void *)5;
static u32 (*const processor)(void) = (void *)8;
static u64 (*const current_pid_tid)(void) = (void *)14;
static u64 (*const current_uid_gid)(void) = (void *)15;
static void *(*const current_task)(void) = (void *)35;
static long (*const get_stack)(void *context, void *to, u32 size, u64 flags) = (void *)67;
static long (*const read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*const read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*const read_kernel_str)(void *to, u32 size, const void *from) = (void *)115;
static long (*const seq_write)(void *to, const void *from, u32 size) = (void *)127;
static long (*const read_user_str)(void *to, u32 size, const void *from) = (void *)114;
static long (*const ring_output)(void *ring, const void *from, u64 size, u64 flags) = (void *)130;
static void *(*const ring_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static u64 (*const ring_query)(void *ring, u64 flags) = (void *)134;
static void (*const ring_submit)(void *record, u64 flags) = (void *)132;
static void (*const ring_discard)(void *record, u64 flags) = (void *)133;
/* Since 5.11 the current task, since 5.15 the registers of a task where it entered the kernel, since 5.17 a call with the
 * mapping at an address, and a loop. */
static void *(*const current_task_typed)(void) = (void *)158;
static long (*const get_task_stack)(void *task, void *to, u32 size, u64 flags) = (void *)141;
static void *(*const task_registers)(void *task) = (void *)175;
static long (*const mapping_at)(void *task, u64 address, void *each, void *context, u64 flags) = (void *)180;
static long (*const repeat)(u32 times, void *each, void *context, u64 flags) = (void *)181;

/* Reads a field of a pointer that the verifier does not trust; zero if that fails. */
#define LOAD(pointer, field)                                                                                      \
	({                                                                                                        \
		typeof((pointer)->field) value_ = 0;                                                              \
		read_kernel(&value_, sizeof(value_), &(pointer)->field);                                          \
		value_;                                                                                           \
	})

#define FIELD_EXISTS(field) __builtin_preserve_field_info(field, 2)
#define FIELD_OFFSET(type, field) __builtin_preserve_field_info(((type *)0)->field, 0)
/* The structure with this field at this address. */
#define HOLDER(type, field, address) ((type *)((void *)(address) - FIELD_OFFSET(type, field)))

/* Whether the running kernel has a helper, by its name in the kernel. */
enum bpf_func_id {
	BPF_FUNC_task_pt_regs = 175,
	BPF_FUNC_find_vma = 180,
};
#define HAS_TASK_REGISTERS __builtin_preserve_enum_value(*(enum bpf_func_id *)BPF_FUNC_task_pt_regs, 0)
#define HAS_FIND_MAPPING __builtin_preserve_enum_value(*(enum bpf_func_id *)BPF_FUNC_find_vma, 0)

/* Reads a bit field. Offset, size and shifts come from the kernel's BTF. */
#define BIT_FIELD(from, field)                                                                                    \
	({                                                                                                        \
		u64 value_ = 0;                                                                                   \
		const void *at_ = (const void *)(from) + __builtin_preserve_field_info((from)->field, 0);         \
		read_kernel(&value_, __builtin_preserve_field_info((from)->field, 1), at_);                       \
		value_ <<= __builtin_preserve_field_info((from)->field, 4);                                       \
		value_ >>= __builtin_preserve_field_info((from)->field, 5);                                       \
		value_;                                                                                           \
	})

/* The part of a name from ___ on is ignored when the kernel's structure is looked up. */

struct upid {
	int nr;
} RELOCATED;

/* With its namespace, for its size. */
struct upid___sized {
	int nr;
	void *ns;
};

struct pid {
	u32 level;
	struct upid numbers[1];
} RELOCATED;

struct counter {
	int counter;
};

struct signal_struct {
	struct counter live;
	int nr_threads;
	int group_exit_code;
	u32 flags;
	struct pid *pids[4];
} RELOCATED;

struct mm_struct {
	unsigned long arg_start;
	unsigned long arg_end;
	unsigned long brk;
	unsigned long start_stack;
} RELOCATED;

struct file;

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_flags;
	unsigned long vm_pgoff;
	struct file *vm_file;
} RELOCATED;

struct in6_addr {
	u8 bytes[16];
};

struct sock_common {
	u16 skc_family;
	u8 skc_state;
	u16 skc_dport;
	u32 skc_daddr;
	u32 skc_rcv_saddr;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
} RELOCATED;

struct sock {
	struct sock_common __sk_common;
	int sk_err;
	u16 sk_protocol;
	u8 sk_shutdown;
} RELOCATED;

struct inet_sock {
	u16 inet_sport;
} RELOCATED;

struct tcp_options_received {
	u16 tstamp_ok : 1, wscale_ok : 1, sack_ok : 3, snd_wscale : 4, rcv_wscale : 4;
} RELOCATED;

struct tcp_sock {
	u16 advmss;
	u32 rcv_wnd;
	struct tcp_options_received rx_opt;
} RELOCATED;

struct sk_buff {
	u32 len;
} RELOCATED;

struct socket {
	struct sock *sk;
} RELOCATED;

/* As programs pass them to system calls. */
struct mmsghdr {
	u64 header[7];
	u32 msg_len;
};

#define S_IFMT 0170000
#define S_IFSOCK 0140000

struct qstr {
	u64 hash_len;
	const char *name;
} RELOCATED;

struct list_head {
	void *next;
} RELOCATED;

struct hlist_node {
	void *next;
} RELOCATED;

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	union {
		struct hlist_node d_alias;
	} d_u;
} RELOCATED;

struct vfsmount {
	struct dentry *mnt_root;
} RELOCATED;

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
	struct mount *mnt_next_for_sb;
} RELOCATED;

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
} RELOCATED;

struct super_block {
	unsigned long s_flags;
	unsigned long s_magic;
	struct dentry *s_root;
	struct mount *s_mounts;
} RELOCATED;

/* Before 6.18. */
struct mount___old {
	struct list_head mnt_instance;
} RELOCATED;

struct super_block___old {
	struct list_head s_mounts;
} RELOCATED;

struct address_space;

struct hlist_head {
	void *first;
} RELOCATED;

struct inode {
	u16 i_mode;
	u32 i_generation;
	unsigned long i_ino;
	struct super_block *i_sb;
	struct address_space *i_mapping;
	struct hlist_head i_dentry;
	s64 i_size;
} RELOCATED;

struct address_space {
	struct inode *host;
} RELOCATED;

struct references {
	long counter;
} RELOCATED;

struct file {
	struct inode *f_inode;
	struct path f_path;
	u32 f_mode;
	u32 f_flags;
	s64 f_pos;
	struct references f_ref;
	void *private_data;
} RELOCATED;

/* Before 6.13. */
struct file___old {
	struct references f_count;
} RELOCATED;

struct fs_struct {
	struct path pwd;
} RELOCATED;

struct fdtable {
	u32 max_fds;
	struct file **fd;
	unsigned long *close_on_exec;
} RELOCATED;

struct files_struct {
	struct counter count;
	struct fdtable *fdt;
} RELOCATED;

struct filename {
	const char *name;
} RELOCATED;

struct io_cqe {
	int fd;
} RELOCATED;

struct io_rsrc_node {
	unsigned long file_ptr;
} RELOCATED;

struct io_rsrc_data {
	u32 nr;
	struct io_rsrc_node **nodes;
} RELOCATED;

struct io_file_table {
	struct io_rsrc_data data;
} RELOCATED;

struct io_ring_ctx {
	struct io_file_table file_table;
} RELOCATED;

/* A request of io_uring. Its first bytes are one of the structures that follow, by its kind. */
struct io_kiocb {
	u8 opcode;
	u64 flags;
	struct io_cqe cqe;
	struct io_ring_ctx *ctx;
} RELOCATED;

struct kiocb {
	s64 ki_pos;
} RELOCATED;

struct io_rw {
	struct kiocb kiocb;
	u64 addr;
	u32 len;
} RELOCATED;

struct open_how {
	u64 flags;
} RELOCATED;

struct io_open {
	int dfd;
	u32 file_slot;
	struct filename *filename;
	struct open_how how;
} RELOCATED;

struct io_close {
	int fd;
	u32 file_slot;
} RELOCATED;

struct io_sync {
	s64 len;
	s64 off;
} RELOCATED;

struct io_ftrunc {
	s64 len;
} RELOCATED;

struct io_statx {
	int dfd;
	struct filename *filename;
} RELOCATED;

struct io_unlink {
	int dfd;
	struct filename *filename;
} RELOCATED;

struct io_mkdir {
	int dfd;
	struct filename *filename;
} RELOCATED;

struct io_rename {
	int old_dfd;
	int new_dfd;
	struct filename *oldpath;
	struct filename *newpath;
} RELOCATED;

struct io_link {
	int old_dfd;
	int new_dfd;
	struct filename *oldpath;
	struct filename *newpath;
} RELOCATED;

struct io_uring_cqe {
	s32 res;
} RELOCATED;

struct thread_info {
	unsigned long flags;
	u32 status;
} RELOCATED;

struct kernfs_node {
	u64 id;
} RELOCATED;

struct cgroup_root {
	int hierarchy_id;
} RELOCATED;

struct cgroup {
	struct kernfs_node *kn;
	struct cgroup_root *root;
} RELOCATED;

struct css_set {
	struct cgroup *dfl_cgrp;
} RELOCATED;

struct task_struct {
	struct thread_info thread_info;
	struct fs_struct *fs;
	struct files_struct *files;
	struct css_set *cgroups;
	u32 __state;
	u32 flags;
	int pid;
	int tgid;
	int prio;
	int exit_code;
	u64 utime;
	u64 stime;
	u64 start_time;
	u64 start_boottime;
	u64 self_exec_id;
	struct pid *thread_pid;
	struct mm_struct *mm;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct signal_struct *signal;
	unsigned in_iowait : 1;
	char comm[16];
} RELOCATED;

/* Before 5.14. */
struct task_struct___old {
	long state;
} RELOCATED;

struct linux_binprm {
	const char *filename;
} RELOCATED;

struct bpf_iter_meta {
	void *seq;
} RELOCATED;

/* The context of a program that runs for each open file. Each member takes 8 bytes. */
struct open_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	u64 descriptor;
	struct file *file;
};

struct page {
	unsigned long compound_head;
	struct address_space *mapping;
} RELOCATED;

struct bio_vec {
	struct page *bv_page;
	u32 bv_len;
	u32 bv_offset;
};

struct bvec_iter {
	u32 bi_idx;
} RELOCATED;

struct bio {
	struct bio_vec *bi_io_vec;
	struct bvec_iter bi_iter;
} RELOCATED;

struct gendisk {
	int major;
	int first_minor;
} RELOCATED;

struct request_queue {
	struct gendisk *disk;
} RELOCATED;

struct request {
	struct request_queue *q;
	struct bio *bio;
	u32 cmd_flags;
	u32 __data_len;
	u64 __sector;
} RELOCATED;

/* Before 5.17. */
struct request___old {
	struct gendisk *rq_disk;
} RELOCATED;

struct irqaction {
	void *handler;
} RELOCATED;

struct pt_regs___x86 {
	unsigned long di;
	unsigned long si;
	unsigned long dx;
	unsigned long r10;
	unsigned long r8;
	unsigned long r9;
	unsigned long bp;
	unsigned long orig_ax;
	unsigned long ip;
	u16 cs;
	unsigned long sp;
} RELOCATED;

struct pt_regs___arm {
	u64 regs[31];
	u64 sp;
	u64 pc;
	u64 pstate;
	u64 orig_x0;
	int syscallno;
} RELOCATED;

/* Values of registers in 64-bit and 32-bit programs. */
#define X86_USER_64 0x33
#define ARM_USER_32 0x10

#define X86(registers) ((struct pt_regs___x86 *)(registers))
#define ARM(registers) ((struct pt_regs___arm *)(registers))

/* The architecture of the running kernel, known when the programs are loaded. */
#define IS_X86 FIELD_EXISTS(X86(0)->orig_ax)

/* The system call that a thread entered the kernel for; -1 otherwise. The second form is for registers that the
 * verifier does not trust. */
#define CALL_NUMBER(registers) (IS_X86 ? (u32)X86(registers)->orig_ax : (u32)ARM(registers)->syscallno)
#define LOAD_CALL_NUMBER(registers)                                                                               \
	(IS_X86 ? (u32)LOAD(X86(registers), orig_ax) : (u32)LOAD(ARM(registers), syscallno))

/* Returns an argument of a system call by a constant index. Arguments stay in place until the call ends. */
INLINE u64 call_argument(void *registers, u32 index)
{
	if (!IS_X86)
		return index ? ARM(registers)->regs[index] : ARM(registers)->orig_x0;
	struct pt_regs___x86 *x86 = registers;
	switch (index) {
	case 0:
		return x86->di;
	case 1:
		return x86->si;
	case 2:
		return x86->dx;
	case 3:
		return x86->r10;
	case 4:
		return x86->r8;
	default:
		return x86->r9;
	}
}

#define X86_OF_32_BIT 2
#define ARM_OF_32_BIT (1 << 22)

/* Returns whether a task is in a system call of a 32-bit program, with other numbers and structures. */
INLINE bool is_of_32_bit(struct task_struct *task)
{
	if (IS_X86)
		return LOAD(task, thread_info.status) & X86_OF_32_BIT;
	return LOAD(task, thread_info.flags) & ARM_OF_32_BIT;
}

/* The same for a task that the verifier trusts. */
INLINE bool is_vouched_of_32_bit(struct task_struct *task)
{
	return IS_X86 ? task->thread_info.status & X86_OF_32_BIT : (task->thread_info.flags & ARM_OF_32_BIT) != 0;
}

/* Identifies a process, also after its id is used again. */
struct process_key {
	u64 start_time;
	u64 pid;
};
