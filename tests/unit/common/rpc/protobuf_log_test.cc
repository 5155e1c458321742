#include "common/rpc/protobuf_log.h"

#include <algorithm>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;

bool ParseNoUtf8() {
  v1::JobError error;
  return error.ParseFromString("\x0a\x01\xff");
}

int Lines(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

TEST(ProtobufLogTest, MalformedMessagesMakeOneLineOfTheLogAndNoneOnStandardError) {
  std::ostringstream out;
  SendProtobufLogTo(Logger({.format = LogFormat::kText, .stream = &out}));
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(ParseNoUtf8());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(Lines(out.str()), 1) << out.str();
  EXPECT_THAT(out.str(), HasSubstr("protobuf: String field 'longhaul.v1.JobError.code'"));
}

}  // namespace
}  // namespace longhaul
