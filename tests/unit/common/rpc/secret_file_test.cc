#include "common/rpc/secret_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;

class SecretFileTest : public ::testing::Test {
 protected:
  void Write(const std::string& text, mode_t mode = 0600) {
    std::ofstream(path_) << text;
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
  }
  absl::StatusOr<std::string> Read() { return ReadTokenFile("--token-file", path_); }

  const TempDir folder_;
  const std::string path_ = folder_.Join("token");
};

TEST_F(SecretFileTest, ReadsATokenWithoutItsLineEnd) {
  Write("0123456789abcdef\n");
  EXPECT_EQ(Read().value(), "0123456789abcdef");
  Write("  0123456789abcdef\r\n", 0400);
  EXPECT_EQ(Read().value(), "0123456789abcdef");
}

TEST_F(SecretFileTest, RefusesMalformedTokensWithoutShowingThem) {
  for (const std::string text : {"", "\n", "short", "0123456789abcdef 0123456789abcdef",
                                 "0123456789abcde\x01", "0123456789abcdef\n0123456789abcdef"}) {
    Write(text);
    const absl::Status status = Read().status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("openssl rand -hex 32 > " + path_));
    EXPECT_THAT(std::string(status.message()), ::testing::Not(HasSubstr("0123456789")));
  }
  Write(std::string(5000, 'a'));
  EXPECT_TRUE(absl::IsInvalidArgument(Read().status()));
}

TEST_F(SecretFileTest, RefusesFilesThatOthersMayReadOrChangeAndNamesTheRemedy) {
  for (const mode_t mode : {0644, 0640, 0620, 0602, 0604, 0660}) {
    Write("0123456789abcdef", mode);
    const absl::Status status = Read().status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << mode;
    EXPECT_THAT(std::string(status.message()), HasSubstr("chmod 600 " + path_));
  }
  // Another user's file that our group may read, as Kubernetes mounts a secret. Only root can make
  // one here.
  Write("0123456789abcdef", 0440);
  if (geteuid() == 0 && chown(path_.c_str(), 1, getegid()) == 0) {
    EXPECT_TRUE(Read().ok());
  }
}

TEST_F(SecretFileTest, NamesMissingPathsAndOtherKindsOfFiles) {
  EXPECT_TRUE(absl::IsNotFound(Read().status()));
  // Nobody writes to it, so opening it must not wait.
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(Read().status()));
}

}  // namespace
}  // namespace longhaul
