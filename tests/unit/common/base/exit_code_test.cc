#include "common/base/exit_code.h"

#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(ExitCodeTest, OnlyAWrongCommandLineStaysWrong) {
  EXPECT_EQ(StartExitCode(absl::InvalidArgumentError("")), kExitBadArguments);
  for (const absl::Status& may_pass :
       {absl::NotFoundError(""), absl::PermissionDeniedError(""), absl::UnavailableError(""),
        absl::FailedPreconditionError("")})
    EXPECT_EQ(StartExitCode(may_pass), kExitFailed) << may_pass;
}

TEST(ExitCodeTest, AFileOfTlsThatCannotBeReadMayCome) {
  for (const absl::Status& may_pass :
       {absl::NotFoundError(""), absl::PermissionDeniedError(""), absl::UnavailableError("")})
    EXPECT_EQ(TlsExitCode(may_pass), kExitFailed) << may_pass;
  EXPECT_EQ(TlsExitCode(absl::InvalidArgumentError("")), kExitBadArguments);
  EXPECT_EQ(TlsExitCode(absl::FailedPreconditionError("")), kExitBadArguments);
  EXPECT_EQ(TlsExitCode(absl::UnauthenticatedError("")), kExitRefused);
}

}  // namespace
}  // namespace longhaul
