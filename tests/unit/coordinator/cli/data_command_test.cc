// `longhaul data check` needs no server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli_runner.h"
#include "tests/testing/fake_chat_renderer.h"
#include "tests/testing/temp_dir.h"

namespace longhaul::cli {
namespace {

using ::testing::HasSubstr;

class DataCommandTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    std::ofstream(dir_.Join(name), std::ios::binary) << bytes;
    return dir_.Join(name);
  }
  TempDir dir_;
  CliRunner run_;
};

TEST_F(DataCommandTest, TellsWhatFilesAreAndHoldTogether) {
  const std::string jsonl = Write("a.jsonl", "{\"text\": \"abc\"}\n{\"text\": \"\\u001b[2J\"}\n");
  const std::string tokens = Write("b.bin", std::string("\1\0\2\1", 4));
  const CliResult result = run_({"data", "check", jsonl, tokens, "-o", "json", "--sample", "2"});
  ASSERT_EQ(result.exit, 0) << result.err;
  const Json data = result.envelope()["data"];
  EXPECT_EQ(data["tokens"], 4 + 5 + 2);
  EXPECT_EQ(data["documents"], nullptr) << "of the second they are not known";
  EXPECT_EQ(data["files"][0]["format"], "jsonl");
  EXPECT_EQ(data["files"][0]["documents"], 2);
  EXPECT_EQ(data["files"][0]["sample"]["tokens"], Json({97, 98}));
  EXPECT_EQ(data["files"][1]["format"], "nanogpt");
  EXPECT_EQ(data["files"][1]["largest_token"], 258);
  const CliResult table = run_({"data", "check", jsonl});
  EXPECT_THAT(table.out, HasSubstr("DOCUMENTS"));
  EXPECT_THAT(table.out, HasSubstr("Sample of "));
  EXPECT_EQ(table.out.find('\x1b'), std::string::npos);
}

TEST_F(DataCommandTest, NamesMayBeginAndEndWithBrackets) {
  Write("[old]", "some text\n");
  Write("b.txt", "abc\n");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir_.path());
  const CliResult result =
      run_({"data", "check", "[old]", "b.txt", "--format", "text", "-o", "json"});
  std::filesystem::current_path(before);
  ASSERT_EQ(result.exit, 0) << result.err;
  EXPECT_EQ(result.envelope()["data"]["files"].size(), 2u);
  EXPECT_EQ(result.envelope()["data"]["files"][0]["path"], "./[old]");
}

TEST_F(DataCommandTest, DamageIsAnErrorThatComesWithTheData) {
  const std::string path = Write("a.jsonl", "{\"text\": \"abc\"}\n{\n");
  const CliResult result = run_({"data", "check", path, "-o", "json"});
  EXPECT_EQ(result.exit, 1);
  EXPECT_EQ(result.envelope()["error"]["code"], "DATA_LOSS");
  EXPECT_EQ(result.envelope()["data"]["problem_count"], 1);
  EXPECT_THAT(std::string(result.envelope()["data"]["files"][0]["problems"][0]),
              HasSubstr("line 2"));
}

