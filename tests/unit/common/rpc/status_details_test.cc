#include "common/rpc/status_details.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(StatusDetailsTest, BadRequestNamesEveryField) {
  const absl::Status status = BadRequestError({{"a.b", "is missing"}, {"c[1]", "is negative"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "a.b: is missing; c[1]: is negative");
  EXPECT_THAT(FieldViolationsOf(status), ElementsAre(FieldViolation{"a.b", "is missing"},
                                                     FieldViolation{"c[1]", "is negative"}));
}

TEST(StatusDetailsTest, ManyViolationsAreCutAndCounted) {
  const std::vector<FieldViolation> many(100, {"field", std::string(93, 'x')});
  const auto kept = FieldViolationsOf(BadRequestError(many));
  ASSERT_GT(kept.size(), 15);
  EXPECT_EQ(kept[kept.size() - 2], many[0]);
  EXPECT_EQ(kept.back(), (FieldViolation{"", absl::StrCat(101 - kept.size(), " more")}));
}

TEST(StatusDetailsTest, OneStatusCarriesAllThree) {
  absl::Status status = BadRequestError({{"x", "y"}});
  status = WithErrorInfo(status, {"VERSION_MISMATCH", {{"have", "7"}}});
  status = WithRetryDelay(status, absl::Milliseconds(1500));
  EXPECT_EQ(FieldViolationsOf(status).size(), 1);
  EXPECT_EQ(ErrorInfoOf(status), (ErrorDetail{"VERSION_MISMATCH", {{"have", "7"}}}));
  EXPECT_EQ(RetryDelayOf(status), absl::Milliseconds(1500));
}

TEST(StatusDetailsTest, AStatusWithoutDetailsHasNone) {
  const absl::Status status = absl::InternalError("broken");
  EXPECT_THAT(FieldViolationsOf(status), IsEmpty());
  EXPECT_EQ(ErrorInfoOf(status), std::nullopt);
  EXPECT_EQ(RetryDelayOf(status), std::nullopt);
}

TEST(StatusDetailsTest, BytesThatDoNotParseAreNotADetail) {
  absl::Status status = absl::InternalError("broken");
  status.SetPayload("type.googleapis.com/google.rpc.ErrorInfo", absl::Cord("\xff\xff"));
  EXPECT_EQ(ErrorInfoOf(status), std::nullopt);
}

TEST(StatusDetailsTest, ANegativeRetryDelayIsZero) {
  const absl::Status status = WithRetryDelay(absl::UnavailableError(""), -absl::Seconds(3));
  EXPECT_EQ(RetryDelayOf(status), absl::ZeroDuration());
}

}  // namespace
}  // namespace longhaul
