#include "worker/data/content_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/testing/temp_dir.h"
#include "tests/unit/worker/data/data_files.h"
#include "tests/unit/worker/data/piece_model.h"
#include "worker/data/control_tokens.h"
#include "worker/data/data_check.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using namespace std::string_literals;  // NOLINT: for NUL bytes.

constexpr char kPointer[] =
    "version https://git-lfs.github.com/spec/v1\noid sha256:0123456789abcdef\nsize 988097824\n";
constexpr char kJsonl[] = "{\"text\": \"a\"}\n{\"text\": \"b\"}\n";
constexpr char kHfTokenizer[] =
    "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"added_tokens\": [],\n  \"model\": "
    "{}\n}";

class ContentCheckTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    WriteBytes(dir_.Join(name), bytes);
    return dir_.Join(name);
  }
  // "": it is taken.
  std::string Refusal(SourceOptions source) {
    const absl::StatusOr<std::unique_ptr<Dataset>> opened = OpenSource(
        source, 1 << 20,
        {.folder = dir_.Join("work"),
         .on_warning = [&](const DataWarning& warning) { warnings_.push_back(warning.message); },
         .tokenizer_program = LONGHAUL_SENTENCEPIECE});
    const std::string refusal(opened.status().message());
    // `data check` says the same words.
    if (absl::IsInvalidArgument(opened.status()) && source.tokenizer.empty()) {
      const auto reports = CheckData(
          source.path, {.kind = source.kind, .as_is = source.as_is, .width = source.width});
      std::vector<std::string> problems;
      for (const DataReport& report : *reports)
        problems.insert(problems.end(), report.problems.begin(), report.problems.end());
      EXPECT_THAT(problems, testing::Contains(refusal));
    }
    return refusal;
  }
  std::string Refusal(SourceKind kind, const std::string& bytes) {
    return Refusal({.kind = kind, .path = Write("file", bytes)});
  }
  TempDir dir_;
  std::vector<std::string> warnings_;
};

TEST_F(ContentCheckTest, OtherFormatsAreNotText) {
  const auto refusal = [&](const std::string& bytes) { return Refusal(SourceKind::kText, bytes); };
  EXPECT_EQ(refusal("some text\n"), "");
  EXPECT_EQ(refusal("{curly} text: \"quoted\"\n{more}\n"), "");
  EXPECT_EQ(refusal("caf\xE9\n"), "") << "bytes train as they are";
  EXPECT_THAT(refusal(kJsonl),
              AllOf(HasSubstr("file: is JSONL: use data.jsonl"), HasSubstr("as_is: true")));
  EXPECT_THAT(refusal(kHfTokenizer), HasSubstr("is a Hugging Face tokenizer: name it"));
  EXPECT_THAT(refusal("PAR1" + std::string(100, '\0')),
              AllOf(HasSubstr("is a Parquet file"), HasSubstr("longhaul.tokenize")));
  EXPECT_THAT(refusal("PK\x03\x04" + std::string(30, '\0')), HasSubstr("is a zip archive: unpack"));
  EXPECT_THAT(refusal(Gzip("a.txt" + std::string(252, '\0') + "ustar  " + std::string(300, '\0'))),
              HasSubstr("is a tar archive"));
  EXPECT_THAT(refusal(Zstd(kJsonl)), HasSubstr("is JSONL"));
  EXPECT_THAT(refusal(WordsOf<uint16_t>({1, 2, 300})), HasSubstr("is binary: files of tokens"));
  EXPECT_THAT(refusal(LlmcHeader(20240520, 1, 1) + "ab"), HasSubstr("data.tokens, format: llmc"));
  EXPECT_THAT(refusal(MegatronIndexBytes({1}, 8, 2)), HasSubstr("data.megatron"));
  EXPECT_THAT(refusal("\xFF\xFEh\0i\0"s), HasSubstr("is text in UTF-16: convert it"));
  EXPECT_THAT(refusal("\0\x05\x16\x07"s + std::string(20, '\0')), HasSubstr("AppleDouble"));
  EXPECT_THAT(refusal(kPointer),
              HasSubstr("is a Git LFS pointer in place of the file: run `git lfs"));
  // In the middle of a file, too.
  EXPECT_THAT(refusal(std::string(100000, 'a') + std::string(4096, '\0') + "b"),
              HasSubstr("has a NUL byte (at byte"));
  EXPECT_THAT(warnings_, IsEmpty());
  EXPECT_EQ(refusal("{\n  \"name\": \"a document of several lines\",\n  \"n\": 1\n}\n"), "");
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("is one JSON document")));
}

