#include "common/command_line/usage_fault.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/command_line/help_page.h"
#include "common/command_line/value_checks.h"

namespace longhaul {
namespace {

// A program with commands, and with options of every kind.
struct Sample {
  Sample() {
    SetHelpPage(app);
    app.fallthrough();
    app.require_subcommand(1);
    app.add_option("--server", text);
    app.add_flag("--open", open)->envname("LONGHAUL_TEST_OPEN");
    app.add_option("--ranks", number)->check(WholeNumber(1, 256))->envname("LONGHAUL_TEST_RANKS");
    CLI::App* submit = app.add_subcommand("submit");
    submit->add_option("-f,--file", text)->required()->type_name("FILE");
    CLI::App* get = app.add_subcommand("get");
    get->add_option("JOB", text)->required();
    get->add_option("--form", text)->check(OneOf({"table", "json"}));
    CLI::Option* const share = get->add_option("--share", real)->check(Number(0, 1));
    get->add_option("--part", real)->group("")->excludes(share);
    CLI::App* spec = app.add_subcommand("spec")->require_subcommand(1);
    spec->add_subcommand("explain");
    spec->add_subcommand("init");
  }

  // nullopt: the words are accepted.
  std::optional<UsageFault> Parse(const std::vector<std::string>& args) {
    try {
      ParseCommandLine(app, args);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() != 0) return ExplainUsage(app, error, args);
    }
    return std::nullopt;
  }

