// Conversations as rows with a loss mask.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/status_marks.h"
#include "tests/testing/fake_chat_renderer.h"
#include "tests/testing/temp_dir.h"
#include "tests/unit/worker/data/data_files.h"
#include "worker/data/chat_rows.h"
#include "worker/data/data_check.h"
#include "worker/data/data_sample.h"
#include "worker/data/source.h"
#include "worker/data/token_batches.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ChatTest : public testing::Test {
 protected:
  SourceOptions Source(const std::string& text, int64_t row_tokens = 6) {
    WriteBytes(dir_.Join("chat.jsonl"), text);
    return {.kind = SourceKind::kChat,
            .path = dir_.Join("chat.jsonl"),
            .tokenizer = renderer_.model(),
            .row_tokens = row_tokens};
  }
  absl::StatusOr<std::unique_ptr<Dataset>> Open(const SourceOptions& source, int64_t vocab = 128) {
    warnings_.clear();
    return OpenSource(source, vocab,
                      {.folder = dir_.Join("work"), .on_warning = [&](const DataWarning& warning) {
                         warnings_.push_back(warning.message);
                       }});
  }
  // The rows as text, with "." as filling, each with its mask below.
  static std::vector<std::string> Rows(const Dataset& data) {
    std::vector<int64_t> tokens(data.tokens()), mask(data.tokens());
    EXPECT_TRUE(data.Read(0, absl::MakeSpan(tokens)).ok());
    EXPECT_TRUE(data.ReadMask(0, absl::MakeSpan(mask)).ok());
    std::vector<std::string> rows;
    for (int64_t row = 0; row < data.tokens() / data.row(); ++row) {
      std::string text, counts;
      for (int64_t i = row * data.row(); i < (row + 1) * data.row(); ++i) {
        text.push_back(tokens[i] == 0 ? '.' : static_cast<char>(tokens[i]));
        counts.push_back(mask[i] == 0 ? ' ' : '^');
      }
      rows.push_back(absl::StrCat(text, " ", counts));
    }
    return rows;
  }
  static std::vector<int64_t> StartsOf(const Dataset& data) {
    std::vector<int64_t> starts;
    EXPECT_TRUE(data.AppendDocumentStarts(0, data.tokens(), starts).ok());
    return starts;
  }

  TempDir dir_;
  const FakeChatRenderer renderer_;
  std::vector<std::string> warnings_;
};

TEST_F(ChatTest, AConversationIsARow) {
  const auto data = Open(Source("abCD\n\nABcdEF\n xY \n"));
  ASSERT_TRUE(data.ok()) << data.status();
  // Nothing predicts a first token.
  EXPECT_THAT(Rows(**data), ElementsAre("abCD..   ^^  ", "ABcdEF  ^  ^^", "xY....  ^    "));
  EXPECT_THAT(StartsOf(**data), ElementsAre(0, 4, 6, 12, 14));
  EXPECT_EQ((*data)->row(), 6);
  EXPECT_TRUE((*data)->masked());
  EXPECT_THAT(warnings_, IsEmpty());
  for (int64_t part = 1; part <= 18; ++part) {
    std::vector<int64_t> joined, mask(18), whole(18);
    ASSERT_TRUE((*data)->ReadMask(0, absl::MakeSpan(whole)).ok());
    for (int64_t first = 0; first < 18; first += part) {
      const int64_t count = std::min(part, 18 - first);
      ASSERT_TRUE((*data)->AppendDocumentStarts(first, first + count, joined).ok());
      ASSERT_TRUE((*data)->ReadMask(first, absl::MakeSpan(mask).subspan(first, count)).ok());
    }
    EXPECT_EQ(joined, StartsOf(**data)) << part;
    EXPECT_EQ(mask, whole) << part;
  }
}

TEST_F(ChatTest, LongConversationsAreCutAndThoseWithoutATargetLeftOut) {
  const SourceOptions source = Source("abcdeFGH\nabcdefGH\nnone\nA\nabCD\n");
  const auto data = Open(source);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(Rows(**data), ElementsAre("abcdeF      ^", "abCD..   ^^  "));
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("2 of 5 conversations are longer than"),
                                     HasSubstr("3 of 5 conversations are left out")));
  // Also at a later start, which makes no rows.
  const std::vector<std::string> first = warnings_;
  ASSERT_TRUE(Open(source).ok());
  EXPECT_EQ(warnings_, first);
  const auto none = Open(Source("abcdefGH\nnone\n"));
  EXPECT_TRUE(absl::IsInvalidArgument(none.status()));
  EXPECT_THAT(std::string(none.status().message()),
              HasSubstr("holds no conversation with a token on which the loss is: 2 conversations, "
                        "of which 2 have none among their first 6 tokens"));
}

