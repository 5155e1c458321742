// What a job may specify about its data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/config/capabilities.h"
#include "common/config/data_sources.h"
#include "common/config/job_spec.h"
#include "common/config/load.h"

namespace longhaul {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr char kJob[] = R"(
name: small
model: {transformer: {layers: 4, dim: 96, heads: 4, ff_dim: 256, context: 128, vocab: 1000}}
train: {steps: 600, batch: 4}
)";

v1::JobSpec WithData(const std::string& data, const std::string& more = "") {
  return ParseJobSpec(absl::StrCat(kJob, "data: ", data, "\n", more)).value();
}

std::vector<std::string> FieldsAtFault(const v1::JobSpec& spec) {
  std::vector<SpecViolation> violations;
  (void)ResolveJobSpec(spec, &violations);
  std::vector<std::string> fields;
  for (const SpecViolation& v : violations) fields.push_back(v.field);
  return fields;
}

std::vector<std::string> DataFaults(const std::string& data, const std::string& more = "") {
  return FieldsAtFault(WithData(data, more));
}

v1::DataSpec Resolved(const std::string& data, const std::string& more = "") {
  return ResolveJobSpec(WithData(data, more)).value().spec.data();
}

constexpr char kMixture[] =
    "{mixture: {sources: [{weight: 3, jsonl: {path: a}}, {tokens: {path: b, format: llmc}}]}}";

TEST(DataTest, EachSourceIsAccepted) {
  for (const char* const data :
       {"{text: {path: x}}", "{text: {path: x, tokenizer: m.model, eos: 2}}", "{jsonl: {path: x}}",
        "{jsonl: {path: 'x/*.jsonl.zst', field: body, tokenizer: m.model, eos: -1}}",
        "{tokens: {path: x, format: llmc}}", "{megatron: {prefix: x}}", kMixture,
        "{text: {path: x}, order: epochs}",
        "{text: {path: x}, pools: [{pool: west, jsonl: {path: y}}]}"}) {
    EXPECT_THAT(DataFaults(data), IsEmpty()) << data;
  }
}

TEST(DataTest, DefaultsAreFilledInEverywhere) {
  EXPECT_EQ(Resolved("{text: {path: x}}").order(), v1::DRAWS);
  EXPECT_EQ(Resolved("{jsonl: {path: x}}").jsonl().field(), "text");
  EXPECT_EQ(Resolved("{tokens: {path: x}}").tokens().format(), v1::NANOGPT);
  const v1::DataSpec mixture = Resolved(kMixture);
  EXPECT_EQ(mixture.mixture().sources(0).jsonl().field(), "text");
  EXPECT_EQ(mixture.mixture().sources(0).weight(), 3);
  EXPECT_EQ(mixture.mixture().sources(1).weight(), 1);
  EXPECT_EQ(Resolved(absl::StrCat("{text: {path: x}, pools: [{pool: a, tokens: {path: y}}]}"))
                .pools(0)
                .tokens()
                .format(),
            v1::NANOGPT);
}

