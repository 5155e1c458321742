// The status that a peer ends a call with: its code, its message, its google.rpc details.
//   input: u8 code | string message | details
#include "common/base/check.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/status_details.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/quiet_protobuf.h"

namespace longhaul::fuzz::status_fuzz {
namespace {

// What fits a trailer of 8 KiB, base64 and percent encoding included.
constexpr size_t kMessageBytesMax = 1 << 10, kDetailBytesMax = (3 << 10) + 16;

// Whatever the details are, reading them is safe.
void ReadDetails(const absl::Status& status) {
  (void)FieldViolationsOf(status);
  (void)ErrorInfoOf(status);
  if (const auto delay = RetryDelayOf(status)) {
    LH_CHECK(*delay >= absl::ZeroDuration(), "a delay is not negative");
  }
}

}  // namespace

std::vector<Seed> Seeds() {
  const auto seed = [](const absl::Status& status) {
    const grpc::Status wire = ToGrpcStatus(status);
    return FuzzWriter()
        .Byte(wire.error_code())
        .String(wire.error_message())
        .Bytes(wire.error_details())
        .Take();
  };
  return {{"plain", seed(absl::UnavailableError("away"))},
          {"violations", seed(BadRequestError({{"sync.h", "is 0"}, {"sync.tau", "is above h"}}))},
          {"error_info", seed(WithErrorInfo(absl::FailedPreconditionError("late"),
                                            {"VERSION_MISMATCH", {{"have", "12"}}}))},
          {"retry",
           seed(WithRetryDelay(absl::ResourceExhaustedError("busy"), absl::Milliseconds(1500)))}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const int code = input.Choice(0, 31);  // Beyond them gRPC's own enum has no value.
  const std::string message(input.String()), details(input.Rest());
  const absl::Status status =
      FromGrpcStatus(grpc::Status(static_cast<grpc::StatusCode>(code), message, details));
  LH_CHECK(status.ok() == (code == 0), "only OK is OK");
  ReadDetails(status);
  const grpc::Status wire = ToGrpcStatus(status);
  LH_CHECK(wire.error_message().size() <= kMessageBytesMax, "a bounded message");
  LH_CHECK(wire.error_details().size() <= kDetailBytesMax, "bounded details");
  const absl::Status again = FromGrpcStatus(wire);
  LH_CHECK(again.code() == status.code(), "a status that is passed on keeps its code");
  ReadDetails(again);
  return 0;
}

}  // namespace longhaul::fuzz::status_fuzz
