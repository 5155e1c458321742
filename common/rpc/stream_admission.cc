#include "common/rpc/stream_admission.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/status_details.h"

namespace longhaul {

StreamAdmission::Ticket& StreamAdmission::Ticket::operator=(Ticket&& other) noexcept {
  std::swap(admission_, other.admission_);
  std::swap(owner_, other.owner_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

StreamAdmission::Ticket::~Ticket() {
  if (admission_ != nullptr) admission_->Release(owner_, bytes_);
}

absl::StatusOr<StreamAdmission::Ticket> StreamAdmission::Admit(absl::string_view owner,
                                                               int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  const auto found = shares_.find(owner);
  const int64_t held = found == shares_.end() ? 0 : found->second.bytes;
  const int64_t free = options_.bytes_max - bytes_ - bytes;
  if (held + bytes > free) {
    return WithRetryDelay(
        absl::ResourceExhaustedError(absl::StrCat(
            "bulk streams of \"", owner, "\" hold ", held, " bytes, those of all ", shares_.size(),
            " pools ", bytes_, " of ", options_.bytes_max, "; ", bytes, " more do not fit")),
        options_.retry_delay);
  }
  Share& share = shares_[std::string(owner)];
  ++share.streams;
  share.bytes += bytes;
  ++streams_;
  bytes_ += bytes;
  return Ticket(this, owner, bytes);
}

int StreamAdmission::streams() const {
  absl::MutexLock lock(&mutex_);
  return streams_;
}

int64_t StreamAdmission::bytes() const {
  absl::MutexLock lock(&mutex_);
  return bytes_;
}

void StreamAdmission::Release(const std::string& owner, int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  --streams_;
  bytes_ -= bytes;
  const auto share = shares_.find(owner);
  share->second.bytes -= bytes;
  if (--share->second.streams == 0) shares_.erase(share);
}

}  // namespace longhaul
