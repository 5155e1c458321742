#include "common/base/status_marks.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

TEST(StatusMarksTest, MarksStayWhenWordsAreAdded) {
  const absl::Status lost = MarkPeerFault(absl::UnavailableError("rank 1 is gone"));
  const absl::Status status = WithContext("gathering layer 1", lost);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "gathering layer 1: rank 1 is gone");
  EXPECT_TRUE(IsPeerFault(status));
  EXPECT_TRUE(IsPeerFault(WithMessage(status, "another message")));
  EXPECT_EQ(FieldOf(status), "");
}

TEST(StatusMarksTest, TheFieldIsNamedInTheMessageAndByTheMark) {
  const absl::Status status = AboutField("model.hf.path", absl::DataLossError("it is cut off"));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status.message(), "model.hf.path: it is cut off");
  EXPECT_EQ(FieldOf(WithContext("while reading", status)), "model.hf.path");
  EXPECT_FALSE(IsPeerFault(status));
}

TEST(StatusMarksTest, WordsAloneMarkNothing) {
  EXPECT_EQ(FieldOf(absl::FailedPreconditionError("data: /data/text has 5 tokens")), "");
  EXPECT_FALSE(IsPeerFault(absl::UnavailableError("another rank is gone")));
}

}  // namespace
}  // namespace longhaul