TEST(DataTest, NamesTheFieldAtFault) {
  EXPECT_THAT(DataFaults("{jsonl: {field: x}}"), ElementsAre("data.jsonl.path"));
  EXPECT_THAT(DataFaults("{megatron: {}}"), ElementsAre("data.megatron.prefix"));
  EXPECT_THAT(DataFaults("{text: {path: x, eos: 1000}}"), ElementsAre("data.text.eos"));
  EXPECT_THAT(DataFaults("{jsonl: {path: x, eos: -2}}"), ElementsAre("data.jsonl.eos"));
  EXPECT_THAT(DataFaults("{mixture: {}}"), ElementsAre("data.mixture.sources"));
  EXPECT_THAT(DataFaults("{mixture: {sources: [{weight: 1}]}}"),
              ElementsAre("data.mixture.sources[0]"));
  EXPECT_THAT(DataFaults("{mixture: {sources: [{weight: 0, text: {path: x}}, {text: {}}]}}"),
              ElementsAre("data.mixture.sources[0].weight", "data.mixture.sources[1].text.path"));
  EXPECT_THAT(
      DataFaults("{mixture: {sources: [{weight: 1e-9, text: {path: x}}, {text: {path: y}}]}}"),
      ElementsAre("data.mixture.sources[0].weight"));
  EXPECT_THAT(DataFaults("{text: {path: x}}", "pools: {names: [east], min: 1}\n"), IsEmpty());
  EXPECT_THAT(DataFaults("{text: {path: x}, pools: [{pool: East, text: {path: y}}, {pool: b}]}"),
              ElementsAre("data.pools[0].pool", "data.pools[1]"));
  EXPECT_THAT(DataFaults("{text: {path: x}, pools: [{pool: a, text: {path: y}}, "
                         "{pool: a, jsonl: {}}]}"),
              ElementsAre("data.pools[1].jsonl.path", "data.pools[1].pool"));
  EXPECT_THAT(DataFaults("{text: {path: x}, pools: [{pool: wset, text: {path: y}}]}",
                         "pools: {names: [east, west]}\n"),
              ElementsAre("data.pools[0].pool"));
}

TEST(DataTest, WhatANewerClientSendsInsideListsIsRefused) {
  v1::JobSpec spec = WithData("{pools: [{pool: a, mixture: {sources: [{tokens: {path: b}}]}}]}",
                              "pools: {names: [a]}");
  v1::WeightedSource& source =
      *spec.mutable_data()->mutable_pools(0)->mutable_mixture()->mutable_sources(0);
  source.mutable_tokens()->set_format(static_cast<v1::TokenFormat>(77));
  source.GetReflection()->MutableUnknownFields(&source)->AddVarint(99, 1);
  EXPECT_THAT(FieldsAtFault(spec),
              UnorderedElementsAre("data.pools[0].mixture.sources[0]",
                                   "data.pools[0].mixture.sources[0].tokens.format"));
}

TEST(DataTest, BytesAndTokenizersNeedTheirVocabularies) {
  v1::JobSpec spec = WithData("{jsonl: {path: x}}");
  spec.mutable_model()->mutable_transformer()->set_vocab(200);
  std::vector<SpecViolation> violations;
  (void)ResolveJobSpec(spec, &violations);
  ASSERT_THAT(violations, SizeIs(1));
  EXPECT_EQ(violations[0].field, "model.transformer.vocab");
  spec.mutable_data()->mutable_jsonl()->set_tokenizer("m.model");
  EXPECT_TRUE(ResolveJobSpec(spec).ok());
}

