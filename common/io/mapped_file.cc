#include "common/io/mapped_file.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/base/call_once.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

// A mapping, for the handler, which may not lock.
struct MappedSlot {
  std::atomic<uintptr_t> begin = 0, end = 0;
  std::atomic<bool> taken = false, damaged = false;
};
constexpr int kMappedSlots = 4096;
std::array<MappedSlot, kMappedSlots> mapped_slots;
struct sigaction action_before;
uintptr_t page_bytes = 4096;

void PassOn(int number, siginfo_t* info, void* context) {
  if ((action_before.sa_flags & SA_SIGINFO) != 0 && action_before.sa_sigaction != nullptr)
    return action_before.sa_sigaction(number, info, context);
  if (action_before.sa_handler != SIG_DFL && action_before.sa_handler != SIG_IGN)
    return action_before.sa_handler(number);
  // The access repeats, and ends the process.
  signal(number, SIG_DFL);
}

// Puts zeros in place of the rest of the mapping: each further page would fault, too, and the
// number of mappings is bounded.
void OnUnreadablePage(int number, siginfo_t* info, void* context) {
  const int error = errno;
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  for (MappedSlot& slot : mapped_slots) {
    const uintptr_t begin = slot.begin.load(std::memory_order_acquire);
    const uintptr_t end = slot.end.load(std::memory_order_acquire);
    if (at < begin || at >= end) continue;
    slot.damaged.store(true, std::memory_order_release);
    const uintptr_t page = at / page_bytes * page_bytes;
    void* const zeros = mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                             MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = error;
    if (zeros != MAP_FAILED) return;
  }
  PassOn(number, info, context);
}

void InstallHandler() {
  page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  struct sigaction action = {};
  action.sa_sigaction = OnUnreadablePage;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, &action_before);
}

int TakeMappedSlot(const void* data, int64_t size) {
  for (int i = 0; i < kMappedSlots; ++i) {
    MappedSlot& slot = mapped_slots[i];
    if (slot.taken.exchange(true)) continue;
    slot.damaged.store(false);
    const auto begin = reinterpret_cast<uintptr_t>(data);
    slot.begin.store(begin, std::memory_order_release);
    slot.end.store(begin + static_cast<uintptr_t>(size), std::memory_order_release);
    return i;
  }
  return -1;
}

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  static absl::once_flag once;
  absl::call_once(once, InstallHandler);
  LH_ASSIGN_OR_RETURN(const RegularFile opened, OpenRegularFile(path));
  const absl::Cleanup close_file = [&opened] { close(opened.descriptor); };
  MappedFile file;
  file.path_ = path;
  file.size_ = opened.identity.size;
  file.identity_ = opened.identity;
  if (file.size_ == 0) return file;
  void* const data = mmap(nullptr, file.size_, PROT_READ, MAP_SHARED, opened.descriptor, 0);
  if (data == MAP_FAILED) return absl::ErrnoToStatus(errno, absl::StrCat("cannot map ", path));
  file.data_ = static_cast<const uint8_t*>(data);
  file.slot_ = TakeMappedSlot(data, file.size_);
  if (file.slot_ < 0)
    return absl::ResourceExhaustedError(absl::StrCat("cannot map ", path, ": too many files are"));
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(slot_, other.slot_);
  std::swap(identity_, other.identity_);
  return *this;
}

MappedFile::~MappedFile() {
  if (slot_ >= 0) {
    mapped_slots[slot_].end.store(0);
    mapped_slots[slot_].begin.store(0);
  }
  if (data_ != nullptr) munmap(const_cast<uint8_t*>(data_), size_);
  if (slot_ >= 0) mapped_slots[slot_].taken.store(false);
}

absl::Status MappedFile::Check() const {
  struct stat info;
  if (stat(path_.c_str(), &info) != 0)
    return absl::DataLossError(absl::StrCat(path_, ": ", std::strerror(errno)));
  const FileIdentity now = IdentityOf(info);
  if (now.size < size_ && now.inode == identity_.inode) {
    return absl::DataLossError(absl::StrCat(path_, " ends at byte ", now.size, " now; it had ",
                                            size_, " bytes when it was opened"));
  }
  if (!(now == identity_))
    return absl::DataLossError(absl::StrCat(path_, " is not the file that it was"));
  if (slot_ >= 0 && mapped_slots[slot_].damaged.load(std::memory_order_acquire))
    return absl::DataLossError(absl::StrCat("cannot read ", path_, ": its disk failed"));
  return absl::OkStatus();
}

}  // namespace longhaul
