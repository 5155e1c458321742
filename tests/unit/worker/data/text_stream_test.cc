#include "worker/data/text_stream.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/testing/temp_dir.h"
#include "tests/unit/worker/data/piece_model.h"
#include "worker/data/tokenizer.h"

namespace longhaul {
namespace {

// What each token brings, and what comes at the end.
std::vector<std::string> Streamed(Tokenizer& tokenizer, const std::vector<int64_t>& before,
                                  const std::vector<int32_t>& tokens) {
  TextStream stream(&tokenizer, before);
  std::vector<std::string> parts;
  for (const int32_t token : tokens) {
    auto part = stream.Append(token);
    EXPECT_TRUE(part.ok()) << part.status();
    parts.push_back(*std::move(part));
  }
  auto rest = stream.Finish();
  EXPECT_TRUE(rest.ok()) << rest.status();
  parts.push_back(*std::move(rest));
  return parts;
}

std::string Joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += part;
  return text;
}

class TextStreamTest : public testing::Test {
 protected:
  std::vector<int32_t> Encoded(const std::string& text) {
    std::vector<std::vector<int32_t>> tokens;
    EXPECT_TRUE(tokenizer_->Encode({text}, tokens).ok());
    return tokens[0];
  }

  TempDir dir_;
  std::unique_ptr<Tokenizer> tokenizer_ = *StartPieceTokenizer(
      {.model = TrainPieceModel(dir_.Join("pieces")), .program = LONGHAUL_SENTENCEPIECE});
};

TEST_F(TextStreamTest, GivesTheTextOfTheWhole) {
  const std::string text = "the river answers the old garden \xC3\xBC\xE2\x82\xAC number 42";
  EXPECT_EQ(*tokenizer_->Decode(Encoded(text)), text);
  EXPECT_EQ(Joined(Streamed(*tokenizer_, {}, Encoded(text))), text);
}

TEST_F(TextStreamTest, ACharacterComesWhole) {
  // Its bytes are tokens of their own.
  const std::vector<std::string> parts = Streamed(*tokenizer_, {}, Encoded("\xE2\x82\xAC"));
  EXPECT_EQ(Joined(parts), "\xE2\x82\xAC");
  for (const std::string& part : parts) EXPECT_NE(part.size(), 1u);
  // What never becomes one is told in the end.
  EXPECT_FALSE(Joined(Streamed(*tokenizer_, {}, {Encoded("\xE2\x82\xAC").back()})).empty());
}

TEST_F(TextStreamTest, KeepsTheSpaceBehindAPrompt) {
  const std::vector<int32_t> prompt = Encoded("the river");
  const std::vector<int32_t> both = Encoded("the river answers");
  const std::vector<int32_t> rest(both.begin() + prompt.size(), both.end());
  EXPECT_EQ(Joined(Streamed(*tokenizer_, {prompt.begin(), prompt.end()}, rest)), " answers");
}

TEST_F(TextStreamTest, TokensThatThereAreNotAreLeftOut) {
  EXPECT_EQ(*tokenizer_->Decode({100000}), "");
  EXPECT_EQ(Joined(Streamed(*MakeByteTokenizer(), {}, {'a', 256, 'b'})), "ab");
}

}  // namespace
}  // namespace longhaul
