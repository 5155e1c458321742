#include "common/command_line/config_file.h"

#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/exit_code.h"
#include "common/command_line/help_page.h"
#include "common/command_line/usage_fault.h"
#include "common/command_line/value_checks.h"
#include "common/config/yaml_document.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

// A daemon with settings of every kind.
struct Daemon {
  Daemon() {
    SetHelpPage(app);
    config.emplace(app);
    config->Setting("pool", "NAME", pool, "Name")->required();
    config->Setting("ranks", "N", ranks, "Ranks")->check(WholeNumber(1, 256));
    config->Setting("node", "N", node, "Number")->check(WholeNumber(0, 255));
    config->Setting("lease", "TIME", lease, "Time")
        ->check(TimeSpan(absl::Seconds(1), absl::Hours(1)));
    config->Setting("http-listen", "HOST:PORT", listen, "Address");
    app.add_option("--old-listen", listen)->excludes("--http-listen")->group("");
    config->Switch("insecure,--old-insecure", insecure, "Open");
    app.add_flag("--check", check, "Does something else");
  }

  // What is wrong; empty: nothing.
  std::string Parse(std::vector<std::string> words) {
    args = std::move(words);
    try {
      ParseCommandLine(app, args);
    } catch (const CLI::ParseError& error) {
      exit = UsageExitCode(error);
      if (exit == 0) return "shown";
      return ExplainUsage(app, error, args).message;
    }
    return "";
  }

  CLI::App app{"A daemon.", "daemon"};
  std::optional<ConfigFile> config;
  std::string pool, lease = "10s", listen = "127.0.0.1:1";
  int ranks = 1;
  std::optional<int> node;
  bool insecure = false, check = false;
  // After a parse that failed.
  int exit = -1;
  std::vector<std::string> args;
};

class ConfigFileTest : public testing::Test {
 protected:
  ~ConfigFileTest() override {
    for (const char* name : {"LONGHAUL_CONFIG", "LONGHAUL_RANKS", "LONGHAUL_OLD_LISTEN"})
      unsetenv(name);
  }

  std::string Write(const std::string& text) {
    std::string path = folder_.path() + "/daemon.yaml";
    std::ofstream(path) << text;
    return path;
  }
  // What a file is refused with, without its path.
  std::string FaultOf(const std::string& text) {
    const std::string path = Write(text);
    const std::string fault = Daemon().Parse({"--pool=a", "--config", path});
    const std::string before = absl::StrCat("--config: ", path, ", ");
    return absl::StartsWith(fault, before) ? fault.substr(before.size()) : fault;
  }

  TempDir folder_;
};

TEST_F(ConfigFileTest, AFlagOverridesItsVariableWhichOverridesTheFile) {
  const std::string path =
      Write("# A site.\npool: site-a\nranks: 4\nlease: \"20s\"\nnode: 0\ninsecure: true\n");
  Daemon file;
  EXPECT_EQ(file.Parse({"--config", path}), "");
  EXPECT_EQ(file.pool, "site-a");
  EXPECT_EQ(file.ranks, 4);
  EXPECT_EQ(file.lease, "20s");
  EXPECT_EQ(file.node, 0);
  EXPECT_TRUE(file.insecure);
  EXPECT_EQ(file.listen, "127.0.0.1:1");
  setenv("LONGHAUL_CONFIG", path.c_str(), 1);
  setenv("LONGHAUL_RANKS", "5", 1);
  Daemon variable;
  EXPECT_EQ(variable.Parse({"--lease=30s", "--insecure=false"}), "");
  EXPECT_EQ(variable.pool, "site-a");
  EXPECT_EQ(variable.ranks, 5);
  EXPECT_EQ(variable.lease, "30s");
  EXPECT_FALSE(variable.insecure);
  Daemon flag;
  EXPECT_EQ(flag.Parse({"--ranks", "6", "--config", ""}), "--pool is required");
  EXPECT_EQ(flag.ranks, 6);
}

TEST_F(ConfigFileTest, AnEarlierNameOverridesTheFile) {
  const std::string path = Write("http-listen: 127.0.0.1:3\n");
  Daemon daemon;
  EXPECT_EQ(daemon.Parse({"--pool=a", "--config", path, "--old-listen=127.0.0.1:2"}), "");
  EXPECT_EQ(daemon.listen, "127.0.0.1:2");
  EXPECT_TRUE(absl::StrContains(daemon.config->Text(daemon.args),
                                "http-listen: 127.0.0.1:2  # --old-listen\n"));
}

