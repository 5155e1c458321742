#include "worker/data/documents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/testing/temp_dir.h"
#include "tests/unit/worker/data/data_files.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// Whole documents, up to an error, which comes last.
std::vector<std::string> Documents(absl::StatusOr<std::unique_ptr<DocumentReader>> reader,
                                   int64_t* null_rows = nullptr) {
  std::vector<std::string> result;
  if (!reader.ok()) return {"ERROR " + std::string(reader.status().message())};
  std::string document;
  for (DocumentPart part;;) {
    const absl::StatusOr<bool> more = (*reader)->Next(part);
    if (!more.ok()) {
      EXPECT_EQ(more.status().code(), absl::StatusCode::kInvalidArgument);
      result.push_back("ERROR " + std::string(more.status().message()));
      return result;
    }
    if (!*more) break;
    document += part.text;
    if (!part.ends_document) continue;
    result.push_back(document);
    document.clear();
  }
  EXPECT_EQ(document, "");
  if (null_rows != nullptr) *null_rows = (*reader)->null_rows();
  return result;
}

class DocumentsTest : public testing::Test {
 protected:
  std::vector<std::string> Jsonl(const std::string& bytes, const std::string& field = "text") {
    WriteBytes(dir_.Join("a.jsonl"), bytes);
    return Documents(OpenJsonlDocuments(dir_.Join("a.jsonl"), field));
  }
  std::vector<std::string> Text(const std::string& bytes) {
    WriteBytes(dir_.Join("a.txt"), bytes);
    return Documents(OpenTextDocument(dir_.Join("a.txt")));
  }
  TempDir dir_;
};

TEST_F(DocumentsTest, AFieldOfEachLineIsADocument) {
  EXPECT_THAT(Jsonl("\xEF\xBB\xBF{\"id\": 1, \"text\": \"one\\u00e9\\n\"}\r\n\n  \n"
                    "{\"text\": \"\", \"meta\": {\"text\": 5, \"a\": [\"b\"]}}\n"
                    "{\"text\":\"last\"}"),
              ElementsAre("one\xC3\xA9\n", "", "last"));
  EXPECT_THAT(Jsonl("{\"body\": \"b\", \"text\": 1}\n", "body"), ElementsAre("b"));
  EXPECT_THAT(Jsonl(""), ElementsAre());
}

TEST_F(DocumentsTest, NamesTheLineThatIsBroken) {
  const std::string good = "{\"text\": \"a\"}\n";
  const auto error = [&](const std::string& line) {
    return Jsonl(good + "\n" + line + "\n" + good).back();
  };
  EXPECT_THAT(error("{\"text\": \"a\""), HasSubstr("a.jsonl: line 3: syntax error"));
  EXPECT_THAT(error("{\"text\": \"\xFF\"}"), HasSubstr("line 3: syntax error"));
  EXPECT_THAT(error("{\"id\": 1, \"body\": \"b\"}"),
              HasSubstr("line 3: has no text field 'text'; it has id, body"));
  EXPECT_THAT(error("{\"text\": 4}"), HasSubstr("line 3: its field 'text' is not text"));
  EXPECT_THAT(error("{\"text\": null}"), HasSubstr("is not text"));
  EXPECT_THAT(error("{\"text\": {\"text\": \"a\"}}"), HasSubstr("is not text"));
  EXPECT_THAT(error("[\"text\"]"), HasSubstr("line 3: is not a JSON object"));
  EXPECT_THAT(error("3"), HasSubstr("is not a JSON object"));
  EXPECT_THAT(error(good.substr(0, good.size() - 1) + " {}"), HasSubstr("line 3: syntax error"));
  EXPECT_THAT(error("{\"a\": " + std::string(600, '[') + std::string(600, ']') + "}"),
              HasSubstr("nested too deep"));
}

