#include "common/config/load.h"

#include "absl/strings/str_cat.h"
#include "common/config/job_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::vector<SpecViolation> Violations(const std::string& text,
                                      const std::vector<std::string>& overrides = {}) {
  std::vector<SpecViolation> violations;
  const auto spec = ParseJobSpec(text, overrides, &violations);
  EXPECT_EQ(spec.ok(), violations.empty());
  EXPECT_EQ(spec.status().code(),
            violations.empty() ? absl::StatusCode::kOk : absl::StatusCode::kInvalidArgument);
  return violations;
}

auto At(const std::string& field, const std::string& description, const std::string& hint = "") {
  return AllOf(Field(&SpecViolation::field, field),
               Field(&SpecViolation::description, HasSubstr(description)),
               Field(&SpecViolation::hint, HasSubstr(hint)));
}

TEST(LoadTest, AWrongValueIsShownAsItWasWritten) {
  EXPECT_THAT(Violations("name: a\ntrain: {steps: j\u00f6b}"),
              ElementsAre(At("train.steps", "'j\u00f6b'")));
  std::vector<SpecViolation> violations;
  const auto spec = ParseJobSpec("name: j\u00f6b-\u4efb\u52a1\u202e");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_FALSE(ResolveJobSpec(*spec, &violations).ok());
  EXPECT_THAT(violations, testing::Contains(At("name", "'j\u00f6b-\u4efb\u52a1\\xe2\\x80\\xae'")));
}

TEST(LoadTest, ReadsNaturalYaml) {
  const v1::JobSpec spec = ParseJobSpec(R"(
# A comment.
name: a
train: {seed: 18446744073709551615, device: cuda, steps: 1e3}
inner: {adamw: {lr: 4e-3}}
sync: {h: 30, tau: 0, alpha: 0.5, fragments: {layers: 3, order: strided}, up: {codec: e3m0}}
pools:
  names: [east, west]
)")
                               .value();
  EXPECT_EQ(spec.name(), "a");
  EXPECT_EQ(spec.train().seed(), 18446744073709551615u);
  EXPECT_EQ(spec.train().device(), v1::CUDA);
  EXPECT_EQ(spec.train().steps(), 1000);
  EXPECT_EQ(spec.inner().adamw().lr(), 4e-3);
  EXPECT_TRUE(spec.sync().has_tau());
  EXPECT_EQ(spec.sync().fragments().order(), v1::STRIDED);
  EXPECT_EQ(spec.sync().up().codec(), v1::E3M0);
  EXPECT_THAT(spec.pools().names(), ElementsAre("east", "west"));
}

TEST(LoadTest, ReadsProtoJson) {
  const v1::JobSpec spec =
      ParseJobSpec(R"({"name": "a", "train": {"steps": "6000"}, "sync": {"finalRound": false,
                       "up": {"codec": "BF16"}}})")
          .value();
  EXPECT_EQ(spec.train().steps(), 6000);
  EXPECT_TRUE(spec.sync().has_final_round());
  EXPECT_EQ(spec.sync().up().codec(), v1::BF16);
}

TEST(LoadTest, EmptyDocumentAndNullsAreLeftOut) {
  EXPECT_THAT(Violations(""), IsEmpty());
  EXPECT_FALSE(ParseJobSpec("sync:\nname: ~\n").value().has_sync());
}

TEST(LoadTest, OverridesReplaceValuesAndMakeGroups) {
  const v1::JobSpec spec =
      ParseJobSpec("sync: {h: 30}\nname: a",
                   {"sync.h=100", "model.transformer.layers=6", "sync.up.codec=bf16",
                    "pools.names=[x, y]", "sync.down={codec: fp32}", "data.text.path=/a, b#c"})
          .value();
  EXPECT_EQ(spec.sync().h(), 100);
  EXPECT_EQ(spec.model().transformer().layers(), 6);
  EXPECT_EQ(spec.sync().up().codec(), v1::BF16);
  EXPECT_EQ(spec.sync().down().codec(), v1::FP32);
  EXPECT_EQ(spec.pools().names_size(), 2);
  EXPECT_EQ(spec.data().text().path(), "/a, b#c");
}

TEST(LoadTest, AnOverrideOfATextFieldIsThatText) {
  for (const char* const text : {"[old] corpus",
                                 "/a/[old] b",
                                 "Vol: 1",
                                 "{draft}",
                                 "- dash",
                                 "*",
                                 "&a",
                                 "!b",
                                 "%c",
                                 "@d",
                                 "`e",
                                 "|",
                                 ">",
                                 "a #1",
                                 "# b",
                                 "a=b",
                                 "trailing ",
                                 " leading",
                                 "2026",
                                 "007",
                                 "1e3",
                                 "0x1f",
                                 "true",
                                 "no",
                                 "null",
                                 "~",
                                 ".inf",
                                 "2001-01-01",
                                 "it's",
                                 "a\\b",
                                 "ünï",
                                 "a: [",
                                 "?",
                                 ":",
                                 "line\nfeed",
                                 "<<"}) {
    const auto spec = ParseJobSpec("name: a", {absl::StrCat("data.text.path=", text)});
    ASSERT_TRUE(spec.ok()) << text << ": " << spec.status();
    EXPECT_EQ(spec->data().text().path(), text);
  }
  const auto path = [](const char* value) {
    return ParseJobSpec("name: a", {absl::StrCat("data.text.path=", value)})
        .value()
        .data()
        .text()
        .path();
  };
  EXPECT_EQ(path(R"("a\tb")"), "a\tb");
  EXPECT_EQ(path("'2026'"), "2026");
  // As by null in YAML text before: the field counts as left out.
  EXPECT_EQ(path(""), "");
}

