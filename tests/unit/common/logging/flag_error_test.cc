#include "common/logging/flag_error.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "nlohmann/json.hpp"

namespace longhaul {
namespace {

bool Asks(std::vector<const char*> words) {
  words.insert(words.begin(), "program");
  return AsksForJsonLog(static_cast<int>(words.size()), words.data());
}

TEST(FlagErrorTest, FindsTheFormInAnyCommandLine) {
  EXPECT_FALSE(Asks({}));
  EXPECT_TRUE(Asks({"--log-format", "json"}));
  EXPECT_TRUE(Asks({"--nonsense", "--log-format=json", "--lease"}));
  EXPECT_FALSE(Asks({"--log-format=json", "--log-format=text"}));
  EXPECT_FALSE(Asks({"--log-format"}));
  EXPECT_FALSE(Asks({"--log-formats", "json"}));
  EXPECT_FALSE(Asks({"--", "--log-format=json"}));
  setenv("LONGHAUL_LOG_FORMAT", "json", 1);
  EXPECT_TRUE(Asks({}));
  EXPECT_FALSE(Asks({"--log-format", "auto"}));
  unsetenv("LONGHAUL_LOG_FORMAT");
}

TEST(FlagErrorTest, SaysItInThatForm) {
  const char* words[] = {"program", "--log-format=json"};
  testing::internal::CaptureStderr();
  SayFlagError("longhaul-test", 2, words, "--lease: \"x\" is no duration", "");
  const auto line = nlohmann::json::parse(testing::internal::GetCapturedStderr());
  EXPECT_EQ(line["message"], "--lease: \"x\" is no duration");
  EXPECT_EQ(line["level"], "error");
  EXPECT_EQ(line["program"], "longhaul-test");
  testing::internal::CaptureStderr();
  SayFlagError("longhaul-test", 2, words, "wrong", "mend it");
  EXPECT_EQ(nlohmann::json::parse(testing::internal::GetCapturedStderr())["message"],
            "wrong; mend it");
  testing::internal::CaptureStderr();
  SayFlagError("longhaul-test", 1, words, "wrong", "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "error: wrong\n");
  testing::internal::CaptureStderr();
  SayFlagError("longhaul-test", 1, words, "wrong", "mend it");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "error: wrong\nhint: mend it\n");
  // An argument may be pasted from anywhere.
  testing::internal::CaptureStderr();
  SayFlagError("longhaul-test", 1, words, "--x: '\x1b[2Jö\n\u202e'", "not '\x07'");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "error: --x: '\\x1b[2Jö\\n\\xe2\\x80\\xae'\nhint: not '\\x07'\n");
}

}  // namespace
}  // namespace longhaul