TEST_F(ConfigFileTest, AMistakeIsNamedWithItsLine) {
  EXPECT_EQ(FaultOf("pool: a\nrank: 2\n"), "line 2: no such setting: rank (did you mean 'ranks'?)");
  EXPECT_EQ(FaultOf("elsewhere: 2\n"), "line 1: no such setting: elsewhere");
  // Actions, and the file itself, are not said by a file.
  EXPECT_EQ(FaultOf("check: true\n"), "line 1: no such setting: check");
  EXPECT_EQ(FaultOf("config: x\n"), "line 1: no such setting: config");
  EXPECT_EQ(FaultOf("old-insecure: true\n"),
            "line 1: no such setting: old-insecure (did you mean 'insecure'?)");
  EXPECT_EQ(FaultOf("\nranks: many\n"),
            "line 2: ranks: 'many' is not a whole number from 1 to 256");
  EXPECT_EQ(FaultOf("ranks: 1.5\n"), "line 1: ranks: '1.5' is not a whole number from 1 to 256");
  EXPECT_EQ(FaultOf("lease: soon\n"),
            "line 1: lease: 'soon' is not a duration from 1s to 1h, for example 90s or 10m");
  EXPECT_EQ(FaultOf("insecure: yes\n"), "line 1: insecure: 'yes' is neither true nor false");
  EXPECT_EQ(FaultOf("ranks: [1, 2]\n"), "line 1: ranks: found a list, expected one value");
  EXPECT_EQ(FaultOf("ranks: {a: 1}\n"), "line 1: ranks: found a mapping, expected one value");
  EXPECT_EQ(FaultOf("ranks:\n"),
            "line 1: ranks: found nothing, expected one value (\"\" is an empty text)");
  EXPECT_EQ(FaultOf("ranks: 1\nlease: 2s\nranks: 2\n"),
            "line 3: ranks is given twice, first in line 1");
  // All of them.
  EXPECT_EQ(FaultOf("ranks: 1\nlease: 0s\nrank: 2\n"),
            "line 2: lease: '0s' is not a duration from 1s to 1h, for example 90s or 10m; line 3: "
            "no such setting: "
            "rank (did you mean 'ranks'?)");
}

TEST_F(ConfigFileTest, WhatIsNoListOfSettingsIsRefused) {
  EXPECT_EQ(FaultOf("- a\n- b\n"), "line 1: expected lines of NAME: VALUE");
  EXPECT_EQ(FaultOf("just words\n"), "line 1: expected lines of NAME: VALUE");
  EXPECT_EQ(FaultOf("pool: a\n---\nranks: 1\n"), "found several documents, expected one");
  EXPECT_TRUE(absl::StartsWith(FaultOf("pool: a\n\tranks: 2\n"), "line 2, column "));
  EXPECT_TRUE(absl::StrContains(FaultOf("pool: \xff\n"), "not UTF-8"));
  EXPECT_TRUE(absl::StrContains(FaultOf(std::string(kYamlBytesMax + 1, '#')), "is larger than"));
  EXPECT_EQ(FaultOf(""), "");
  EXPECT_EQ(FaultOf("# Nothing yet.\n"), "");
  EXPECT_TRUE(absl::StrContains(Daemon().Parse({"--config", folder_.path() + "/none"}),
                                folder_.path() + "/none"));
  EXPECT_TRUE(
      absl::StrContains(Daemon().Parse({"--config", folder_.path()}), "not a regular file"));
  // Help is shown in any case.
  EXPECT_EQ(Daemon().Parse({"--config", "nowhere", "--help"}), "shown");
  EXPECT_EQ(Daemon().Parse({"--config", "nowhere", "--version"}), "shown");
}

// It may come with a folder that is mounted later, as another file that a flag names.
TEST_F(ConfigFileTest, OnlyAMistakeStaysOne) {
  const auto exit_with = [](const std::string& path) {
    Daemon daemon;
    EXPECT_NE(daemon.Parse({"--pool=a", "--config", path}), "");
    return daemon.exit;
  };
  EXPECT_EQ(exit_with(folder_.path() + "/none"), kExitFailed);
  EXPECT_EQ(exit_with(folder_.path()), kExitBadArguments);
  EXPECT_EQ(exit_with(Write("rank: 2\n")), kExitBadArguments);
  EXPECT_EQ(exit_with(Write(std::string(kYamlBytesMax + 1, '#'))), kExitBadArguments);
  Daemon unknown;
  EXPECT_NE(unknown.Parse({"--pool=a", "--rank=2"}), "");
  EXPECT_EQ(unknown.exit, kExitBadArguments);
}

TEST_F(ConfigFileTest, WhatIsInForceIsShownAsAFileThatSaysTheSame) {
  const std::string path = Write("pool: 'a: \"b\" #c'\nlease: 20s\n");
  setenv("LONGHAUL_RANKS", "3", 1);
  Daemon daemon;
  EXPECT_EQ(daemon.Parse({"--config", path, "--insecure", "--print-config", "--http-listen", ""}),
            "");
  EXPECT_TRUE(daemon.config->print());
  const std::string text = daemon.config->Text(daemon.args);
  EXPECT_EQ(text, absl::StrCat("# --config ", path,
                               "\npool: \"a: \\\"b\\\" #c\"  # --config, line 1\n"
                               "ranks: 3  # LONGHAUL_RANKS\n"
                               "# node is not set\n"
                               "lease: 20s  # --config, line 2\n"
                               "http-listen: \"\"  # --http-listen\n"
                               "insecure: true  # --insecure\n"));
  unsetenv("LONGHAUL_RANKS");
  Daemon again;
  EXPECT_EQ(again.Parse({"--config", Write(text)}), "");
  EXPECT_EQ(again.pool, daemon.pool);
  EXPECT_EQ(again.ranks, 3);
  EXPECT_EQ(again.lease, "20s");
  EXPECT_EQ(again.listen, "");
  EXPECT_TRUE(again.insecure);
  Daemon alone;
  EXPECT_EQ(alone.Parse({"--pool=null"}), "");
  EXPECT_EQ(alone.config->Text(alone.args),
            "pool: \"null\"  # --pool\n"
            "ranks: 1  # default\n"
            "# node is not set\n"
            "lease: 10s  # default\n"
            "http-listen: 127.0.0.1:1  # default\n"
            "insecure: false  # default\n");
}

}  // namespace
}  // namespace longhaul
