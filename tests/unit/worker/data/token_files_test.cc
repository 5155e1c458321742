#include "worker/data/token_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/testing/temp_dir.h"
#include "tests/unit/worker/data/data_files.h"
#include "worker/data/megatron_index.h"
#include "worker/data/megatron_writer.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int64_t> All(const TokenPiece& piece) {
  std::vector<int64_t> tokens(piece.count);
  EXPECT_TRUE(ReadTokens(piece, 0, absl::MakeSpan(tokens)).ok());
  return tokens;
}

std::string MessageOf(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

class TokenFilesTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    WriteBytes(dir_.Join(name), bytes);
    return dir_.Join(name);
  }
  TempDir dir_;
};

TEST_F(TokenFilesTest, ReadsNanoGpt) {
  const auto piece = OpenNanoGptFile(Write("a.bin", WordsOf<uint16_t>({1, 258, 65535}))).value();
  EXPECT_THAT(All(piece), ElementsAre(1, 258, 65535));
  EXPECT_TRUE(CheckTokens(piece, 65536).ok());
  EXPECT_THAT(MessageOf(CheckTokens(piece, 65535)), HasSubstr("token 2 (at byte 4) is 65535"));
}

TEST_F(TokenFilesTest, RefusesAnOddSizeAnEmptyFileAndOtherFormatsAsNanoGpt) {
  EXPECT_THAT(MessageOf(OpenNanoGptFile(Write("odd.bin", "abc")).status()),
              HasSubstr("odd.bin: 3 bytes is an odd size"));
  EXPECT_THAT(MessageOf(OpenNanoGptFile(Write("empty.bin", "")).status()), HasSubstr("is empty"));
  EXPECT_THAT(
      MessageOf(OpenNanoGptFile(Write("llmc.bin", LlmcHeader(20240520, 1, 0) + "ab")).status()),
      HasSubstr("llm.c"));
  EXPECT_TRUE(absl::IsNotFound(OpenNanoGptFile(dir_.Join("none")).status()));
}

TEST_F(TokenFilesTest, ReadsLlmcOfBothWidths) {
  const auto narrow =
      OpenLlmcFile(Write("a.bin", LlmcHeader(20240520, 1, 3) + WordsOf<uint16_t>({5, 6, 50256})));
  EXPECT_THAT(All(narrow.value()), ElementsAre(5, 6, 50256));
  const auto wide =
      OpenLlmcFile(Write("b.bin", LlmcHeader(20240801, 7, 2) + WordsOf<uint32_t>({128000, 1})));
  EXPECT_THAT(All(wide.value()), ElementsAre(128000, 1));
  EXPECT_THAT(MessageOf(CheckTokens(*wide, 128000)), HasSubstr("at byte 1024"));
}

TEST_F(TokenFilesTest, RefusesDamagedLlmc) {
  const auto open = [&](const std::string& bytes) {
    return MessageOf(OpenLlmcFile(Write("x.bin", bytes)).status());
  };
  EXPECT_THAT(open("short"), HasSubstr("shorter than the header"));
  EXPECT_THAT(open(LlmcHeader(7, 1, 1) + "ab"), HasSubstr("magic 7"));
  EXPECT_THAT(open(LlmcHeader(20240520, 2, 1) + "ab"), HasSubstr("version 2"));
  EXPECT_THAT(open(LlmcHeader(20240520, 1, 3) + "abcd"), HasSubstr("announces 3 tokens"));
  EXPECT_THAT(open(LlmcHeader(20240520, 1, -1) + "ab"), HasSubstr("announces -1 tokens"));
}

TEST_F(TokenFilesTest, ReadsMegatronOfEachType) {
  const auto write = [&](int type, int width, const std::string& tokens) {
    Write("m.bin", tokens);
    Write("m.idx", MegatronIndexBytes({2, 0, 1}, type, width));
    return OpenMegatronFile(dir_.Join("m"));
  };
  for (const auto& file :
       {write(1, 1, WordsOf<uint8_t>({7, 8, 9})), write(3, 2, WordsOf<int16_t>({7, 8, 9})),
        write(4, 4, WordsOf<int32_t>({7, 8, 9})), write(5, 8, WordsOf<int64_t>({7, 8, 9})),
        write(8, 2, WordsOf<uint16_t>({7, 8, 9}))}) {
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->documents, 3);
  }
  EXPECT_THAT(All(write(8, 2, WordsOf<uint16_t>({7, 8, 9}))->tokens), ElementsAre(7, 8, 9));
  EXPECT_THAT(MessageOf(write(6, 8, std::string(24, 'x')).status()), HasSubstr("type 6"));
  EXPECT_THAT(MessageOf(CheckTokens(write(4, 4, WordsOf<int32_t>({7, -8, 9}))->tokens, 1 << 30)),
              HasSubstr("token 1 (at byte 4) is negative"));
  EXPECT_THAT(MessageOf(CheckTokens(write(5, 8, WordsOf<int64_t>({7, -8, 9}))->tokens, 1 << 30)),
              HasSubstr("negative"));
}