TEST_F(ChatTest, PackedRowsHaveWholeConversations) {
  SourceOptions source = Source("abCD\nefgH\nxY\niJ\nabcDE\nkLM\nnO\n");
  source.pack = true;
  const auto data = Open(source);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(Rows(**data),
              ElementsAre("abCDxY   ^^ ^", "efgHiJ    ^ ^", "abcDE.    ^^ ", "kLMnO.  ^^ ^ "));
  EXPECT_THAT(StartsOf(**data), ElementsAre(0, 4, 6, 10, 12, 17, 18, 21, 23));
}

// More rows have room than are kept open.
TEST_F(ChatTest, PackingIsBounded) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "abcdE\n";
  for (int i = 0; i < 300; ++i) text += "xY\n";
  SourceOptions source = Source(text);
  source.pack = true;
  const auto data = Open(source);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->tokens(), 6 * (300 + 100));
}

TEST_F(ChatTest, ALineThatCannotBeRenderedIsNamed) {
  const auto data = Open(Source("abCD\n\n!has no content\nabCD\n"));
  EXPECT_TRUE(absl::IsInvalidArgument(data.status()));
  EXPECT_EQ(data.status().message(),
            absl::StrCat(dir_.Join("chat.jsonl"), ": line 3: has no content"));
  EXPECT_FALSE(IsOfTokenizer(data.status()));
  const auto large = Open(Source("abCD\nefGH\n"), 127);
  EXPECT_THAT(std::string(large.status().message()), HasSubstr("has 128 tokens"));
  SourceOptions source = Source("abCD\n");
  source.tokenizer = dir_.Join("none");
  EXPECT_TRUE(absl::IsNotFound(Open(source).status()));
  EXPECT_TRUE(IsOfTokenizer(Open(source).status()));
  WriteBytes(dir_.Join("m.model"), "x");
  source.tokenizer = dir_.Join("m.model");
  EXPECT_THAT(std::string(Open(source).status().message()), HasSubstr("needs a tokenizer.json"));
}

TEST_F(ChatTest, RowsAreKeptUntilSomethingChanges) {
  const SourceOptions source = Source("abCD\nxY\n");
  const auto made = [&](const SourceOptions& of) {
    const auto data = Open(of);
    EXPECT_TRUE(data.ok()) << data.status();
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir_.Join("work")))
      if (entry.path().extension() == ".mask") names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  };
  const auto first = made(source);
  EXPECT_EQ(first.size(), 1u);
  EXPECT_EQ(made(source), first);
  SourceOptions other = source;
  other.pack = true;
  EXPECT_EQ(made(other).size(), 2u);
  other.row_tokens = 8;
  EXPECT_EQ(made(other).size(), 3u);
  WriteBytes(renderer_.model() + "/chat_template.jinja", "x");
  const auto of_template = made(source);
  EXPECT_EQ(of_template.size(), 3u);
  EXPECT_THAT(of_template, testing::Not(testing::Contains(first[0])));
  WriteBytes(dir_.Join("other.jinja"), "x");
  other.chat_template = dir_.Join("other.jinja");
  EXPECT_EQ(made(other).size(), 4u);
  EXPECT_THAT(renderer_.commands(),
              HasSubstr("--chat --chat-template " + dir_.Join("other.jinja")));
  // A mask that is gone, or of another length, is made again.
  for (const auto& entry : fs::directory_iterator(dir_.Join("work")))
    if (entry.path().extension() == ".mask") fs::resize_file(entry.path(), 1);
  EXPECT_EQ(Rows(*Open(source).value()).size(), 2u);
}

TEST_F(ChatTest, AMaskThatIsCutIsAnErrorWithItsName) {
  const auto data = Open(Source("abCD\nxY\n")).value();
  for (const auto& entry : fs::directory_iterator(dir_.Join("work")))
    if (entry.path().extension() == ".mask") fs::resize_file(entry.path(), 1);
  std::vector<int64_t> mask(12);
  const absl::Status cut = data->ReadMask(0, absl::MakeSpan(mask));
  EXPECT_TRUE(absl::IsDataLoss(cut)) << cut;
  EXPECT_THAT(std::string(cut.message()), HasSubstr(".mask ends at byte"));
}

TEST_F(ChatTest, ASampleTellsAnotherMask) {
  const auto sample = [&](const char* text) {
    return SampleOf(*Open(Source(text)).value()).value();
  };
  EXPECT_EQ(sample("abCD\n"), sample("abCD\n"));
  // The tokens of both are the same.
  EXPECT_NE(sample("ABcD\n"), sample("abcD\n"));
}