TEST_F(ContentCheckTest, BytesAreTakenAsTheyAreIfTheSourceSaysSo) {
  const auto refusal = [&](const std::string& bytes) {
    return Refusal({.path = Write("file", bytes), .as_is = true});
  };
  EXPECT_EQ(refusal(kJsonl), "");
  EXPECT_EQ(refusal("a\0b"s), "");
  EXPECT_THAT(refusal(kPointer), HasSubstr("Git LFS")) << "nobody means that";
}

TEST_F(ContentCheckTest, OtherFormatsAreNotJsonl) {
  const auto refusal = [&](const std::string& bytes) { return Refusal(SourceKind::kJsonl, bytes); };
  EXPECT_EQ(refusal(kJsonl), "");
  EXPECT_EQ(refusal("{\"text\": \"zero \\u0000 inside\"}"), "");
  EXPECT_EQ(refusal("{\"text\": \"" + std::string(100000, 'a') + "\"}\n"), "");
  EXPECT_THAT(refusal("plain text\n"), HasSubstr("line 1"));
  EXPECT_THAT(refusal("[\n {\"text\": \"a\"}\n]\n"), HasSubstr("is one JSON document: write each"));
  EXPECT_THAT(refusal("PAR1" + std::string(100, '\0')), HasSubstr("is a Parquet file"));
  EXPECT_THAT(refusal(kHfTokenizer), HasSubstr("is a Hugging Face tokenizer"));
  EXPECT_THAT(refusal(kPointer), HasSubstr("Git LFS"));
  EXPECT_THAT(refusal("a\0b"s), HasSubstr("is binary"));
}

TEST_F(ContentCheckTest, OtherFormatsAreNotTokens) {
  for (const SourceKind kind : {SourceKind::kNanoGpt, SourceKind::kLlmc}) {
    EXPECT_THAT(Refusal(kind, kPointer), HasSubstr("Git LFS"));
  }
  const auto refusal = [&](const std::string& bytes) {
    return Refusal(SourceKind::kNanoGpt, bytes);
  };
  EXPECT_EQ(refusal(WordsOf<uint16_t>({1, 2, 300})), "");
  EXPECT_THAT(refusal(std::string(100, 'a')), HasSubstr("is text: use data.text"));
  EXPECT_THAT(refusal(kJsonl), HasSubstr("use data.jsonl"));
  EXPECT_THAT(refusal(Gzip(WordsOf<uint16_t>({1, 2}))), HasSubstr("compressed with gzip: unpack"));
  EXPECT_THAT(refusal("\x93NUMPY\1\0v\0{'descr': '<u2'}\n"s), HasSubstr("array.tofile"));
  EXPECT_THAT(refusal(LlmcHeader(20240520, 1, 1) + "ab"), HasSubstr("format: llmc"));
  Write("m.idx", MegatronIndexBytes({2, 1}, 8, 2));
  SourceOptions source{.kind = SourceKind::kNanoGpt,
                       .path = Write("m.bin", WordsOf<uint16_t>({1, 2, 3}))};
  EXPECT_THAT(Refusal(source), AllOf(HasSubstr("m.idx"), HasSubstr("data.megatron")));
  source.width = 16;
  EXPECT_EQ(Refusal(source), "");
  Write("m.bin", kPointer);
  EXPECT_THAT(Refusal({.kind = SourceKind::kMegatron, .path = dir_.Join("m")}),
              HasSubstr("m.bin: is a Git LFS pointer"));
}

// As tokens of text are: most ids are small.
std::vector<int64_t> Ids(int64_t vocab) {
  std::vector<int64_t> ids(20000);
  uint64_t state = 1;
  for (int64_t& id : ids) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double uniform = static_cast<double>(state >> 11) / (uint64_t{1} << 53);
    id = std::min<int64_t>(vocab - 1, static_cast<int64_t>(1 / (uniform + 1e-6)));
  }
  return ids;
}

