#include "worker/session/data_summary_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace longhaul::session {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::StartsWith;

v1::DataWarning Warning(const std::string& kind, const std::string& message) {
  v1::DataWarning warning;
  warning.set_kind(kind);
  warning.set_message(message);
  return warning;
}

TEST(DataSummaryOfTest, HasOneWarningOfEachKindWithinLimits) {
  std::vector<v1::DataWarning> warnings = {Warning("B", "b.txt: is odd"), Warning("A", "a\xFF.txt"),
                                           Warning("B", "c.txt: is odd"),
                                           Warning("B", std::string(9000, 'x'))};
  v1::DataSummary summary = DataSummaryOf({}, warnings);
  ASSERT_EQ(summary.warnings_size(), 2);
  EXPECT_EQ(summary.warnings(0).kind(), "B");
  EXPECT_EQ(summary.warnings(0).message(), "b.txt: is odd (and 2 more of this kind, in its log)");
  EXPECT_EQ(summary.warnings(1).message(), "a\xEF\xBF\xBD.txt");
  warnings.assign(2, Warning("L", std::string(9000, 'x')));
  summary = DataSummaryOf({}, warnings);
  EXPECT_LE(summary.warnings(0).message().size(), 512);
  EXPECT_THAT(summary.warnings(0).message(),
              AllOf(StartsWith("xxx"), EndsWith("(and 1 more of this kind, in its log)")));
  for (int i = 0; i < 40; ++i) warnings.push_back(Warning(absl::StrCat("K", i), "k"));
  EXPECT_EQ(DataSummaryOf({}, warnings).warnings_size(), 16);
  EXPECT_EQ(DataSummaryOf({}, {}, "host, 9 GB/s").features(), "host, 9 GB/s");
  EXPECT_LE(DataSummaryOf({}, {}, std::string(9000, 'x')).features().size(), 256);
}

}  // namespace
}  // namespace longhaul::session
