#include "common/io/mapped_file.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

// The kernel maps as much at a time, aligned, around a page that is read (fault_around_bytes).
constexpr uintptr_t kMappedAtOnce = 1 << 16;

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  LH_ASSIGN_OR_RETURN(const ReadOnlyFile file, ReadOnlyFile::Open(path));
  return Map(file);
}

absl::StatusOr<MappedFile> MappedFile::Map(const ReadOnlyFile& file) {
  const auto size = static_cast<size_t>(file.size());
  if (size == 0) return MappedFile(nullptr, 0);
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (data == MAP_FAILED)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot map ", file.path()));
  return MappedFile(static_cast<const uint8_t*>(data), size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void MappedFile::Release(absl::Span<const uint8_t> part) const {
  if (part.empty()) return;
  const auto first = reinterpret_cast<uintptr_t>(data_), last = first + size_;
  const auto begin = reinterpret_cast<uintptr_t>(part.data()), end = begin + part.size();
  const uintptr_t from = std::max(first, begin & ~(kMappedAtOnce - 1));
  const uintptr_t to = std::min(last, (end + kMappedAtOnce - 1) & ~(kMappedAtOnce - 1));
  // It is advice: an error changes nothing.
  (void)madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<uint8_t*>(data_), size_);
}

}  // namespace longhaul
