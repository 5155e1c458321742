#include "tests/testing/in_process_rendezvous.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace longhaul {

absl::StatusOr<std::vector<std::string>> InProcessRendezvous::Exchange(int rank, std::string blob,
                                                                       absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  const int size = static_cast<int>(blobs_.size());
  if (rank < 0 || rank >= size) {
    return absl::InvalidArgumentError(absl::StrCat("rendezvous: rank ", rank, " of ", size));
  }
  if (present_[rank]) {
    return absl::AlreadyExistsError(absl::StrCat("rendezvous: rank ", rank, " came twice"));
  }
  blobs_[rank] = std::move(blob);
  present_[rank] = true;
  ++present_count_;
  const auto complete = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return present_count_ == size;
  };
  if (!mutex_.AwaitWithTimeout(absl::Condition(&complete), timeout)) {
    std::string missing;
    for (int i = 0; i < size; ++i) {
      if (!present_[i]) absl::StrAppend(&missing, " rank ", i);
    }
    return absl::DeadlineExceededError(
        absl::StrCat("rendezvous: waited ", absl::FormatDuration(timeout), " for", missing));
  }
  return blobs_;
}

}  // namespace longhaul
