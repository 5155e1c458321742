#include "worker/data/data_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/testing/temp_dir.h"
#include "tests/unit/worker/data/data_files.h"
#include "tests/unit/worker/data/piece_model.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

class DataCheckTest : public testing::Test {
 protected:
  DataReport Check(const std::string& name, const std::string& bytes,
                   DataCheckOptions options = {}) {
    WriteBytes(dir_.Join(name), bytes);
    options.tokenizer_program = LONGHAUL_SENTENCEPIECE;
    auto reports = CheckData(dir_.Join(name), options);
    EXPECT_TRUE(reports.ok()) << reports.status();
    return reports.ok() && reports->size() == 1 ? reports->front() : DataReport{};
  }
  TempDir dir_;
};

TEST_F(DataCheckTest, TellsWhatFilesAre) {
  const DataReport text = Check("a", "some text\nof two lines\n");
  EXPECT_EQ(text.kind, SourceKind::kText);
  EXPECT_EQ(text.tokens, 23);
  EXPECT_THAT(text.documents, Optional(1));
  EXPECT_THAT(text.largest, Optional('x'));
  EXPECT_EQ(text.sample[0], 's');
  EXPECT_EQ(text.sample_text, "some text\nof two lines\n");

  const DataReport jsonl = Check("b", "{\"text\": \"abc\"}\n{\"text\": \"d\"}\n");
  EXPECT_EQ(jsonl.kind, SourceKind::kJsonl);
  EXPECT_EQ(jsonl.tokens, 4 + 2);
  EXPECT_THAT(jsonl.documents, Optional(2));
  EXPECT_THAT(jsonl.sample, ElementsAre('a', 'b', 'c', 0, 'd', 0));
  EXPECT_THAT(Check("b", "{\"text\": \"a\"}\n{\"text\": \"d\"}\n", {.eos = -1, .bos = 1}).sample,
              ElementsAre(1, 'a', 1, 'd'));

  const DataReport gzip = Check("c.json.gz", Gzip("{\"text\": \"abc\"}\n"));
  EXPECT_EQ(gzip.kind, SourceKind::kJsonl);
  EXPECT_EQ(gzip.compression, "gzip");
  EXPECT_EQ(gzip.tokens, 4);
  EXPECT_EQ(Check("d.txt.zst", Zstd("abc")).compression, "zstd");

  const DataReport nanogpt =
      Check("e.bin", WordsOf<uint16_t>({50256, 5, 6, 50256, 7}), {.eos = 50256});
  EXPECT_EQ(nanogpt.kind, SourceKind::kNanoGpt);
  EXPECT_EQ(nanogpt.tokens, 5);
  EXPECT_THAT(nanogpt.documents, Optional(2));
  EXPECT_THAT(nanogpt.largest, Optional(50256));
  EXPECT_EQ(Check("f.bin", WordsOf<uint16_t>({1, 2})).documents, std::nullopt);
  EXPECT_THAT(Check("f.bin", WordsOf<uint16_t>({9, 1, 2, 9}), {.bos = 9}).documents, Optional(2));

  const DataReport llmc = Check("g.bin", LlmcHeader(20240520, 1, 1) + WordsOf<uint16_t>({9}));
  EXPECT_EQ(llmc.kind, SourceKind::kLlmc);
  EXPECT_THAT(llmc.sample, ElementsAre(9));

  WriteBytes(dir_.Join("m.idx"), MegatronIndexBytes({2, 1}, 8, 2));
  const DataReport megatron = Check("m.bin", WordsOf<uint16_t>({9, 8, 7}));
  EXPECT_EQ(megatron.kind, SourceKind::kMegatron);
  EXPECT_THAT(megatron.documents, Optional(2));
  EXPECT_EQ(megatron.bytes, 6);
  EXPECT_EQ(CheckData(dir_.Join("m"), {})->size(), 1);
  EXPECT_EQ(CheckData(dir_.Join("m.*"), {})->size(), 1) << "both files are one";
  EXPECT_EQ(CheckData(dir_.path(), {})->size(), 8);
}

