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
  // Of one line of gRPC's source.
  for (int i = 0; i < 1000; ++i) gpr_log(GPR_ERROR, "broken\npipe");
  const auto lines = [&] {
    const std::string text = out.str();
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(lines(), 1);
  for (int line = 0; line < 1000; ++line)
    gpr_log("some_file.cc", line, GPR_LOG_SEVERITY_ERROR, "of another place");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  grpc_shutdown();
  EXPECT_EQ(lines(), kGrpcLogLinesMax);
  const std::string text = out.str();
  EXPECT_THAT(text, ::testing::HasSubstr("warning grpc: broken\\npipe\n"));
}

}  // namespace
}  // namespace longhaul