TEST(DataTest, AModelBringsItsTokenizer) {
  v1::JobSpec spec = WithData(
      "{mixture: {sources: [{text: {path: x}}, {jsonl: {path: y, tokenizer: bytes}}, "
      "{megatron: {prefix: z}}]}, pools: [{pool: a, jsonl: {path: x}}]}");
  v1::JobSpec filled = spec;
  FillTokenizers(filled);
  EXPECT_EQ(filled.SerializeAsString(), spec.SerializeAsString());  // The model has no folder.
  filled.mutable_model()->mutable_hf()->set_path("/base");
  FillTokenizers(filled);
  EXPECT_THAT(
      SourcesWithTokenizer(filled.data(), "model"),
      ElementsAre("data.mixture.sources[0].text.tokenizer", "data.pools[0].jsonl.tokenizer"));
  EXPECT_THAT(SourcesWithTokenizer(filled.data(), "bytes"),
              ElementsAre("data.mixture.sources[1].jsonl.tokenizer"));
  const absl::StatusOr<ResolvedJob> resolved = ResolveJobSpec(filled);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_THAT(NeedsOf(resolved->spec),
              testing::IsSupersetOf({"data:named-tokenizer", "data:hf-tokenizer"}));
  EXPECT_THAT(resolved->warnings, Contains(testing::HasSubstr("tokenizers are not compared")));
  filled.mutable_data()->set_model_tokenizer(std::string(64, 'a'));
  EXPECT_THAT(ResolveJobSpec(filled)->warnings,
              Not(Contains(testing::HasSubstr("tokenizers are not compared"))));
  filled.mutable_data()->set_model_tokenizer("a");
  EXPECT_THAT(FieldsAtFault(filled), ElementsAre("data.model_tokenizer"));
  // The folder of `init` has it, too; what becomes of it is for who sees the folder.
  v1::JobSpec begun = filled;
  begun.mutable_model()->clear_hf();
  begun.mutable_data()->clear_model_tokenizer();
  EXPECT_THAT(FieldsAtFault(begun), Contains("data.mixture.sources[0].text.tokenizer"));
  EXPECT_FALSE(HasKeptTokenizer(begun));
  begun.mutable_init()->set_folder("/models/base");
  EXPECT_THAT(FieldsAtFault(begun), testing::IsEmpty());
  EXPECT_TRUE(HasKeptTokenizer(begun));
  EXPECT_THAT(NeedsOf(ResolveJobSpec(begun)->spec), Contains("data:kept-tokenizer"));
  begun.mutable_init()->set_checkpoint("other@5");
  EXPECT_TRUE(HasKeptTokenizer(begun));
  EXPECT_THAT(FieldsAtFault(begun), testing::IsEmpty());
  // A job that was stored before it could be said is still one of bytes.
  spec.mutable_model()->mutable_hf()->set_path("/base");
  EXPECT_EQ(ResolveJobSpec(spec)->spec.data().pools(0).jsonl().tokenizer(), "");
}

TEST(DataTest, TheModelsTokenizerIsThatOfAFolder) {
  EXPECT_THAT(DataFaults("{jsonl: {path: x, tokenizer: model}}"),
              ElementsAre("data.jsonl.tokenizer"));
  EXPECT_THAT(DataFaults("{jsonl: {path: x, tokenizer: bytes}}"), IsEmpty());
}

TEST(DataTest, BytesOfALargeVocabularyAreToldOf) {
  v1::JobSpec spec = WithData("{jsonl: {path: x}}");
  spec.mutable_model()->mutable_transformer()->set_vocab(256);
  EXPECT_THAT(ResolveJobSpec(spec)->warnings,
              Not(Contains(testing::HasSubstr("data.jsonl.tokenizer"))));
  spec.mutable_model()->mutable_transformer()->set_vocab(2000);
  EXPECT_THAT(ResolveJobSpec(spec)->warnings,
              Contains(testing::HasSubstr("data.jsonl.tokenizer: none is named, so tokens are "
                                          "bytes, 256 of the 2000")));
  spec.mutable_data()->mutable_jsonl()->set_tokenizer("bytes");
  EXPECT_THAT(ResolveJobSpec(spec)->warnings,
              Not(Contains(testing::HasSubstr("data.jsonl.tokenizer"))));
}

TEST(DataTest, DocumentsOfTokenFilesAreToldByAToken) {
  for (const char* const source :
       {"text: {path: x}", "jsonl: {path: x}", "megatron: {prefix: x}",
        "tokens: {path: x, eos: 255}", "tokens: {path: x, format: llmc, bos: 0}"}) {
    EXPECT_THAT(DataFaults(absl::StrCat("{", source, ", separate_documents: true}")), IsEmpty())
        << source;
  }
  EXPECT_THAT(DataFaults("{tokens: {path: x}, separate_documents: true}"),
              ElementsAre("data.tokens.eos"));
  EXPECT_THAT(DataFaults("{mixture: {sources: [{text: {path: y}}, {tokens: {path: x}}]}, "
                         "separate_documents: true}"),
              ElementsAre("data.mixture.sources[1].tokens.eos"));
  EXPECT_THAT(DataFaults("{tokens: {path: x, eos: 1, bos: 2}}"), ElementsAre("data.tokens.bos"));
  EXPECT_THAT(DataFaults("{tokens: {path: x, eos: -1}}"), ElementsAre("data.tokens.eos"));
  EXPECT_THAT(DataFaults("{tokens: {path: x, bos: 1000}}"), ElementsAre("data.tokens.bos"));
}

