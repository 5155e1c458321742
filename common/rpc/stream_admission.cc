#include "common/rpc/stream_admission.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/status_details.h"

namespace longhaul {

StreamAdmission::Ticket::Ticket(Ticket&& other) noexcept
    : admission_(std::exchange(other.admission_, nullptr)) {}

StreamAdmission::Ticket& StreamAdmission::Ticket::operator=(Ticket&& other) noexcept {
  std::swap(admission_, other.admission_);
  return *this;
}

StreamAdmission::Ticket::~Ticket() {
  if (admission_ != nullptr) admission_->Release();
}

absl::StatusOr<StreamAdmission::Ticket> StreamAdmission::Admit() {
  absl::MutexLock lock(&mutex_);
  if (streams_ >= options_.streams_max) {
    return WithRetryDelay(
        absl::ResourceExhaustedError(absl::StrCat(streams_, " bulk streams are in flight")),
        options_.retry_delay);
  }
  ++streams_;
  return Ticket(this);
}

int StreamAdmission::streams() const {
  absl::MutexLock lock(&mutex_);
  return streams_;
}

void StreamAdmission::Release() {
  absl::MutexLock lock(&mutex_);
  --streams_;
}

}  // namespace longhaul