TEST(LoadTest, OverrideReplacesAnotherMemberOfTheOneof) {
  const std::string text = "data: {text: {path: a}}\nsync: {finalRound: true}";
  const v1::JobSpec spec =
      ParseJobSpec(text, {"data.tokens.path=b", "sync.final_round=false"}).value();
  EXPECT_EQ(spec.data().tokens().path(), "b");
  EXPECT_FALSE(spec.sync().final_round());
}

TEST(LoadTest, RefusesMalformedOverrides) {
  EXPECT_THAT(Violations("", {"sync.h"}), ElementsAre(At("", "expected path=value")));
  EXPECT_THAT(Violations("", {"sync..h=1"}), ElementsAre(At("sync..h", "empty name")));
  EXPECT_THAT(Violations("name: a", {"name.x=1"}), ElementsAre(At("name.x", "not a group")));
  EXPECT_THAT(Violations("", {"pools.names=[a"}),
              ElementsAre(At("pools.names", "not one YAML value")));
  EXPECT_THAT(Violations("", {"sync.hh=1"}), ElementsAre(At("sync.hh", "unknown field", "'h'")));
}

TEST(LoadTest, ReportsEveryMistakeWithItsPathAndTheNearestName) {
  EXPECT_THAT(Violations(R"(
nmae: a
sync: {tua: 1, h: fast, alpha: [1], up: {codec: e3m1}, final_round: 1, mode: 3}
train: {steps: 1.5, batch: 3000000000}
model: {transformer: {layers: four}, synthetic: {units: 1}}
pools: {names: west}
data: 7
)"),
              UnorderedElementsAre(
                  At("nmae", "unknown field", "'name'"), At("sync.tua", "unknown field", "'tau'"),
                  At("sync.h", "found text 'fast', expected a whole number"),
                  At("sync.alpha", "found a list, expected a finite number"),
                  At("sync.up.codec", "found text 'e3m1', expected fp32, bf16, e3m0", "'e3m0'"),
                  At("sync.final_round", "found 1, expected true or false"),
                  At("sync.mode", "found 3, expected a name"),
                  At("train.steps", "found 1.5, expected a whole number"),
                  At("train.batch", "found 3000000000, expected a whole number of 32 bits"),
                  At("model.transformer.layers", "found text 'four'"),
                  At("model", "found both transformer and synthetic"),
                  At("pools.names", "found text 'west', expected a list"),
                  At("data", "found 7, expected a group of fields", "data.text")));
}

TEST(LoadTest, AFieldInTheWrongGroupIsNamedWhereItBelongs) {
  EXPECT_THAT(Violations("batch: 4"),
              ElementsAre(At("batch", "unknown field", "did you mean 'train.batch'?")));
  EXPECT_THAT(Violations("sync: {codec: int8}"),
              ElementsAre(At("sync.codec", "unknown field",
                             "did you mean one of sync.up.codec, sync.down.codec?")));
  EXPECT_THAT(Violations("train: {lr: 1}"),
              ElementsAre(At("train.lr", "unknown field", "inner.adamw.lr, ")));
  EXPECT_THAT(Violations("sync: {lr: 1}"),
              ElementsAre(At("sync.lr", "unknown field", "did you mean 'sync.outer.lr'?")));
  // A name near by comes first; one that nothing has is told what there is.
  EXPECT_THAT(Violations("sync: {tua: 1}"), ElementsAre(At("sync.tua", "unknown field", "'tau'")));
  EXPECT_THAT(Violations("sync: {seconds: 1}"),
              ElementsAre(At("sync.seconds", "unknown field", "one of mode, h, tau")));
}

TEST(LoadTest, KeepsTextAndNumbersApart) {
  EXPECT_THAT(Violations("name: 123"), ElementsAre(At("name", "found 123", "quotes")));
  EXPECT_THAT(Violations("name: '123'"), IsEmpty());
  EXPECT_THAT(Violations("name: true"), ElementsAre(At("name", "found true, expected text")));
  EXPECT_THAT(Violations("train: {steps: ' 100'}"),
              ElementsAre(At("train.steps", "found text ' 100', expected a whole number")));
  EXPECT_THAT(Violations("sync: {alpha: .nan}"),
              ElementsAre(At("sync.alpha", "found text '.nan'")));
  EXPECT_THAT(Violations("sync: {alpha: 1e999}"), ElementsAre(At("sync.alpha", "1e999")));
  EXPECT_THAT(Violations("train: {seed: -1}"), ElementsAre(At("train.seed", "not negative")));
  EXPECT_THAT(Violations("train: {steps: 9223372036854775808}"),
              ElementsAre(At("train.steps", "64 bits")));
  EXPECT_THAT(Violations("train: {steps: 9223372036854775807}"), IsEmpty());
}

