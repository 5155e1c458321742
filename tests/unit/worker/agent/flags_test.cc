#include "worker/agent/flags.h"

#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/exit_code.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

std::optional<WorkerFlags> Parse(std::vector<const char*> words, int* exit_code) {
  words.insert(words.begin(), {"longhaul-worker", "--pool", "site-a"});
  return ParseWorkerFlags(static_cast<int>(words.size()), const_cast<char**>(words.data()),
                          exit_code);
}

bool Refuses(std::vector<const char*> words) {
  int exit_code = 0;
  return !Parse(std::move(words), &exit_code).has_value() && exit_code == kExitBadArguments;
}

TEST(FlagsTest, OnlyThePoolIsRequired) {
  int exit_code = 0;
  const std::optional<WorkerFlags> flags = Parse({}, &exit_code);
  ASSERT_TRUE(flags.has_value());
  EXPECT_EQ(flags->agent.pool, "site-a");
  EXPECT_EQ(flags->agent.device, v1::CPU);
  EXPECT_EQ(flags->agent.drain, AgentOptions().drain);
  EXPECT_EQ(flags->agent.state_every, AgentOptions().state_every);
  EXPECT_FALSE(flags->agent.work_dir.empty());
  EXPECT_FALSE(flags->site.nodes.has_value() || flags->site.node.has_value() ||
               flags->site.threads.has_value());
}

TEST(FlagsTest, TimesAreReadAndBounded) {
  int exit_code = 0;
  const std::optional<WorkerFlags> flags = Parse(
      {"--return-within", "0s", "--state-every", "90s", "--drain-seconds", "0.5"}, &exit_code);
  ASSERT_TRUE(flags.has_value());
  EXPECT_EQ(flags->agent.return_within, absl::ZeroDuration());
  EXPECT_EQ(flags->agent.state_every, absl::Seconds(90));
  EXPECT_EQ(flags->agent.drain, absl::Milliseconds(500));
  EXPECT_TRUE(Refuses({"--state-every", "0s"}));
  EXPECT_TRUE(Refuses({"--state-every", "often"}));
  EXPECT_TRUE(Refuses({"--state-every", "8761h"}));
  EXPECT_TRUE(Refuses({"--return-within", "-1s"}));
  // The coordinator reserves no place for longer.
  EXPECT_FALSE(Refuses({"--return-within", "168h"}));
  EXPECT_TRUE(Refuses({"--return-within", "168h1s"}));
}

TEST(FlagsTest, TheTimeForMeasuringIsBounded) {
  int exit_code = 0;
  std::optional<WorkerFlags> flags = Parse({}, &exit_code);
  ASSERT_TRUE(flags.has_value());
  EXPECT_EQ(flags->measure, absl::Seconds(5));
  EXPECT_FALSE(flags->measures);
  flags = Parse({"--measure-seconds", "0"}, &exit_code);
  ASSERT_TRUE(flags.has_value());
  EXPECT_EQ(flags->measure, absl::ZeroDuration());
  for (const char* wrong : {"-1", "5.1", "nan", "soon"})
    EXPECT_TRUE(Refuses({"--measure-seconds", wrong})) << wrong;
}

TEST(FlagsTest, MeasuringNeedsNoPool) {
  const char* words[] = {"longhaul-worker", "--measure", "-o", "json"};
  int exit_code = 0;
  const auto flags = ParseWorkerFlags(4, const_cast<char**>(words), &exit_code);
  ASSERT_TRUE(flags.has_value());
  EXPECT_TRUE(flags->measures && flags->measures_as_json);
  EXPECT_TRUE(Refuses({"--measure", "-o", "yaml"}));
  EXPECT_TRUE(Refuses({"--measure", "--ranks", "0"}));
  EXPECT_TRUE(Refuses({"--measure", "--threads", "5000"}));
}

TEST(FlagsTest, UnknownWordsAreRefused) {
  EXPECT_TRUE(Refuses({"--device", "tpu"}));
  EXPECT_TRUE(Refuses({"--log-level", "loud"}));
  EXPECT_TRUE(Refuses({"--bind-cores", "some"}));
  EXPECT_TRUE(Refuses({"--ranks", "0"}));
}

TEST(FlagsTest, WhatIsInForceIsShownInPlaceOfARun) {
  int exit_code = -1;
  testing::internal::CaptureStdout();
  EXPECT_FALSE(Parse({"--print-config", "--state-every", "90s"}, &exit_code).has_value());
  EXPECT_EQ(exit_code, 0);
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_TRUE(absl::StrContains(text, "\npool: site-a  # --pool\n"));
  EXPECT_TRUE(absl::StrContains(text, "\nstate-every: 90s  # --state-every\n"));
}

TEST(FlagsTest, HelpIsNoMistake) {
  int exit_code = -1;
  EXPECT_FALSE(Parse({"--help"}, &exit_code).has_value());
  EXPECT_EQ(exit_code, 0);
}

// A unit or a container is set by variables alone.
TEST(FlagsTest, EachFlagHasAVariable) {
  int exit_code = -1;
  testing::internal::CaptureStdout();
  EXPECT_FALSE(Parse({"--help"}, &exit_code).has_value());
  const std::string page = testing::internal::GetCapturedStdout();
  int flags = 0;
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    if (!absl::StartsWith(line, "  --") || absl::StartsWith(line, "  --version") ||
        absl::StartsWith(line, "  --print-config") || absl::StartsWith(line, "  --measure "))
      continue;  // What a person asks for, who then gets an answer.
    const absl::string_view name = absl::StripPrefix(line.substr(0, line.find(' ', 4)), "  --");
    const std::string variable =
        absl::StrCat("LONGHAUL_", absl::AsciiStrToUpper(absl::StrReplaceAll(name, {{"-", "_"}})));
    EXPECT_TRUE(absl::StrContains(page, absl::StrCat("[env: ", variable, "]"))) << name;
    ++flags;
  }
  EXPECT_GT(flags, 20);
}

TEST(FlagsTest, VersionIsAskedForAsAnOptionOrAsAWord) {
  for (const char* word : {"--version", "version"}) {
    int exit_code = -1;
    const char* words[] = {"build/bin/longhaul-worker", word};
    testing::internal::CaptureStdout();
    EXPECT_FALSE(ParseWorkerFlags(2, const_cast<char**>(words), &exit_code).has_value());
    EXPECT_EQ(exit_code, 0);
    EXPECT_EQ(testing::internal::GetCapturedStdout().rfind("longhaul-worker ", 0), 0u);
  }
}

TEST(FlagsTest, AMistakeIsNamedWithItsFlag) {
  testing::internal::CaptureStderr();
  EXPECT_TRUE(Refuses({"--log-level", "loud"}));
  EXPECT_TRUE(Refuses({"--rank", "2"}));
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "error: --log-level: 'loud' is not one of debug, info, warning, error\n"
            "hint: `longhaul-worker --help` shows its arguments\n"
            "error: no such option: --rank\nhint: did you mean '--ranks'?\n");
}

}  // namespace
}  // namespace longhaul
