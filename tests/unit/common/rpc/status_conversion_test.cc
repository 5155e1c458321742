#include "common/rpc/status_conversion.h"

#include <string>

#include "common/rpc/status_details.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(StatusConversionTest, EveryCodeAndMessageComesBack) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), code == 0 ? "" : "why");
    EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(status)), status);
  }
}

TEST(StatusConversionTest, DetailsComeBack) {
  absl::Status status = BadRequestError({{"x", "y"}});
  status = WithErrorInfo(status, {"REASON", {{"fragment", "3"}}});
  status = WithRetryDelay(status, absl::Seconds(2));
  EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(status)), status);
}

TEST(StatusConversionTest, ALargeDetailIsLeftOutAndTheStatusRemains) {
  const absl::Status status =
      WithErrorInfo(absl::AbortedError("why"), {"REASON", {{"long", std::string(5000, 'x')}}});
  EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(status)), absl::AbortedError("why"));
}

TEST(StatusConversionTest, ALongMessageIsCutBetweenCharacters) {
  const absl::Status status = absl::AbortedError(std::string(1023, 'x') + "\xc3\xa9");
  EXPECT_EQ(ToGrpcStatus(status).error_message(), std::string(1023, 'x'));
}

TEST(StatusConversionTest, AnUnknownCodeBecomesUnknown) {
  const grpc::Status status(static_cast<grpc::StatusCode>(77), "odd");
  EXPECT_EQ(FromGrpcStatus(status), absl::UnknownError("odd"));
}

TEST(StatusConversionTest, DetailsThatDoNotParseAreLeftOut) {
  const grpc::Status status(grpc::StatusCode::ABORTED, "why", "\xff\xff not a message");
  EXPECT_EQ(FromGrpcStatus(status), absl::AbortedError("why"));
}

}  // namespace
}  // namespace longhaul
