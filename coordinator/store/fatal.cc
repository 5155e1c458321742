#include "coordinator/store/fatal.h"

#include "absl/strings/cord.h"
#include "common/base/check.h"

namespace longhaul {
namespace {

constexpr char kPayloadUrl[] = "longhaul.store.fatal";

}  // namespace

absl::Status MarkFatal(absl::Status status) {
  LH_CHECK(!status.ok(), "success is not fatal");
  status.SetPayload(kPayloadUrl, absl::Cord());
  return status;
}

bool IsFatal(const absl::Status& status) { return status.GetPayload(kPayloadUrl).has_value(); }

bool Passes(const absl::Status& status) {
  return (absl::IsResourceExhausted(status) || absl::IsUnavailable(status)) && !IsFatal(status);
}

}  // namespace longhaul