TEST(DataTest, TokensAroundDocumentsAreOfTheVocabulary) {
  for (const char* const kind : {"text", "jsonl"}) {
    for (const char* const token : {"eos", "bos"}) {
      const auto faults = [&](int value) {
        return DataFaults(absl::StrCat("{", kind, ": {path: x, ", token, ": ", value, "}}"));
      };
      EXPECT_THAT(faults(-1), IsEmpty());
      EXPECT_THAT(faults(255), IsEmpty());
      EXPECT_THAT(faults(-2), ElementsAre(absl::StrCat("data.", kind, ".", token)));
      EXPECT_THAT(faults(100000), ElementsAre(absl::StrCat("data.", kind, ".", token)));
    }
  }
}

TEST(DataTest, LinesMayBeLongWithinALimit) {
  for (const int mib : {0, 1, 256})
    EXPECT_THAT(DataFaults(absl::StrCat("{jsonl: {path: x, line_mib_max: ", mib, "}}")), IsEmpty());
  for (const int mib : {-1, 257}) {
    EXPECT_THAT(DataFaults(absl::StrCat("{jsonl: {path: x, line_mib_max: ", mib, "}}")),
                ElementsAre("data.jsonl.line_mib_max"));
  }
}

TEST(DataTest, RowsWithoutTextAreRefusedOrSkipped) {
  for (const char* what : {"refuse", "skip"})
    EXPECT_THAT(DataFaults(absl::StrCat("{jsonl: {path: x, null_rows: ", what, "}}")), IsEmpty());
}

TEST(DataTest, ATokenOfDocumentsCountsWithThemOnly) {
  const auto warnings = [](const std::string& data) {
    return ResolveJobSpec(WithData(data)).value().warnings;
  };
  EXPECT_THAT(warnings("{tokens: {path: x, eos: 1}, separate_documents: true}"), IsEmpty());
  EXPECT_THAT(warnings("{tokens: {path: x, eos: 1}}"),
              ElementsAre("data.tokens.eos: counts with data.separate_documents only"));
}

TEST(DataTest, TheCommonSourceMayBeLeftOutWhenEachPoolHasItsOwn) {
  const char* const data = "{pools: [{pool: a, text: {path: x}}, {pool: b, jsonl: {path: y}}]}";
  EXPECT_THAT(DataFaults(data), ElementsAre("data"));
  EXPECT_THAT(DataFaults(data, "pools: {names: [a, b, c]}\n"), ElementsAre("data"));
  EXPECT_THAT(DataFaults(data, "pools: {names: [a, b]}\n"), IsEmpty());
  const v1::DataSpec resolved = Resolved(data, "pools: {names: [a, b]}\n");
  const auto of_b = DataSourcesOf(resolved, "b");
  ASSERT_THAT(of_b, SizeIs(1));
  EXPECT_EQ(of_b[0].field, "data.pools[1].jsonl");
  EXPECT_EQ(of_b[0].source.jsonl().path(), "y");
}

TEST(DataTest, PoolsWithoutTheirOwnReadTheCommonSource) {
  const v1::DataSpec data = Resolved(
      "{text: {path: x}, pools: [{pool: a, mixture: {sources: [{weight: 2, text: {path: "
      "y}}, {text: {path: z}}]}}]}");
  EXPECT_EQ(DataSourcesOf(data, "other")[0].field, "data.text");
  const auto of_a = DataSourcesOf(data, "a");
  ASSERT_THAT(of_a, SizeIs(2));
  EXPECT_EQ(of_a[0].field, "data.pools[0].mixture.sources[0].text");
  EXPECT_EQ(of_a[0].source.weight(), 2);
  EXPECT_EQ(of_a[1].source.weight(), 1);
  EXPECT_THAT(AllDataSources(data), SizeIs(3));
}