TEST(LoadTest, RefusesAZeroThatWouldMeanAnotherDefault) {
  EXPECT_THAT(Violations("pools: {min: 0}"),
              ElementsAre(At("pools.min", "found 0", "leave the field out for its default, 1")));
  EXPECT_THAT(Violations("sync: {h: 0}"), ElementsAre(At("sync.h", "found 0", "30")));
  // Defaults that depend on other fields.
  EXPECT_THAT(Violations("evaluation: {pools_every_cycles: 0}"),
              ElementsAre(At("evaluation.pools_every_cycles", "found 0",
                             "its default, that of evaluation.every_cycles")));
  EXPECT_THAT(Violations("model: {transformer: {kv_heads: 0}}"),
              ElementsAre(At("model.transformer.kv_heads", "found 0", "that of heads")));
  EXPECT_THAT(
      Violations("model: {transformer: {rope_scaling: {llama3: {low_freq_factor: 0}}}}"),
      ElementsAre(At("model.transformer.rope_scaling.llama3.low_freq_factor", "found 0", "1")));
  EXPECT_THAT(Violations("sync: {mode: quorum, quorum: {pools: 0}}"),
              ElementsAre(At("sync.quorum.pools", "found 0", "that of pools.min")));
  EXPECT_THAT(Violations("sync: {tau: 0}\ntrain: {seed: 0}"), IsEmpty());
}

TEST(LoadTest, RefusesEnumZeroByName) {
  EXPECT_THAT(Violations("sync: {up: {codec: codec_unspecified}}"),
              ElementsAre(At("sync.up.codec", "codec_unspecified")));
}

TEST(LoadTest, RefusesWhatIsNotOneYamlDocument) {
  EXPECT_THAT(Violations("name: [a"), ElementsAre(At("", "not YAML")));
  EXPECT_THAT(Violations("a: 1\n b: 2"), ElementsAre(At("", "line 2")));
  EXPECT_THAT(Violations("sync:\n\th: 3"), ElementsAre(At("", "not YAML", "not by tabs")));
  EXPECT_THAT(Violations("name: a\n\tsync: 1"), ElementsAre(At("", "not YAML", "not by tabs")));
  EXPECT_THAT(Violations("name: a\n---\nname: b"), ElementsAre(At("", "several documents")));
  // yaml-cpp's own loop over documents would not end here.
  EXPECT_THAT(Violations(", name: a"), ElementsAre(At("", "several documents")));
  EXPECT_THAT(Violations("[1, 2]"), ElementsAre(At("", "found a list")));
  EXPECT_THAT(Violations("name: a\nname: b"), ElementsAre(At("name", "given twice (line 2)")));
  EXPECT_THAT(Violations("sync: {final_round: true, finalRound: true}"),
              ElementsAre(At("sync.finalRound", "given twice")));
}

TEST(LoadTest, BoundsSizeDepthAndAliases) {
  EXPECT_THAT(Violations(std::string((1 << 20) + 1, ' ')), ElementsAre(At("", "at most 1048576")));
  EXPECT_THAT(Violations("a: " + std::string(100, '[') + std::string(100, ']')),
              ElementsAre(Field(&SpecViolation::description, HasSubstr("nested"))));
  // Deeper than the parser goes, also in a value of --set.
  const std::string words = "values are nested more than 32 deep";
  for (const int depth : {40, 1000}) {
    const std::string deep = std::string(depth, '[') + std::string(depth, ']');
    EXPECT_THAT(Violations("sync: " + deep),
                ElementsAre(Field(&SpecViolation::description, words)));
    EXPECT_THAT(Violations("", {"sync.h=" + deep}), ElementsAre(At("sync.h", "--set: " + words)));
  }
  EXPECT_THAT(Violations(std::string(100000, '[')), ElementsAre(At("", words)));
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    const std::string alias = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + alias;
    for (int j = 0; j < 9; ++j) bomb += ", " + alias;
    bomb += "]\n";
  }
  EXPECT_THAT(Violations(bomb),
              ElementsAre(Field(&SpecViolation::description, HasSubstr("values"))));
  EXPECT_THAT(Violations("a: &a [*a]"),
              ElementsAre(Field(&SpecViolation::description, HasSubstr("nested"))));
}

TEST(LoadTest, RefusesTextThatIsNotUtf8) {
  EXPECT_THAT(Violations("# caf\xc3\xa9\nname: \"a\xff\""),
              ElementsAre(At("", "line 2: found text that is not UTF-8")));
  EXPECT_THAT(Violations("", {"name=\xff"}), ElementsAre(At("", "not UTF-8")));
  // With its mark, as editors of Windows write it.
  EXPECT_EQ(ParseJobSpec("\xef\xbb\xbfname: a\r\n")->name(), "a");
  EXPECT_EQ(ParseJobSpec(absl::string_view("\xff\xfen\0a\0m\0e\0:\0 \0a\0", 16))->name(), "a");
}

}  // namespace
}  // namespace longhaul
