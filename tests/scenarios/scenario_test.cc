// Runs every transcript of tests/scenarios: coordinator_*.txt against the coordinator's core,
// session_*.txt against the session's. `scenario_test --rewrite` writes the output that came into
// the files, to be reviewed as a diff.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/scenarios/coordinator_commands.h"
#include "tests/scenarios/session_commands.h"
#include "tests/scenarios/transcript.h"

namespace longhaul {
namespace {

constexpr char kFolder[] = "tests/scenarios";  // Tests run in the root of the tree.

bool rewrite = false;

std::vector<std::string> Transcripts() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".txt" && entry.path().filename() != "CMakeLists.txt") {
      names.push_back(entry.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

int CountCommands(const std::string& transcript) {
  int commands = 0;
  Rewrite(transcript, [&](const Command&) {
    ++commands;
    return std::vector<std::string>{};
  });
  return commands;
}

std::string RunAgain(const std::string& name, const std::string& transcript) {
  if (name.starts_with("coordinator_")) {
    CoordinatorScenario scenario;
    return Rewrite(transcript, [&](const Command& c) { return scenario.Run(c); });
  }
  SessionScenario scenario;
  return Rewrite(transcript, [&](const Command& c) { return scenario.Run(c); });
}

class ScenarioTest : public testing::TestWithParam<std::string> {};

TEST_P(ScenarioTest, DoesWhatItsTranscriptSays) {
  const std::string path = std::string(kFolder) + "/" + GetParam() + ".txt";
  std::stringstream before;
  before << std::ifstream(path).rdbuf();
  ASSERT_GT(CountCommands(before.str()), 0) << path << " cannot be read, or is empty";
  const std::string after = RunAgain(GetParam(), before.str());
  if (rewrite) {
    std::ofstream(path) << after;
  } else {
    EXPECT_EQ(before.str(), after);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ScenarioTest, testing::ValuesIn(Transcripts()),
                         [](const auto& info) { return info.param; });

TEST(TranscriptTest, TellsTheCommandsApartFromTheirOutput) {
  const std::string text = "# why\ngo there x=1,2\n    old\n\nstop\n";
  std::vector<std::string> seen;
  const auto run = [&](const Command& c) {
    seen.push_back(c.name());
    return c.name() == "go" ? std::vector<std::string>{c.word(0), std::to_string(c.Numbers("x")[1])}
                            : std::vector<std::string>{};
  };
  EXPECT_EQ(Rewrite(text, run), "# why\ngo there x=1,2\n    there\n    2\n\nstop\n");
  EXPECT_EQ(seen, (std::vector<std::string>{"go", "stop"}));
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) longhaul::rewrite |= std::string(argv[i]) == "--rewrite";
  return RUN_ALL_TESTS();
}