TEST(DataTest, RefusesPathsWhoseNamesSayThatTheyAreSomethingElse) {
  for (const char* const name :
       {"a/*.jsonl.zst", "b.parquet", "tokenizer.json", "/m/tokenizer.model", "c.idx", "d.tar.gz",
        "e.npy", "f.safetensors"}) {
    const std::string text = absl::StrCat("{text: {path: '", name, "'}}");
    EXPECT_THAT(DataFaults(text), ElementsAre("data.text.path")) << name;
    EXPECT_THAT(DataFaults(absl::StrCat("{text: {path: '", name, "', as_is: true}}")), IsEmpty());
    EXPECT_THAT(DataFaults(absl::StrCat("{tokens: {path: '", name, "'}}")),
                ElementsAre("data.tokens.path"));
  }
  EXPECT_THAT(DataFaults("{jsonl: {path: a.parquet}}"), ElementsAre("data.jsonl.path"));
  EXPECT_THAT(DataFaults("{jsonl: {path: a.txt}}"), IsEmpty());
}

TEST(DataTest, ChecksWidthAndControlTokens) {
  EXPECT_THAT(DataFaults("{tokens: {path: x, width: 32}}"), IsEmpty());
  EXPECT_THAT(DataFaults("{tokens: {path: x, width: 4}}"), ElementsAre("data.tokens.width"));
  EXPECT_THAT(DataFaults("{tokens: {path: x, width: 32, format: llmc}}"),
              ElementsAre("data.tokens.width"));
  EXPECT_THAT(DataFaults("{text: {path: x, tokenizer: /m, control_tokens: true}}"), IsEmpty());
  EXPECT_THAT(DataFaults("{text: {path: x, tokenizer: m.model, control_tokens: true}}"),
              ElementsAre("data.text.control_tokens"));
  EXPECT_THAT(DataFaults("{jsonl: {path: x, control_tokens: true}}"),
              ElementsAre("data.jsonl.control_tokens"));
}

TEST(DataTest, ChatIsRenderedByATokenizerJson) {
  EXPECT_THAT(DataFaults("{chat: {path: x, tokenizer: /m}}"), IsEmpty());
  EXPECT_THAT(DataFaults("{chat: {path: x, tokenizer: /m, chat_template: t.jinja, pack: true, "
                         "line_mib_max: 256}, separate_documents: true}"),
              IsEmpty());
  EXPECT_THAT(DataFaults("{chat: {path: x}}"), ElementsAre("data.chat.tokenizer"));
  for (const char* const tokenizer : {"bytes", "m.model", "a/tokenizer.model"}) {
    EXPECT_THAT(DataFaults(absl::StrCat("{chat: {path: x, tokenizer: ", tokenizer, "}}")),
                ElementsAre("data.chat.tokenizer"));
  }
  EXPECT_THAT(DataFaults("{chat: {tokenizer: /m}}"), ElementsAre("data.chat.path"));
  EXPECT_THAT(DataFaults("{chat: {path: a.parquet, tokenizer: /m}}"),
              ElementsAre("data.chat.path"));
  EXPECT_THAT(DataFaults("{chat: {path: x, tokenizer: /m, pack: true}}"),
              ElementsAre("data.chat.pack"));
  EXPECT_THAT(DataFaults("{chat: {path: x, tokenizer: /m, line_mib_max: 257}}"),
              ElementsAre("data.chat.line_mib_max"));
  EXPECT_THAT(DataFaults("{chat: {path: x, tokenizer: /m}, model_chat_template: x}"),
              ElementsAre("data.model_chat_template"));
  // Its vocabulary is that of the tokenizer, also below 256.
  v1::JobSpec spec = WithData("{chat: {path: x, tokenizer: /m}}");
  spec.mutable_model()->mutable_transformer()->set_vocab(200);
  EXPECT_TRUE(ResolveJobSpec(spec).ok());
}

