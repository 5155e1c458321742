#include "common/command_line/help_page.h"

#include <gtest/gtest.h>

#include "absl/strings/str_split.h"

namespace longhaul {
namespace {

TEST(HelpPageTest, LinesAreWrappedAndVariablesComeLast) {
  CLI::App app{"A sample.", "sample"};
  SetHelpPage(app);
  std::string pool = "east", other;
  bool flag = false;
  CLI::Option* const none = app.add_flag("--none", flag, "No pool");
  CLI::Option* const hidden = app.add_flag("--hidden", flag, "An earlier name")->group("");
  app.add_option("--pool", pool, "Name of the pool")
      ->excludes(none)
      ->excludes(hidden)
      ->type_name("NAME")
      ->capture_default_str()
      ->envname("LONGHAUL_POOL");
  app.add_option("--long", other,
                 "Words and words and words and words and words and words and words and words and "
                 "words and words and words and w and w")
      ->envname("LONGHAUL_L")
      ->type_name("TEXT");
  app.add_subcommand("act",
                     "More words and words and words and words and words and words and more "
                     "words and words");
  const std::string page = app.help();
  EXPECT_NE(page.find("\nUsage: sample [OPTIONS]"), std::string::npos) << page;
  EXPECT_NE(
      page.find(
          "  --pool NAME=east            Name of the pool; not with --none [env: LONGHAUL_POOL]\n"),
      std::string::npos)
      << page;
  EXPECT_NE(page.find("\n                              words and words and words and words and w "
                      "and w [env: LONGHAUL_L]\n"),
            std::string::npos)
      << page;
  for (const absl::string_view line : absl::StrSplit(page, '\n')) EXPECT_LE(line.size(), 100u);
}

TEST(HelpPageTest, VersionNamesTheProgram) {
  CLI::App app{"A sample.", "sample"};
  SetHelpPage(app);
  try {
    app.parse(std::vector<std::string>{"--version"});
    FAIL();
  } catch (const CLI::CallForVersion& answer) {
    EXPECT_EQ(std::string(answer.what()).rfind("sample ", 0), 0u) << answer.what();
    EXPECT_NE(std::string(answer.what()), "sample ");
  }
}

}  // namespace
}  // namespace longhaul