TEST_F(ContentCheckTest, IdsOfAnotherWidthAreRefusedUntilTheSourceSaysTheirWidth) {
  for (const int64_t vocab : {50257, 128256, 260000}) {
    SourceOptions wide{.kind = SourceKind::kNanoGpt,
                       .path = Write("wide.bin", WordsOf<uint32_t>(Ids(vocab)))};
    EXPECT_THAT(Refusal(wide), AllOf(HasSubstr("32-bit ids"), HasSubstr("--width")));
    wide.width = 32;
    EXPECT_EQ(Refusal(wide), "");
    wide.path = Write("wide.bin", WordsOf<uint64_t>(Ids(vocab)));
    wide.width = 0;
    EXPECT_THAT(Refusal(wide), HasSubstr("64-bit ids"));
    wide.width = 32;
    EXPECT_EQ(Refusal(wide), "");
    EXPECT_THAT(warnings_, ElementsAre(HasSubstr("64-bit ids")));
    warnings_.clear();
    wide.width = 64;
    EXPECT_EQ(Refusal(wide), "");
    EXPECT_THAT(warnings_, IsEmpty());
  }
  EXPECT_EQ(Refusal(SourceKind::kNanoGpt, WordsOf<uint16_t>(Ids(50257))), "");
  EXPECT_EQ(Refusal(SourceKind::kNanoGpt, std::string(1 << 16, '\0')), "");
  // Ids that truly alternate.
  std::vector<int64_t> alternate;
  for (int64_t i = 0; i < 10000; ++i) alternate.push_back(i % 2 == 0 ? i : i % 3);
  SourceOptions narrow{.kind = SourceKind::kNanoGpt,
                       .path = Write("alternate.bin", WordsOf<uint16_t>(alternate))};
  EXPECT_THAT(Refusal(narrow), HasSubstr("or to 16 if its ids are really so"));
  narrow.width = 16;
  EXPECT_EQ(Refusal(narrow), "");
}

TEST_F(ContentCheckTest, SideFilesArePassedOver) {
  const std::string folder = dir_.Join("folder");
  std::filesystem::create_directory(folder);
  WriteBytes(folder + "/a.txt", "text");
  WriteBytes(folder + "/.gitattributes", "*.bin");
  WriteBytes(folder + "/._a.txt", "\0\x05\x16\x07"s);
  WriteBytes(folder + "/.DS_Store", "\0\0\0\1Bud1"s);
  WriteBytes(folder + "/Thumbs.db", "\0\0\0\1"s);
  EXPECT_THAT(FilesOf({.path = folder}).value(), ElementsAre(folder + "/a.txt"));
  EXPECT_THAT(FilesOf({.path = folder + "/*"}).value(), ElementsAre(folder + "/a.txt"));
  EXPECT_THAT(FilesOf({.path = folder + "/.git*"}).value(), SizeIs(1)) << "it was asked for";
  EXPECT_EQ(Refusal({.path = folder}), "");
  EXPECT_THAT(*CheckData(folder, {}), SizeIs(1));
  WriteBytes(folder + "/b.parquet", "PAR1" + std::string(100, '\0'));
  EXPECT_THAT(Refusal({.path = folder + "/b.parquet"}), HasSubstr("b.parquet: is a Parquet file"));
  EXPECT_THAT(Refusal({.path = folder}), HasSubstr("b.parquet: is a Parquet file"));
}

TEST_F(ContentCheckTest, NamesOfFilesThatArePassedOverAreTold) {
  const std::string folder = dir_.Join("folder");
  std::filesystem::create_directory(folder);
  WriteBytes(folder + "/a.jsonl", kJsonl);
  EXPECT_EQ(Refusal({.kind = SourceKind::kJsonl, .path = folder}), "");
  EXPECT_THAT(warnings_, IsEmpty());
  for (const char* name : {"README.md", "b.jsonl.bz2", ".gitattributes"})
    WriteBytes(folder + "/" + name, "x");
  EXPECT_EQ(Refusal({.kind = SourceKind::kJsonl, .path = folder}), "");
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("folder: 3 files are passed over for their names: "
                                               ".gitattributes, README.md, b.jsonl.bz2")));
  warnings_.clear();
  // The .bin of an index is no such file; one that lost its index is.
  const std::string indexed = dir_.Join("indexed");
  std::filesystem::create_directory(indexed);
  for (const char* name : {"/m", "/n"}) {
    WriteBytes(indexed + name + ".idx", MegatronIndexBytes({1}, 8, 2));
    WriteBytes(indexed + name + ".bin", WordsOf<uint16_t>({1}));
  }
  EXPECT_EQ(Refusal({.kind = SourceKind::kMegatron, .path = indexed}), "");
  EXPECT_THAT(warnings_, IsEmpty());
  std::filesystem::remove(indexed + "/n.idx");
  EXPECT_EQ(Refusal({.kind = SourceKind::kMegatron, .path = indexed}), "");
  EXPECT_THAT(warnings_,
              ElementsAre(HasSubstr("indexed: 1 file is passed over for its name: n.bin")));
}

