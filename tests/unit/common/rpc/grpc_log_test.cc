#include "common/rpc/grpc_log.h"

#include <algorithm>
#include <sstream>

#include "gmock/gmock.h"
#include "grpc/grpc.h"
#include "grpc/support/log.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(GrpcLogTest, LinesGoToTheLogAndAreBounded) {
  // The process keeps it, like the logger.
  auto& out = *new std::ostringstream;
  SendGrpcLogTo(Logger({.format = LogFormat::kText, .stream = &out}));
  // Nothing is logged before this call.
  grpc_init();
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 1000; ++i) gpr_log(GPR_ERROR, "broken\npipe");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  grpc_shutdown();
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), kGrpcLogLinesMax);
  EXPECT_THAT(text, ::testing::HasSubstr("warning grpc: broken\\npipe\n"));
}

}  // namespace
}  // namespace longhaul