// As the Python tool reads it: values of other fields do not matter, and of a name that occurs
// twice the last value counts.
TEST_F(DocumentsTest, TakesWhatPythonWritesInOtherFields) {
  EXPECT_THAT(Jsonl("{\"text\": \"\", \"score\": NaN}\n"
                    "{\"a\": [Infinity, -Infinity, {\"b\": NaN}], \"text\": \"NaN \\\"Infinity\"}\n"
                    "{\"a\": 1e999, \"b\": -1E+400, \"text\": \"large 1e999\"}\n"
                    "{\"cut\": \"\\ud83d\", \"\\ude00\": 1, \"text\": \"\\ud83d\\ude00\"}\n"
                    "{\"text\": 1, \"text\": NaN, \"text\": \"last\"}\n"
                    "{\"n\": NaN, \"text\": \"zero \\u0000 inside\"}\n"),
              ElementsAre("", "NaN \"Infinity", "large 1e999", "\xF0\x9F\x98\x80", "last",
                          std::string("zero \0 inside", 13)));
  EXPECT_THAT(Jsonl("{\"text\": NaN}").back(), HasSubstr("line 1: "));
  EXPECT_THAT(Jsonl("{\"text\": \"a\", \"text\": null}").back(),
              HasSubstr("line 1: its field 'text' is not text but null"));
  EXPECT_THAT(Jsonl("{\"n\": NaN, \"text\": \"half \\ud83d\"}").back(),
              HasSubstr("line 1: its field 'text' has half of a surrogate pair"));
  EXPECT_THAT(Jsonl("{\"n\": NaN, \"text\": \"a\"").back(), HasSubstr("syntax error"));
  EXPECT_THAT(Jsonl("{\"n\": Nan, \"text\": \"a\"}").back(), HasSubstr("syntax error"));
}

TEST_F(DocumentsTest, SkipsAndCountsRowsWithoutTextIfTheSourceSaysSo) {
  WriteBytes(dir_.Join("a"),
             "{\"text\": null}\n{\"text\": \"\"}\n{\"text\": null, \"n\": NaN}\n"
             "{\"n\": null, \"text\": \"b\", \"m\": {\"text\": null}}\n"
             "{\"text\": null, \"text\": \"c\"}\n{\"text\": \"d\", \"text\": null}\n");
  int64_t null_rows = 0;
  EXPECT_THAT(Documents(OpenJsonlDocuments(dir_.Join("a"), "text", kLineBytesMax, NullRows::kSkip),
                        &null_rows),
              ElementsAre("", "b", "c"));
  EXPECT_EQ(null_rows, 3);
  for (const char* line : {"{\"text\": null", "{\"text\": null, \"text\": 5}", "{\"n\": null}"}) {
    WriteBytes(dir_.Join("a"), line);
    EXPECT_THAT(
        Documents(OpenJsonlDocuments(dir_.Join("a"), "text", kLineBytesMax, NullRows::kSkip)),
        ElementsAre(HasSubstr("line 1: ")))
        << line;
  }
  EXPECT_THAT(Jsonl("{\"text\": null, \"n\": NaN}").back(), HasSubstr("but null: give it text"));
}

TEST_F(DocumentsTest, SaysThatChatIsChat) {
  for (const char* line :
       {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}", "{\"conversations\": []}",
        "{\"prompt\": \"a\", \"completion\": \"b\"}"}) {
    EXPECT_THAT(Jsonl(line).back(), HasSubstr("it is chat")) << line;
    EXPECT_THAT(Jsonl(line).back(), HasSubstr("data.chat")) << line;
  }
  EXPECT_THAT(Jsonl("{\"messages\": [], \"text\": \"a\"}"), ElementsAre("a"));
}

// The parser quotes all that it has read of a text.
TEST_F(DocumentsTest, WhatItSaysOfALongLineIsShort) {
  const std::string text(1 << 20, 'x');
  for (const char* end : {"", "\xFF\"}", "\"", "\x01\"}"}) {
    const std::string error = Jsonl("{\"text\": \"" + text + end).back();
    EXPECT_LT(error.size(), 600) << error.substr(0, 1000);
    EXPECT_THAT(error, HasSubstr("line 1: "));
  }
  const std::string error = Jsonl("{\"text\": \"" + text).back();
  EXPECT_THAT(error, HasSubstr("missing closing quote"));
}

TEST_F(DocumentsTest, GoesOnBehindABrokenLine) {
  WriteBytes(dir_.Join("a"), "{\n{\"text\": \"b\"}\n");
  const auto reader = OpenJsonlDocuments(dir_.Join("a"), "text").value();
  DocumentPart part;
  EXPECT_FALSE(reader->Next(part).ok());
  EXPECT_TRUE(reader->CanGoOn());
  EXPECT_TRUE(reader->Next(part).value());
  EXPECT_EQ(part.text, "b");
  EXPECT_FALSE(reader->Next(part).value());
}

TEST_F(DocumentsTest, AFileOfTextIsADocument) {
  EXPECT_THAT(Text("one\ntwo\n\nthree"), ElementsAre("one\ntwo\n\nthree"));
  EXPECT_THAT(Text(""), ElementsAre());
}