TEST_F(DataCheckTest, FindsDamage) {
  const auto problem = [&](const std::string& name, const std::string& bytes,
                           const DataCheckOptions& options = {}) {
    const DataReport report = Check(name, bytes, options);
    EXPECT_EQ(report.problem_count, 1);
    return report.problems.empty() ? "" : report.problems[0];
  };
  EXPECT_THAT(problem("odd.bin", "abc"), HasSubstr("odd size"));
  EXPECT_THAT(problem("a.jsonl", "{\"text\": \"a\"}\n{\n{\"text\": \"b\"}\n"), HasSubstr("line 2"));
  EXPECT_THAT(problem("b.bin", WordsOf<uint16_t>({1, 700}), {.vocab = 700}),
              HasSubstr("token 1 (at byte 2) is 700"));
  EXPECT_THAT(problem("c.bin", LlmcHeader(20240520, 1, 2) + "ab"), HasSubstr("announces 2"));
  const std::string gzip = Gzip(std::string(10000, 'a') + "b");
  EXPECT_THAT(problem("t.txt.gz", gzip.substr(0, gzip.size() - 5)), HasSubstr("truncated"));
  EXPECT_THAT(problem("empty", ""), HasSubstr("empty: holds no text"));
  WriteBytes(dir_.Join("m.idx"), MegatronIndexBytes({2, 1}, 8, 2));
  EXPECT_THAT(problem("m.bin", "abcd"), HasSubstr("announces 3 tokens"));
  EXPECT_THAT(problem("byte.txt", "ab\xFF", {.vocab = 200}), HasSubstr("255 is not below"));
}

// As a job does, which needs some text in the folder.
TEST_F(DataCheckTest, AnEmptyFileIsNoDamageBesideOthers) {
  const std::string folder = dir_.Join("folder");
  std::filesystem::create_directory(folder);
  WriteBytes(folder + "/a.txt", "");
  const auto problems = [&] {
    int64_t count = 0;
    const std::vector<DataReport> reports = CheckData(folder, {}).value();
    for (const DataReport& report : reports) count += report.problem_count;
    return count;
  };
  WriteBytes(folder + "/b.txt", "");
  EXPECT_EQ(problems(), 1);
  EXPECT_THAT((*CheckData(folder, {}))[0].problems[0], HasSubstr("folder: holds no text"));
  WriteBytes(folder + "/b.txt", "text");
  EXPECT_EQ(problems(), 0);
}

// Bytes train as they are, so this is no damage. It may be a mistake.
TEST_F(DataCheckTest, TellsWhereTextIsNotUtf8) {
  const std::string latin = "caf\xC3\xA9\n" + std::string(kPieceBytesMax, 'a') + " caf\xE9\n\xE9\n";
  const DataReport report = Check("latin.txt", latin);
  EXPECT_EQ(report.problem_count, 0);
  EXPECT_THAT(report.not_utf8_at, Optional(latin.find('\xE9', 8)));
  EXPECT_EQ(Check("fine.txt", "caf\xC3\xA9\n").not_utf8_at, std::nullopt);
  const std::string model = TrainPieceModel(dir_.Join("pieces"));
  const DataReport refused = Check("latin.txt", "ab\xE9\n", {.tokenizer = model});
  EXPECT_EQ(refused.problem_count, 1);
  EXPECT_EQ(refused.not_utf8_at, std::nullopt) << "it is a problem already";
}

TEST_F(DataCheckTest, CountsWhatIsBehindBrokenLinesAndShowsTheFirstProblems) {
  std::string lines;
  for (int i = 0; i < 25; ++i) lines += "{\n{\"text\": \"ab\"}\n";
  const DataReport report = Check("a.jsonl", lines);
  EXPECT_EQ(report.problem_count, 25);
  EXPECT_EQ(report.problems.size(), kProblemsShown);
  EXPECT_EQ(report.tokens, 25 * 3);
  EXPECT_THAT(report.documents, Optional(25));
}

TEST_F(DataCheckTest, CountsTokensOfATokenizer) {
  const std::string model = TrainPieceModel(dir_.Join("pieces"));
  const DataReport report =
      Check("a.jsonl", "{\"text\": \"the river\"}\n", {.tokenizer = model, .sample_tokens = 3});
  const auto expected = EncodeByLibrary(model, {"the river"})[0];
  EXPECT_EQ(report.tokens, static_cast<int64_t>(expected.size()) + 1);
  ASSERT_LE(report.sample.size(), 3);
  EXPECT_EQ(report.sample[0], expected[0]);
}

TEST_F(DataCheckTest, RefusesWhatIsNotThere) {
  // Without words about a job: `data check` and `eval` read files, too.
  EXPECT_EQ(CheckData(dir_.Join("none"), {}).status(),
            absl::NotFoundError(dir_.Join("none") + ": no such file or folder on this machine"));
  EXPECT_FALSE(CheckData(dir_.path(), {}).ok());
}

}  // namespace
}  // namespace longhaul
