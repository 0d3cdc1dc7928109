#include "runner/seccomp.hpp"

#include <asm/ioctls.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace runner {
namespace {

#if defined(__x86_64__)
constexpr uint32_t machine = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t machine = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t machine = 0;  // not known: no filter
#endif

constexpr uint32_t first_x32_call = 0x40000000;  // the same calls once more, on x86-64
// From here on calls are newer than this list, as fchmodat2 is: programs do without. They have the
// same numbers everywhere.
constexpr uint32_t first_newer_call = 450;

constexpr uint32_t never[] = {
#ifdef __NR_fork
    __NR_fork,
    __NR_vfork,
#endif
#ifdef __NR_ioperm
    __NR_ioperm,
    __NR_iopl,
#endif
    __NR_tkill,
    __NR_rt_sigqueueinfo,
    __NR_rt_tgsigqueueinfo,
    __NR_pidfd_open,
    __NR_pidfd_send_signal,
    __NR_pidfd_getfd,
    __NR_setsid,
    __NR_setpgid,
    __NR_ptrace,
    __NR_process_vm_readv,
    __NR_process_vm_writev,
    __NR_socket,
    __NR_socketpair,
    __NR_connect,
    __NR_bind,
    __NR_io_uring_setup,
    __NR_bpf,
    __NR_perf_event_open,
    __NR_userfaultfd,
    __NR_unshare,
    __NR_setns,
    __NR_mount,
    __NR_umount2,
    __NR_open_tree,
    __NR_move_mount,
    __NR_fsopen,
    __NR_fsconfig,
    __NR_fsmount,
    __NR_fspick,
    __NR_mount_setattr,
    __NR_pivot_root,
    __NR_chroot,
    __NR_keyctl,
    __NR_add_key,
    __NR_request_key,
    __NR_reboot,
    __NR_kexec_load,
#ifdef __NR_kexec_file_load
    __NR_kexec_file_load,
#endif
    __NR_init_module,
    __NR_finit_module,
    __NR_delete_module,
    __NR_swapon,
    __NR_swapoff,
    __NR_sethostname,
    __NR_setdomainname,
    __NR_settimeofday,
    __NR_clock_settime,
    __NR_adjtimex,
    __NR_clock_adjtime,
    __NR_acct,
    __NR_setpriority,
    __NR_sched_setscheduler,
    __NR_sched_setparam,
    __NR_sched_setattr,
    __NR_ioprio_set,
    __NR_migrate_pages,
    __NR_move_pages,
    __NR_process_madvise,
    __NR_process_mrelease,
    __NR_fanotify_init,
    __NR_quotactl,
    __NR_syslog,
    __NR_vhangup,
    __NR_msgget,
    __NR_msgctl,
    __NR_msgsnd,
    __NR_msgrcv,
    __NR_semget,
    __NR_semctl,
    __NR_semop,
    __NR_semtimedop,
    __NR_shmget,
    __NR_shmctl,
    __NR_shmat,
    __NR_mq_open,
    __NR_mq_unlink};

// What changes files, beside opening them to write.
constexpr uint32_t never_files[] = {
#ifdef __NR_creat
    __NR_creat,
    __NR_unlink,
    __NR_rename,
    __NR_mkdir,
    __NR_rmdir,
    __NR_link,
    __NR_symlink,
    __NR_chmod,
    __NR_chown,
    __NR_lchown,
    __NR_mknod,
    __NR_utime,
    __NR_utimes,
    __NR_futimesat,
#endif
#ifdef __NR_renameat
    __NR_renameat,
#endif
    __NR_unlinkat,
    __NR_renameat2,
    __NR_mkdirat,
    __NR_linkat,
    __NR_symlinkat,
    __NR_fchmod,
    __NR_fchmodat,
    __NR_fchown,
    __NR_fchownat,
    __NR_truncate,
    __NR_ftruncate,
    __NR_mknodat,
    __NR_utimensat,
    __NR_setxattr,
    __NR_lsetxattr,
    __NR_fsetxattr,
    __NR_removexattr,
    __NR_lremovexattr,
    __NR_fremovexattr,
    __NR_fallocate,
    __NR_name_to_handle_at,
    __NR_open_by_handle_at};

constexpr uint32_t writing = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND;

class Filter {
 public:
  Filter() {
    add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch));
    add(BPF_JMP | BPF_JEQ | BPF_K, machine, 1, 0);
    add(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
    if (machine != AUDIT_ARCH_X86_64) return;
    add(BPF_JMP | BPF_JGE | BPF_K, first_x32_call, 0, 1);
    add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  }
  void refuse_from(uint32_t first_call) {
    add(BPF_JMP | BPF_JGE | BPF_K, first_call, 0, 1);
    add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
  }
  void refuse(uint32_t call, uint32_t error = EPERM) {
    add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
    add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error);
  }
  enum class When { has_none_of, has_some_of, is_not };
  // Refuses a call when its argument has some of these bits, or none of them, or is another number.
  void refuse(uint32_t call, size_t argument, When when, uint32_t value) {
    const uint16_t compare = BPF_JMP | BPF_K | (when == When::is_not ? BPF_JEQ : BPF_JSET);
    const uint8_t allowed = when == When::has_some_of ? 0 : 1;
    add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4);
    add(BPF_LD | BPF_W | BPF_ABS,
        static_cast<uint32_t>(offsetof(seccomp_data, args) + 8 * argument));  // its lower half
    add(compare, value, allowed, 1 - allowed);
    add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  }
  // Refuses a call when its second argument is one of these numbers, or when it is none of them.
  void refuse_among(uint32_t call, bool these, std::initializer_list<uint32_t> values) {
    const auto count = static_cast<int>(values.size());
    add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, count + 4);
    add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args) + 8);
    int left = count;
    for (const uint32_t value : values)
      add(BPF_JMP | BPF_JEQ | BPF_K, value, --left + (these ? 1 : 2), 0);
    add(BPF_JMP | BPF_JA, these ? 1 : 0);
    add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  }
  std::vector<sock_filter> done() {
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    return lines_;
  }

 private:
  void add(int code, uint32_t value, int yes = 0, int no = 0) {
    lines_.push_back(
        {static_cast<uint16_t>(code), static_cast<uint8_t>(yes), static_cast<uint8_t>(no), value});
  }
  std::vector<sock_filter> lines_;
};

}  // namespace