// As deploy/python/longhaul/tokenize.py cuts them.
TEST_F(DocumentsTest, PiecesEndWithALineWithALimitOrWithTheText) {
  const auto pieces = [&](const std::string& text) {
    WriteBytes(dir_.Join("a.txt"), text);
    const auto reader = OpenTextDocument(dir_.Join("a.txt"), TextParts::kPieces).value();
    std::vector<std::string> result;
    bool ended = false;
    for (DocumentPart part; reader->Next(part).value();) {
      EXPECT_FALSE(ended);
      ended = part.ends_document;
      if (!ended) result.push_back(part.text);
    }
    EXPECT_EQ(ended, !text.empty());
    return result;
  };
  EXPECT_THAT(pieces(""), ElementsAre());
  EXPECT_THAT(pieces("one\ntwo\n"), ElementsAre("one\ntwo\n"));
  std::string lines;
  while (lines.size() < 3 * kTextPieceBytes) lines += "a line of text\n";
  const std::vector<std::string> of_lines = pieces(lines);
  ASSERT_EQ(of_lines.size(), 3);
  EXPECT_EQ(absl::StrJoin(of_lines, ""), lines);
  for (const std::string& piece : of_lines) EXPECT_EQ(piece.back(), '\n');
  EXPECT_GE(of_lines[0].size(), kTextPieceBytes);
  EXPECT_LT(of_lines[0].size(), kTextPieceBytes + 16);
  // A line's end right at the limit is behind it: the line after it belongs to the piece, too.
  const std::string at = std::string(kTextPieceBytes - 1, 'x') + "\nsecond\nthird";
  EXPECT_THAT(pieces(at), ElementsAre(at.substr(0, kTextPieceBytes + 7), "third"));
  // No line's end, and a limit inside of a character.
  std::string umlauts = "a";
  while (umlauts.size() < 5 * kTextPieceBytes) umlauts += "\xC3\xBC";
  const std::vector<std::string> of_umlauts = pieces(umlauts);
  EXPECT_EQ(of_umlauts[0].size(), 2 * kTextPieceBytes + 1);
  EXPECT_EQ(absl::StrJoin(of_umlauts, ""), umlauts);
}

TEST_F(DocumentsTest, TextForATokenizerIsUtf8) {
  for (const TextParts parts : {TextParts::kLines, TextParts::kPieces}) {
    const auto read = [&](const std::string& text) {
      WriteBytes(dir_.Join("a"), text);
      return Documents(OpenTextDocument(dir_.Join("a"), parts, TextBytes::kUtf8));
    };
    const std::string whole = "caf\xC3\xA9\n\xF0\x9F\x98\x80";
    EXPECT_THAT(read(whole), ElementsAre(whole));
    EXPECT_THAT(read("caf\xC3\xA9\ncaf\xE9\n").back(), HasSubstr("is not UTF-8 text at byte 9"));
    // Cut off inside a character.
    EXPECT_THAT(read("caf\xC3").back(), HasSubstr("is not UTF-8 text at byte 3"));
    EXPECT_THAT(read(std::string(3 << 20, 'x') + "\xFF").back(), HasSubstr("at byte 3145728"));
  }
}

TEST_F(DocumentsTest, CutsLongTextsWhereItHurtsLeast) {
  std::string words;
  while (words.size() < 5 << 19) words += "word ";
  EXPECT_THAT(Text(words), ElementsAre(words));
  std::string umlauts;
  while (umlauts.size() < 5 << 19) umlauts += "\xC3\xBC";
  umlauts = "a" + umlauts;  // So that a limit lies inside a character.
  WriteBytes(dir_.Join("a"), umlauts);
  const auto reader = OpenTextDocument(dir_.Join("a")).value();
  for (DocumentPart part; reader->Next(part).value();) {
    EXPECT_LE(part.text.size(), kPieceBytesMax);
    EXPECT_FALSE(!part.text.empty() && (static_cast<uint8_t>(part.text[0]) & 0xC0) == 0x80);
  }
  EXPECT_THAT(Text(umlauts), ElementsAre(umlauts));
}

// Tokenizers make other tokens of parts than of the whole.
TEST_F(DocumentsTest, ADocumentOfJsonlIsOnePart) {
  std::string words;
  while (words.size() < 5 << 20) words += "word ";
  WriteBytes(dir_.Join("a"), absl::StrCat("{\"text\": \"", words, "\"}\n"));
  const auto reader = OpenJsonlDocuments(dir_.Join("a"), "text").value();
  DocumentPart part;
  EXPECT_TRUE(reader->Next(part).value());
  EXPECT_TRUE(part.ends_document);
  EXPECT_EQ(part.text, words);
}