TEST_F(DataCommandTest, SaysThatAFileIsSomethingElse) {
  const std::string parquet = Write("a.parquet", "PAR1" + std::string(100, '\0'));
  const CliResult refused = run_({"data", "check", parquet, "-o", "json"});
  EXPECT_EQ(refused.exit, 1);
  const Json file = refused.envelope()["data"]["files"][0];
  EXPECT_EQ(file["format"], "other");
  EXPECT_THAT(std::string(file["problems"][0]), HasSubstr("is a Parquet file"));
  EXPECT_EQ(file["control_tokens"], nullptr);
  const std::string rows = Write("rows", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n");
  EXPECT_EQ(run_({"data", "check", rows, "--format", "text"}).exit, 1);
  EXPECT_EQ(run_({"data", "check", rows, "--format", "text", "--as-is"}).exit, 0);
}

TEST_F(DataCommandTest, ShowsOnHowMuchOfAChatTheLossIs) {
  const FakeChatRenderer renderer;
  const std::string path = Write("chat.jsonl", "abCD\nnone\n");
  const CliResult table =
      run_({"data", "check", path, "--format", "chat", "--tokenizer", renderer.model()});
  EXPECT_EQ(table.exit, 0) << table.out;
  EXPECT_THAT(table.out, HasSubstr(path + ": the loss is on 2 of 8 tokens (25.0%), those of the "
                                          "assistant; the longest conversation has 4 tokens; 1 "
                                          "conversation has no such token: jobs leave them out"));
  const Json file = run_({"data", "check", path, "--format", "chat", "--tokenizer",
                          renderer.model(), "-o", "json"})
                        .envelope()["data"]["files"][0];
  EXPECT_EQ(file["format"], "chat");
  EXPECT_EQ(file["chat"]["target_tokens"], 2);
  EXPECT_EQ(file["chat"]["without_targets"], 1);
  const CliResult without = run_({"data", "check", path, "--format", "chat"});
  EXPECT_EQ(without.exit, 4);
  EXPECT_THAT(without.err, HasSubstr("is chat: give --tokenizer"));
}

TEST_F(DataCommandTest, TakesTheWidthOfIds) {
  std::string wide;
  for (int i = 0; i < 2000; ++i) {
    const uint32_t id = 37 * i % 50000;
    wide.append(reinterpret_cast<const char*>(&id), sizeof(id));
  }
  const std::string path = Write("wide.bin", wide);
  EXPECT_THAT(run_({"data", "check", path}).out, HasSubstr("as in files of 32-bit ids"));
  const CliResult taken = run_({"data", "check", path, "--width", "32", "-o", "json"});
  EXPECT_EQ(taken.exit, 0) << taken.out;
  EXPECT_EQ(taken.envelope()["data"]["tokens"], 2000);
  EXPECT_EQ(run_({"data", "check", path, "--width", "16"}).exit, 0);
  EXPECT_EQ(run_({"data", "check", path, "--width", "24"}).exit, 4);
}

TEST_F(DataCommandTest, ShowsWarnings) {
  const std::string path = Write("one.txt", "{\n  \"a\": 1,\n  \"b\": 2\n}\n");
  const CliResult table = run_({"data", "check", path});
  EXPECT_EQ(table.exit, 0);
  EXPECT_THAT(table.out, HasSubstr("Warning: " + path + ": is one JSON document"));
  EXPECT_EQ(
      run_({"data", "check", path, "-o", "json"}).envelope()["data"]["files"][0]["warnings"].size(),
      1);
}

TEST_F(DataCommandTest, SaysThatTextIsNotUtf8) {
  const std::string path = Write("latin.txt", "caf\xE9\n");
  const CliResult result = run_({"data", "check", path});
  EXPECT_EQ(result.exit, 0);
  EXPECT_THAT(result.out, HasSubstr(path + ": byte 3 is not UTF-8"));
  EXPECT_EQ(
      run_({"data", "check", path, "-o", "json"}).envelope()["data"]["files"][0]["not_utf8_at"], 3);
  const std::string fine = Write("fine.txt", "caf\xC3\xA9\n");
  EXPECT_EQ(run_({"data", "check", fine}).out.find("UTF-8"), std::string::npos);
}

TEST_F(DataCommandTest, TheHintIsThatOfWhatIsMissing) {
  const std::string path = Write("a.txt", "abc");
  const auto hint = [&](const std::string& data, const std::string& tokenizer) {
    const CliResult result = run_({"data", "check", data, "--tokenizer", tokenizer, "-o", "json"});
    EXPECT_EQ(result.envelope()["error"]["code"], "NOT_FOUND");
    return result.envelope()["error"].value("hint", "");
  };
  EXPECT_THAT(hint(dir_.Join("none"), path), HasSubstr("give a file"));
  EXPECT_EQ(hint(path, dir_.Join("none.model")), "");
}

TEST_F(DataCommandTest, WrongArgumentsAreUsageErrors) {
  EXPECT_EQ(run_({"data"}).exit, 4);
  EXPECT_EQ(run_({"data", "check"}).exit, 4);
  EXPECT_EQ(run_({"data", "check", dir_.Join("none")}).exit, 4);
  EXPECT_EQ(run_({"data", "check", "x", "--format", "parquet"}).exit, 4);
  EXPECT_EQ(run_({"data", "check", "x", "--vocab", "0"}).exit, 4);
  const CliResult typo = run_({"data", "check", "x", "--tokeniser", "y"});
  EXPECT_EQ(typo.exit, 4);
  EXPECT_THAT(typo.err, HasSubstr("--tokenizer"));
}

TEST_F(DataCommandTest, CompletionKnowsIt) {
  const std::string script = run_({"completion", "bash"}).out;
  EXPECT_THAT(script, HasSubstr("    data) echo '"));
  EXPECT_THAT(script, HasSubstr("check"));
  EXPECT_THAT(script, HasSubstr("--tokenizer"));
}

}  // namespace
}  // namespace longhaul::cli
