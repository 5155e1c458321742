#include "common/rpc/stream_admission.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/status_details.h"

namespace longhaul {

StreamAdmission::Ticket::Ticket(Ticket&& other) noexcept
    : admission_(std::exchange(other.admission_, nullptr)), bytes_(other.bytes_) {}

StreamAdmission::Ticket& StreamAdmission::Ticket::operator=(Ticket&& other) noexcept {
  std::swap(admission_, other.admission_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

StreamAdmission::Ticket::~Ticket() {
  if (admission_ != nullptr) admission_->Release(bytes_);
}

absl::StatusOr<StreamAdmission::Ticket> StreamAdmission::Admit(int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  const bool room = streams_ < options_.streams_max && bytes <= options_.bytes_max - bytes_;
  if (!room && streams_ > 0) {
    return WithRetryDelay(absl::ResourceExhaustedError(absl::StrCat(
                              streams_, " bulk streams with ", bytes_, " bytes are in flight")),
                          options_.retry_delay);
  }
  ++streams_;
  bytes_ += bytes;
  return Ticket(this, bytes);
}

int StreamAdmission::streams() const {
  absl::MutexLock lock(&mutex_);
  return streams_;
}

void StreamAdmission::Release(int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  --streams_;
  bytes_ -= bytes;
}

}  // namespace longhaul