// Who uses tokens that were made before hears it, too.
TEST_F(ContentCheckTest, WhatWasNoticedOfATextStaysWithItsTokens) {
  const std::string model = TrainPieceModel(dir_.Join("pieces"));
  SourceOptions source{.kind = SourceKind::kJsonl,
                       .path = Write("a.jsonl",
                                     "{\"text\": \"the river\"}\n{\"text\": null}\n"
                                     "{\"text\": \"</s> and </s> twice\"}\n{\"text\": null}\n"),
                       .tokenizer = model};
  EXPECT_THAT(Refusal(source), HasSubstr("line 2: its field 'text' is not text but null"));
  source.null_rows = NullRows::kSkip;
  for (int i = 0; i < 2; ++i) {
    warnings_.clear();
    EXPECT_EQ(Refusal(source), "");
    EXPECT_THAT(warnings_,
                ElementsAre(HasSubstr("a.jsonl: skipped 2 rows with null in place of text"),
                            HasSubstr("a.jsonl: 1 document spells out control tokens, 2 times; "
                                      "they stay text")));
  }
  const auto reports = CheckData(source.path, {.null_rows = NullRows::kSkip});
  EXPECT_EQ(reports->front().null_rows, 2);
  EXPECT_EQ(reports->front().documents, 2);
  Write("a.jsonl", kJsonl);
  warnings_.clear();
  EXPECT_EQ(Refusal(source), "");
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(ContentCheckTest, ALinkWithoutItsTargetIsNamed) {
  const std::string folder = dir_.Join("folder");
  std::filesystem::create_directory(folder);
  WriteBytes(folder + "/a.txt", "text");
  std::filesystem::create_symlink("../blobs/0a1b", folder + "/b.txt");
  for (const char* path : {"folder/b.txt", "folder", "folder/*"}) {
    const absl::Status status = FilesOf({.path = dir_.Join(path)}).status();
    EXPECT_TRUE(absl::IsNotFound(status)) << path;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("b.txt: it is a link to ../blobs/0a1b, which does not exist"));
  }
  EXPECT_THAT(Refusal({.kind = SourceKind::kJsonl,
                       .path = Write("a.jsonl", kJsonl),
                       .tokenizer = folder + "/b.txt"}),
              HasSubstr("it is a link to ../blobs/0a1b"));
  EXPECT_THAT(Refusal({.kind = SourceKind::kJsonl,
                       .path = dir_.Join("a.jsonl"),
                       .tokenizer = Write("tokenizer.model", kPointer)}),
              HasSubstr("tokenizer.model: is a Git LFS pointer"));
}

TEST_F(ContentCheckTest, TellsOfDocumentsWithoutTheirEnd) {
  const auto warnings = [&](const std::vector<int64_t>& last) {
    warnings_.clear();
    std::vector<int64_t> sizes, tokens;
    for (const int64_t token : last) {
      sizes.push_back(3);
      tokens.insert(tokens.end(), {5, 6, token});
    }
    Write("m.idx", MegatronIndexBytes(sizes, 8, 2));
    Write("m.bin", WordsOf<uint16_t>(tokens));
    EXPECT_EQ(Refusal({.kind = SourceKind::kMegatron, .path = dir_.Join("m")}), "");
    EXPECT_EQ(CheckData(dir_.Join("m"), {})->front().warnings, warnings_);
    return warnings_;
  };
  std::vector<int64_t> last(40, 2);
  EXPECT_THAT(warnings(last), IsEmpty());
  last[7] = 3;
  EXPECT_THAT(warnings(last),
              ElementsAre(HasSubstr("1 of 40 sampled documents do not end with token 2")));
  for (size_t i = 0; i < last.size(); ++i) last[i] = static_cast<int64_t>(i);
  EXPECT_THAT(warnings(last), ElementsAre(HasSubstr("do not end with the same token")));
}

TEST_F(ContentCheckTest, ControlTokensInTextStayTextAndAreCounted) {
  const ControlTokens tokens({"<s>", "</s>", "<|end|>", "<|end|>x"});
  EXPECT_EQ(tokens.CountIn("a </s><s> <|end|> <|end|>x <| end |> <"), 4);
  EXPECT_EQ(tokens.CountIn(""), 0);
  const std::string model = TrainPieceModel(dir_.Join("pieces"));
  const std::string path = Write(
      "a.jsonl", "{\"text\": \"the river\"}\n{\"text\": \"</s> and </s> twice, <s> once\"}\n");
  const auto reports = CheckData(
      path,
      {.tokenizer = model, .sample_tokens = 1000, .tokenizer_program = LONGHAUL_SENTENCEPIECE});
  ASSERT_TRUE(reports.ok()) << reports.status();
  const DataReport& report = reports->front();
  ASSERT_TRUE(report.control_tokens.has_value());
  EXPECT_EQ(report.control_tokens->documents, 1);
  EXPECT_EQ(report.control_tokens->times, 3);
  EXPECT_EQ(std::count(report.sample.begin(), report.sample.end(), 2), 2) << "the documents' ends";
  EXPECT_THAT(
      Refusal(
          {.kind = SourceKind::kJsonl, .path = path, .tokenizer = model, .control_tokens = true}),
      HasSubstr("omit control_tokens"));
}

}  // namespace
}  // namespace longhaul