TEST_F(DocumentsTest, RefusesALineThatIsTooLongWithWhatToDo) {
  std::string bytes = "{\"text\": \"";
  bytes.append(2 << 20, 'a');
  WriteBytes(dir_.Join("a"), bytes + "\"}\n");
  EXPECT_EQ(Documents(OpenJsonlDocuments(dir_.Join("a"), "text")).back().size(), 2 << 20);
  EXPECT_EQ(Documents(OpenJsonlDocuments(dir_.Join("a"), "text", 2 << 20)).back(),
            absl::StrCat("ERROR ", dir_.Join("a"),
                         ": line 1: is longer than 2 MiB: split this document, or allow longer "
                         "lines (line_mib_max of this source, --line-mib-max)"));
  bytes.append(kLineBytesMax, 'a');
  EXPECT_THAT(Jsonl(bytes + "\"}\n").back(), HasSubstr("line 1: is longer than 64 MiB"));
}

TEST_F(DocumentsTest, ReadsCompressedFiles) {
  std::string lines;
  for (int i = 0; i < 50000; ++i) absl::StrAppend(&lines, "{\"text\": \"document ", i, "\"}\n");
  const auto plain = Jsonl(lines);
  ASSERT_EQ(plain.size(), 50000);
  const size_t half = lines.find('\n', lines.size() / 2) + 1;
  EXPECT_EQ(Jsonl(Gzip(lines)), plain);
  EXPECT_EQ(Jsonl(Gzip(lines.substr(0, half)) + Gzip(lines.substr(half))), plain);
  EXPECT_EQ(Jsonl(Zstd(lines)), plain);
  EXPECT_EQ(Jsonl(Zstd(lines.substr(0, half)) + Zstd(lines.substr(half))), plain);
}

// The frame ends together with a reader's buffer.
TEST_F(DocumentsTest, ReadsCompressedTextsOfAnyLength) {
  for (const size_t size : {size_t{1} << 18, size_t{1} << 20, (size_t{1} << 20) + 1}) {
    const std::string text(size, 'x');
    const std::vector<std::string> once = {text}, twice = {text + text};
    EXPECT_TRUE(Text(Gzip(text)) == once) << size;
    EXPECT_TRUE(Text(Zstd(text)) == once) << size;
    EXPECT_TRUE(Text(Zstd(text) + Zstd(text)) == twice) << size;
    EXPECT_TRUE(Text(Zstd(text) + Zstd("")) == once) << size;
  }
}

// pzstd writes one before every frame.
TEST_F(DocumentsTest, ReadsZstdFilesThatBeginWithASkippableFrame) {
  for (const char last : {'\x50', '\x5f'}) {
    const std::string skippable = last + std::string("\x2a\x4d\x18\x04\0\0\0size", 11);
    EXPECT_THAT(Text(skippable + Zstd("one ") + skippable + Zstd("two")), ElementsAre("one two"));
  }
}

TEST_F(DocumentsTest, FindsDamageInCompressedFiles) {
  std::string lines;
  for (int i = 0; i < 20000; ++i)
    absl::StrAppend(&lines, "{\"text\": \"number ", i * 7919, "\"}\n");
  const std::string gzip = Gzip(lines), zstd = Zstd(lines);
  for (const size_t cut : {size_t{3}, gzip.size() / 2, gzip.size() - 1})
    EXPECT_THAT(Jsonl(gzip.substr(0, cut)).back(), HasSubstr("truncated")) << cut;
  for (const size_t cut : {size_t{5}, zstd.size() / 2, zstd.size() - 1})
    EXPECT_THAT(Jsonl(zstd.substr(0, cut)).back(), HasSubstr("truncated")) << cut;
  std::string damaged = gzip;
  damaged[gzip.size() / 2] ^= 0x55;
  EXPECT_THAT(Jsonl(damaged).back(), StartsWith("ERROR"));
  EXPECT_THAT(Jsonl(gzip + "rubbish").back(), HasSubstr("damaged gzip"));
  EXPECT_THAT(Jsonl(zstd + "rubbish").back(), HasSubstr("zstd"));
}

TEST_F(DocumentsTest, RefusesWhatIsNoFile) {
  EXPECT_THAT(Documents(OpenTextDocument(dir_.path())).back(), HasSubstr("regular file"));
  EXPECT_TRUE(absl::IsNotFound(OpenTextDocument(dir_.Join("none")).status()));
}

}  // namespace
}  // namespace longhaul