std::vector<sock_filter> filter_of_calls(bool alone) {
  using When = Filter::When;
  Filter filter;
  filter.refuse_from(first_newer_call);
  for (const uint32_t call : never) filter.refuse(call);
  // Who owns a descriptor is sent a signal when something comes by it: the grader would be.
  filter.refuse_among(__NR_fcntl, /*these=*/true, {F_SETOWN, F_SETSIG, F_SETOWN_EX});
  // What else there is owns descriptors too, types into terminals and changes files that are only
  // read.
  filter.refuse_among(__NR_ioctl, /*these=*/false,
                      {TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX});
  // Of shared pages nobody knows who holds them once they are not mapped.
  filter.refuse(__NR_mmap, 3, When::has_some_of, MAP_SHARED);
  filter.refuse(__NR_clone, 0, When::has_none_of, CLONE_THREAD);
  filter.refuse(__NR_clone3, ENOSYS);   // its flags lie in memory; clone is tried next
  filter.refuse(__NR_openat2, ENOSYS);  // the same
  filter.refuse(__NR_prlimit64, 0, When::is_not, 0);
  if (alone) return filter.done();
  filter.refuse(__NR_kill);
  filter.refuse(__NR_tgkill, 0, When::is_not, static_cast<uint32_t>(getpid()));  // raise, abort
  for (const uint32_t call : never_files) filter.refuse(call);
  filter.refuse(__NR_openat, 2, When::has_some_of, writing);
#ifdef __NR_open
  filter.refuse(__NR_open, 1, When::has_some_of, writing);
#endif
  return filter.done();
}

bool obey(std::vector<sock_filter> filter) {
  if (machine == 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  const sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace runner