TEST_F(TokenFilesTest, RefusesDamagedMegatron) {
  Write("m.bin", "abcdef");
  const std::string good = MegatronIndexBytes({2, 1}, 8, 2);
  const auto open = [&](const std::string& index) {
    Write("m.idx", index);
    return MessageOf(OpenMegatronFile(dir_.Join("m")).status());
  };
  const auto changed = [&](size_t at, char to) {
    std::string bytes = good;
    bytes[at] = to;
    return bytes;
  };
  Write("m.idx", good);
  EXPECT_TRUE(OpenMegatronFile(dir_.Join("m")).ok());
  EXPECT_THAT(open(""), HasSubstr("does not begin"));
  EXPECT_THAT(open(changed(3, 'x')), HasSubstr("does not begin"));
  EXPECT_THAT(open(changed(9, 2)), HasSubstr("version 2"));
  EXPECT_THAT(open(changed(18, 3)), HasSubstr("do not make"));
  EXPECT_THAT(open(changed(25, '\x7f')), HasSubstr("do not make"));
  EXPECT_THAT(open(good.substr(0, good.size() - 1)), HasSubstr("do not make"));
  EXPECT_THAT(open(changed(37, '\x80')), HasSubstr("negative size"));
  EXPECT_THAT(open(changed(50, 9)), HasSubstr("one after another"));
  EXPECT_THAT(open(changed(66, 9)), HasSubstr("out of order"));
  EXPECT_THAT(open(MegatronIndexBytes({2, 2}, 8, 2)), HasSubstr("announces 4 tokens"));
  std::filesystem::remove(dir_.Join("m.bin"));
  Write("m.idx", good);
  EXPECT_TRUE(absl::IsNotFound(OpenMegatronFile(dir_.Join("m")).status()));
}

// As writers with NumPy 2 made it: the second sequence begins at byte 2,400,000,000.
TEST_F(TokenFilesTest, SaysThatAnOffsetWrapped) {
  std::string index = MegatronIndexBytes({600000000, 1}, 4, 4);
  index.replace(50, 8, WordsOf<int64_t>({2400000000 - (int64_t{1} << 32)}));
  Write("w.idx", index);
  Write("w.bin", "");
  EXPECT_THAT(MessageOf(OpenMegatronFile(dir_.Join("w")).status()),
              HasSubstr("sequence 1 begins at byte -1894967296 of the .bin, expected byte "
                        "2400000000: the offset wrapped at 2^31"));
}

TEST_F(TokenFilesTest, WritesWhatItReads) {
  for (const auto& [vocab, width] : {std::pair{256, 1}, {257, 2}, {65537, 4}}) {
    auto writer = MegatronWriter::Create(dir_.Join("w"), vocab).value();
    ASSERT_TRUE(writer->Append(std::vector<int32_t>{1, 255}).ok());
    ASSERT_TRUE(writer->Append(std::vector<int32_t>{3}).ok());
    ASSERT_TRUE(writer->EndDocument().ok());
    ASSERT_TRUE(writer->EndDocument().ok());
    ASSERT_TRUE(writer->Append(std::vector<int32_t>{4}).ok());
    EXPECT_FALSE(std::filesystem::exists(dir_.Join("w.bin")) && vocab == 256);
    ASSERT_TRUE(writer->Finish().ok());
    const auto file = OpenMegatronFile(dir_.Join("w"));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->tokens.width, width);
    EXPECT_EQ(file->documents, 3);
    EXPECT_THAT(All(file->tokens), ElementsAre(1, 255, 3, 4));
  }
}

TEST_F(TokenFilesTest, AnUnfinishedWriterLeavesNothing) {
  {
    auto writer = MegatronWriter::Create(dir_.Join("w"), 256).value();
    ASSERT_TRUE(writer->Append(std::vector<int32_t>{1}).ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

}  // namespace
}  // namespace longhaul
