#include "coordinator/cli/text.h"

#include <limits>

#include "coordinator/cli/yaml_writer.h"
#include "gtest/gtest.h"

namespace longhaul::cli {
namespace {

TEST(TextTest, ALineShowsWhereLinesEnd) { EXPECT_EQ(LineText("a\tb\r\nc\x1b"), "a\\tb\\r\\nc?"); }

TEST(TextTest, Units) {
  EXPECT_EQ(CountText(812), "812");
  EXPECT_EQ(CountText(42100), "42.1k");
  EXPECT_EQ(DurationText(absl::Seconds(8)), "8s");
  EXPECT_EQ(DurationText(absl::Seconds(200)), "3m20s");
  EXPECT_EQ(DurationText(absl::Minutes(125)), "2h05m");
  EXPECT_EQ(DurationText(absl::Hours(76)), "3d04h");
  EXPECT_EQ(DurationText(absl::Seconds(-5)), "0s");
  EXPECT_FALSE(DurationText(absl::InfiniteDuration()).empty());
}

TEST(TextTest, PairsAlignAndHideControlCharacters) {
  EXPECT_EQ(PairsText({{"name", "quickstart"}, {"error", "a\nb"}, {"", ""}}),
            "name   quickstart\nerror  a?b\n\n");
  EXPECT_EQ(PairsText({}), "");
}

TEST(TextTest, PrintableTextHasNoControlCharacters) {
  EXPECT_EQ(Printable("a\x1b[2J\x7f"), "a?[2J?");
  EXPECT_EQ(Printable("a\xc2\x9b"
                      "2J"),
            "a??2J");  // U+009B is ESC [ in one character.
  // Marks that turn round or hide the text beside them.
  EXPECT_EQ(Printable("a\u202eb\u200bc"), "a???b???c");
  EXPECT_EQ(Printable("Zürich, \xc2\xa0 \xc2"), "Zürich, \xc2\xa0 \xc2");
}

TEST(YamlWriterTest, WhatItWritesReadsBackTheSame) {
  const Json value = Json::parse(R"({
    "word": "abc", "path": "/a/b.txt", "number": 12, "text number": "12", "float": 0.5, "yes": "yes",
    "null": null, "true": "true", "list": [1, "a: b", [], {}, {"x": [true]}, [2, 3]], "": "",
    "odd": "a\n# b \"c\"", "group": {"a": {"b": "-"}}})");
  const std::string text = WriteYaml(value);
  ViolationList violations;
  EXPECT_EQ(ParseYaml(text, violations), value) << text;
  EXPECT_TRUE(violations.empty());
}

}  // namespace
}  // namespace longhaul::cli