// A batch of two sources, of which one counts all targets; ranks agree on the number.
TEST_F(ChatTest, BatchesHaveTheMaskAndTheNumberOfTargetsOfThePool) {
  WriteBytes(dir_.Join("plain"), std::string(60, 'p'));
  std::string text;
  for (int i = 0; i < 40; ++i) text += i % 2 == 0 ? "abcdEF\n" : "xyZ\n";
  const auto make = [&](int rank, int ranks) {
    std::vector<std::unique_ptr<Dataset>> sets;
    sets.push_back(Open(Source(text)).value());
    sets.push_back(OpenSource({.path = dir_.Join("plain")}, 128, {}).value());
    ExamplePlan::Options plan{.context = 5, .batch = 7, .eval_fraction = 0.25, .seed = 5};
    for (const auto& set : sets)
      plan.sources.push_back({.name = "s", .tokens = set->tokens(), .row = set->row()});
    return TokenBatches({.context = 5, .batch = 7, .rank = rank, .ranks = ranks}, std::move(sets),
                        ExamplePlan::Create(plan).value());
  };
  const TokenBatches whole = make(0, 1);
  // More ranks than examples.
  std::vector<std::unique_ptr<TokenBatches>> ranks;
  for (int rank = 0; rank < 9; ++rank) ranks.emplace_back(new TokenBatches(make(rank, 9)));
  const auto check = [](const ExampleBatch& batch) {
    const auto tokens = batch.Values("tokens"), mask = batch.Values("loss_mask");
    EXPECT_TRUE(batch.Values("document_starts").empty());
    EXPECT_EQ(static_cast<int64_t>(mask.size()), batch.examples * 5);
    int64_t targets = 0;
    for (int64_t i = 0; i < batch.examples; ++i) {
      const bool plain = tokens[6 * i] == 'p';
      for (int64_t t = 0; t < 5; ++t) {
        const int64_t target = tokens[6 * i + t + 1];
        EXPECT_EQ(mask[5 * i + t], plain || (target > 0 && target < 'a') ? 1 : 0);
        targets += mask[5 * i + t];
      }
    }
    return targets;
  };
  std::set<int64_t> numbers;
  for (int64_t step = 1; step <= 20; ++step) {
    const ExampleBatch batch = whole.Make(step).value();
    EXPECT_EQ(check(batch), batch.pool_weight);
    numbers.insert(batch.pool_weight);
    int64_t sum = 0;
    for (const auto& rank : ranks) {
      const ExampleBatch part = rank->Make(step).value();
      EXPECT_EQ(part.pool_weight, batch.pool_weight);
      sum += check(part);
    }
    EXPECT_EQ(sum, batch.pool_weight);
  }
  EXPECT_GT(numbers.size(), 2u);
  int64_t held_out = 0;
  for (int64_t index = 0; index < 3; ++index)
    held_out += check(whole.MakeHeldOut(index, 3).value());
  EXPECT_EQ(whole.HeldOutWeight(3).value(), held_out);
  EXPECT_EQ(make(1, 2).HeldOutWeight(3).value(), held_out);
}

TEST_F(ChatTest, ACheckCountsWhatTheLossIsOn) {
  WriteBytes(dir_.Join("c.jsonl"), "abCD\n!is odd\nnone\nABcdEFG\n");
  DataCheckOptions options{.kind = SourceKind::kChat, .tokenizer = renderer_.model()};
  const auto reports = CheckData(dir_.Join("c.jsonl"), options);
  ASSERT_TRUE(reports.ok()) << reports.status();
  const DataReport& report = reports->front();
  ASSERT_TRUE(report.chat.has_value());
  EXPECT_EQ(KindName(report.kind), "chat");
  EXPECT_EQ(report.documents, 4);
  EXPECT_EQ(report.tokens, 15);
  EXPECT_EQ(report.chat->targets, 2 + 0 + 4);
  EXPECT_EQ(report.chat->without_targets, 1);
  EXPECT_EQ(report.chat->longest, 7);
  EXPECT_THAT(report.problems, ElementsAre(dir_.Join("c.jsonl") + ": line 2: is odd"));
  options.tokenizer.clear();
  EXPECT_THAT(std::string(CheckData(dir_.Join("c.jsonl"), options).status().message()),
              HasSubstr("is chat: give --tokenizer"));
  options.tokenizer = renderer_.model();
  WriteBytes(dir_.Join("c.jsonl"), "none\n");
  EXPECT_THAT(CheckData(dir_.Join("c.jsonl"), options)->front().problems,
              ElementsAre(HasSubstr("no conversation has a token on which the loss is")));
}

TEST_F(ChatTest, ACheckTellsChatByItsMessages) {
  const auto kind = [&](const std::string& line) {
    WriteBytes(dir_.Join("d.jsonl"), line + "\n");
    return CheckData(dir_.Join("d.jsonl"), {.tokenizer = renderer_.model()})->front().kind;
  };
  EXPECT_EQ(kind(R"({"messages": [{"role": "user", "content": "A"}]})"), SourceKind::kChat);
  EXPECT_EQ(kind(R"({"id": 1, "conversations": []})"), SourceKind::kChat);
}

}  // namespace
}  // namespace longhaul