TEST(DataTest, ChatIsASourceLikeOthers) {
  v1::JobSpec spec = WithData(
      "{mixture: {sources: [{chat: {path: x}}, {chat: {path: y, tokenizer: model, chat_template: "
      "t}}, {text: {path: z}}]}, pools: [{pool: a, chat: {path: x, tokenizer: /m}}]}");
  spec.mutable_model()->mutable_hf()->set_path("/base");
  FillTokenizers(spec);
  const absl::StatusOr<ResolvedJob> resolved = ResolveJobSpec(spec);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_THAT(NeedsOf(resolved->spec),
              testing::IsSupersetOf({"data:chat", "data:hf-tokenizer", "data:named-tokenizer"}));
  const std::vector<DataSource> sources = AllDataSources(spec.data());
  ASSERT_THAT(sources, SizeIs(4));
  EXPECT_EQ(sources[0].field, "data.mixture.sources[0].chat");
  EXPECT_EQ(sources[3].field, "data.pools[0].chat");
  EXPECT_TRUE(ReadsModelTemplate(sources[0].source));
  for (const int other : {1, 2, 3}) EXPECT_FALSE(ReadsModelTemplate(sources[other].source));
}

TEST(DataTest, NeedsNameEverythingThatAnOlderWorkerWouldNotSee) {
  const auto needs = [](const std::string& data) {
    return NeedsOf(ResolveJobSpec(WithData(data)).value().spec);
  };
  EXPECT_THAT(needs("{text: {path: x}}"), Contains("data:text"));
  EXPECT_THAT(needs("{text: {path: x}}"), Not(Contains("data:pools")));
  for (const char* const need : {"data:jsonl", "data:tokens", "data:llmc", "data:mixture"})
    EXPECT_THAT(needs(kMixture), Contains(need));
  EXPECT_THAT(needs("{text: {path: x, tokenizer: m}, order: epochs}"),
              testing::IsSupersetOf({"data:sentencepiece", "data:epochs"}));
  EXPECT_THAT(needs("{jsonl: {path: x, tokenizer: /m/tokenizer.json}}"),
              Contains("data:hf-tokenizer"));
  // Its folder may hold a tokenizer.json; the name of a SentencePiece model tells that it is one.
  EXPECT_THAT(needs("{text: {path: x, tokenizer: /models/base}}"),
              testing::IsSupersetOf({"data:sentencepiece", "data:hf-tokenizer"}));
  EXPECT_THAT(needs("{text: {path: x, tokenizer: /m/tokenizer.model}}"),
              Not(Contains("data:hf-tokenizer")));
  for (const char* const kind : {"text", "jsonl"}) {
    EXPECT_THAT(needs(absl::StrCat("{", kind, ": {path: x, bos: 1}}")), Contains("data:bos"));
    EXPECT_THAT(needs(absl::StrCat("{", kind, ": {path: x}}")), Not(Contains("data:bos")));
  }
  EXPECT_THAT(needs("{tokens: {path: x, width: 32}}"), Contains("data:width"));
  EXPECT_THAT(needs("{tokens: {path: x, width: 16}}"), Not(Contains("data:width")));
  EXPECT_THAT(needs("{jsonl: {path: x, null_rows: skip}}"), Contains("data:null-rows"));
  EXPECT_THAT(needs("{jsonl: {path: x, null_rows: refuse}}"), Not(Contains("data:null-rows")));
  EXPECT_THAT(needs("{jsonl: {path: x, tokenizer: m.json, control_tokens: true}}"),
              Contains("data:control-tokens"));
  EXPECT_THAT(needs("{chat: {path: x, tokenizer: /m}}"),
              testing::AllOf(testing::IsSupersetOf({"data:chat", "data:hf-tokenizer"}),
                             Not(Contains("data:sentencepiece"))));
  EXPECT_THAT(needs("{text: {path: x}, separate_documents: true}"),
              Contains("data:separate-documents"));
  EXPECT_THAT(needs("{text: {path: x}, pools: [{pool: a, megatron: {prefix: y}}]}"),
              testing::IsSupersetOf({"data:pools", "data:megatron", "data:text"}));
}

}  // namespace
}  // namespace longhaul