  CLI::App app{"A sample.", "sample"};
  std::string text;
  int number = 0;
  double real = 0;
  bool open = false;
};

UsageFault FaultOf(const std::vector<std::string>& args) {
  return Sample().Parse(args).value_or(UsageFault{"accepted", ""});
}

TEST(UsageFaultTest, AnUnknownWordIsNamedWithTheNearestOne) {
  EXPECT_EQ(FaultOf({"submti"}).message, "no such command: submti");
  EXPECT_EQ(FaultOf({"submti"}).hint, "did you mean 'submit'?");
  EXPECT_EQ(FaultOf({"spec", "explian"}).message, "no such command: spec explian");
  EXPECT_EQ(FaultOf({"spec", "explian"}).hint, "did you mean 'explain'?");
  EXPECT_EQ(FaultOf({"submit", "--fiel", "x"}).message, "no such option: --fiel");
  EXPECT_EQ(FaultOf({"submit", "--fiel=x"}).hint, "did you mean '--file'?");
  // Before the command, it may be any command's.
  EXPECT_EQ(FaultOf({"--fiel", "x"}).hint, "did you mean '--file'?");
  // Another command's options are no hint.
  EXPECT_EQ(FaultOf({"get", "job", "--fiel"}).hint, "`sample get --help` shows its arguments");
  EXPECT_EQ(FaultOf({"get", "job", "-Z"}).message, "no such option: -Z");
  EXPECT_EQ(FaultOf({"get", "job", "more", "most"}).message, "unexpected argument: more");
}

TEST(UsageFaultTest, WhatIsMissingIsNamedWithWhatWasGivenInstead) {
  EXPECT_EQ(FaultOf({}).message, "a command is required");
  EXPECT_EQ(FaultOf({"spec"}).message, "`sample spec` needs one more word: explain or init");
  EXPECT_EQ(FaultOf({"get"}).message, "JOB is required");
  EXPECT_EQ(FaultOf({"submit"}).message, "--file is required");
  EXPECT_EQ(FaultOf({"submit"}).hint, "`sample submit --help` shows its arguments");
  EXPECT_EQ(FaultOf({"submit", "job.yaml"}).hint, "did you mean '--file job.yaml'?");
  EXPECT_EQ(FaultOf({"submit", "--file"}).message, "--file: its value is missing");
}

TEST(UsageFaultTest, WhatIsGivenTwiceIsNamed) {
  EXPECT_EQ(FaultOf({"get", "j", "--share=0", "--share", "1"}).message,
            "--share: given 2 times, expected once");
  EXPECT_EQ(FaultOf({"submit", "-f", "a", "-f", "a", "-f", "b"}).message,
            "--file: given 3 times, expected once");
}

TEST(UsageFaultTest, AWrongValueIsQuotedWithWhatIsPossible) {
  EXPECT_EQ(FaultOf({"get", "j", "--form", "jsom"}).message,
            "--form: 'jsom' is not one of table, json (did you mean 'json'?)");
  EXPECT_EQ(FaultOf({"get", "j", "--share=2"}).message, "--share: '2' is not a number from 0 to 1");
  EXPECT_EQ(FaultOf({"--ranks", "1.5", "get", "j"}).message,
            "--ranks: '1.5' is not a whole number from 1 to 256");
  // CLI11 reads numbers that begin with 0 in base 8.
  for (const char* const octal : {"010", "08", "+8", " 8"}) {
    EXPECT_EQ(FaultOf({"--ranks", octal, "get", "j"}).message,
              absl::StrCat("--ranks: '", octal, "' is not a whole number from 1 to 256; write ",
                           octal[1] == '1' ? "10" : "8"));
  }
  setenv("LONGHAUL_TEST_RANKS", "0", 1);
  EXPECT_EQ(FaultOf({"get", "j"}).message,
            "--ranks: '0' is not a whole number from 1 to 256 (from LONGHAUL_TEST_RANKS)");
  unsetenv("LONGHAUL_TEST_RANKS");
  EXPECT_EQ(FaultOf({"get", "j"}).message, "accepted");
  setenv("LONGHAUL_TEST_OPEN", "maybe", 1);
  EXPECT_EQ(FaultOf({"get", "j"}).message,
            "--open: 'maybe' is neither true nor false (from LONGHAUL_TEST_OPEN)");
  unsetenv("LONGHAUL_TEST_OPEN");
  EXPECT_EQ(FaultOf({"get", "j", "--open=maybe"}).message,
            "--open: 'maybe' is neither true nor false");
  EXPECT_EQ(FaultOf({"get", "j", "--share=0", "--part=0"}).message,
            "--share is also given by an earlier name");
  EXPECT_EQ(FaultOf({"submit"}).Text(),
            "error: --file is required\nhint: `sample submit --help` shows its arguments");
}

TEST(UsageFaultTest, AWordCannotDriveTheTerminal) {
  EXPECT_EQ(FaultOf({"get", "j", "--\x1b[2J"}).Text(),
            "error: no such option: --\\x1b[2J\nhint: `sample get --help` shows its arguments");
}

TEST(UsageFaultTest, AnEmptyValueIsGivenInEitherForm) {
  const std::vector<std::vector<std::string>> forms = {{"--server="}, {"--server", ""}};
  for (const std::vector<std::string>& form : forms) {
    for (const bool before : {true, false}) {
      Sample sample;
      sample.text = "a default";
      std::vector<std::string> args = {"--ranks", "2", "spec", "init"};
      // CLI11 would take the next word for the value.
      args.insert(before ? args.begin() : args.end(), form.begin(), form.end());
      EXPECT_EQ(sample.Parse(args), std::nullopt);
      EXPECT_EQ(sample.text, "");
      EXPECT_EQ(sample.number, 2);
    }
  }
  EXPECT_EQ(FaultOf({"--ranks=", "get", "j"}).message,
            "--ranks: '' is not a whole number from 1 to 256");
  EXPECT_EQ(FaultOf({"get", "j", "--form="}).message, "--form: '' is not one of table, json");
  EXPECT_EQ(FaultOf({"get", "j", "--fomr="}).message, "no such option: --fomr");
  EXPECT_EQ(FaultOf({"get", "j", "--server"}).message, "--server: its value is missing");
  // A value, and a word after all options, may have any form.
  Sample value, last;
  EXPECT_EQ(value.Parse({"spec", "init", "--server", "--ranks="}), std::nullopt);
  EXPECT_EQ(value.text, "--ranks=");
  EXPECT_EQ(last.Parse({"get", "--", "--server="}), std::nullopt);
  EXPECT_EQ(last.text, "--server=");
}

TEST(UsageFaultTest, AMisspeltVariableIsNamed) {
  Sample sample;
  const char* const environment[] = {"LONGHAUL_TEST_RANK=2", "LONGHAUL_TEST_OPEN=1",
                                     "LONGHAUL_SERVER=hub:7070", "TEST_RANKS=2", nullptr};
  EXPECT_EQ(
      MisspeltVariables(sample.app, environment),
      std::vector<std::string>{"LONGHAUL_TEST_RANK is not a variable of this program; did you "
                               "mean LONGHAUL_TEST_RANKS?"});
  // The right one is set, too: the other is somebody else's.
  setenv("LONGHAUL_TEST_RANKS", "2", 1);
  EXPECT_TRUE(MisspeltVariables(sample.app, environment).empty());
  unsetenv("LONGHAUL_TEST_RANKS");
}

TEST(UsageFaultTest, EveryProgramKnowsHelpAndVersion) {
  Sample sample;
  const auto words = [&](const std::vector<std::string>& args) {
    return WithCommonWords(sample.app, args);
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(words({"version"}), Words{"--version"});
  EXPECT_EQ(words({"help"}), Words{"--help"});
  EXPECT_EQ(words({"help", "spec", "init"}), (Words{"spec", "init", "--help"}));
  EXPECT_EQ(words({"get", "help"}), (Words{"get", "help"}));
  EXPECT_EQ(words({}), Words{});
  sample.app.add_subcommand("version");
  EXPECT_EQ(words({"version"}), Words{"version"});
}

}  // namespace
}  // namespace longhaul
