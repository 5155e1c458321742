#include "worker/data/source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_marks.h"
#include "tests/testing/temp_dir.h"
#include "tests/unit/worker/data/data_files.h"
#include "tests/unit/worker/data/piece_model.h"
#include "worker/data/megatron_index.h"

namespace {
std::atomic<bool> no_locks = false;
}  // namespace

// Before libc's, for tests of a file system without locks.
extern "C" int flock(int fd, int operation) noexcept {
  if (!no_locks) return static_cast<int>(syscall(SYS_flock, fd, operation));
  errno = ENOLCK;
  return -1;
}

namespace longhaul {
namespace {

namespace fs = std::filesystem;

using testing::ElementsAre;
using testing::HasSubstr;

class SourceTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& bytes) {
    fs::create_directories(fs::path(dir_.Join("data/" + name)).parent_path());
    WriteBytes(dir_.Join("data/" + name), bytes);
  }
  SourceOptions Source(SourceKind kind, const std::string& name) {
    return {.kind = kind, .path = dir_.Join("data/" + name)};
  }
  absl::StatusOr<std::unique_ptr<Dataset>> Open(const SourceOptions& source, int64_t vocab = 256) {
    return OpenSource(source, vocab,
                      {.folder = dir_.Join("work"),
                       .threads = 2,
                       .on_wait = [&](const std::string& what) { waits_.push_back(what); },
                       .patience = absl::Milliseconds(300),
                       .tokenizer_program = LONGHAUL_SENTENCEPIECE});
  }
  // Bytes of all tokens.
  std::string Text(const SourceOptions& source, int64_t vocab = 256) {
    const auto dataset = Open(source, vocab);
    if (!dataset.ok()) return "ERROR " + std::string(dataset.status().message());
    std::string text;
    for (const int64_t token : All(**dataset)) text.push_back(static_cast<char>(token));
    return text;
  }
  static std::vector<int64_t> All(const Dataset& dataset) {
    std::vector<int64_t> tokens(dataset.tokens());
    EXPECT_TRUE(dataset.Read(0, absl::MakeSpan(tokens)).ok());
    return tokens;
  }
  std::string MessageOf(const SourceOptions& source, int64_t vocab = 256) {
    const absl::Status status = Open(source, vocab).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }
  std::vector<std::string> Cached() {
    std::vector<std::string> names;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(dir_.Join("work"), ignored))
      if (entry.path().extension() != ".lock") names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  TempDir dir_;
  std::vector<std::string> waits_;
};

TEST_F(SourceTest, TextIsMappedAsItIs) {
  Write("a", "h\xFFllo");
  EXPECT_EQ(Text(Source(SourceKind::kText, "a")), "h\xFFllo");
  EXPECT_FALSE(fs::exists(dir_.Join("work")));
}

TEST_F(SourceTest, JoinsTheFilesOfAFolderByNameAndOfAPattern) {
  Write("t/b", "34");
  Write("t/a", "12");
  Write("t/c", "");
  Write("t/d", "5");
  Write("t/aa/x", "left out");
  EXPECT_EQ(Text(Source(SourceKind::kText, "t")), "12345");
  EXPECT_EQ(Text(Source(SourceKind::kText, "t/[bd]")), "345");
  EXPECT_TRUE(absl::IsNotFound(Open(Source(SourceKind::kText, "t/*.txt")).status()));
  const absl::Status none = Open(Source(SourceKind::kText, "none")).status();
  EXPECT_TRUE(absl::IsNotFound(none));
  EXPECT_THAT(std::string(none.message()), HasSubstr("data/none"));
  Write("star*", "1");  // A name with a star is a file's, if there is one.
  EXPECT_EQ(Text(Source(SourceKind::kText, "star*")), "1");
}

TEST_F(SourceTest, RefusesNoTextAndBytesOutsideTheVocabulary) {
  Write("empty", "");
  EXPECT_THAT(MessageOf(Source(SourceKind::kText, "empty")), HasSubstr("holds no tokens"));
  Write("latin", "abc\x80");
  EXPECT_TRUE(Open(Source(SourceKind::kText, "latin"), 129).ok());
  EXPECT_THAT(MessageOf(Source(SourceKind::kText, "latin"), 128),
              HasSubstr("latin: token 3 (at byte 3) is 128, not below the vocab 128"));
}

// Bytes that this process has read, by /proc.
int64_t BytesRead() {
  std::ifstream counts("/proc/self/io");
  std::string name;
  int64_t bytes = 0;
  counts >> name >> bytes;
  EXPECT_EQ(name, "rchar:");
  return bytes;
}

void WriteAt(const std::string& path, int64_t at, const std::string& bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(at) << bytes;
}

// Each start of a rank opens its data.
TEST_F(SourceTest, OpeningLargeDataReadsLittleOfIt) {
  constexpr int64_t kBytes = int64_t{4} << 30, kMost = 64 << 20;
  const std::string path = dir_.Join("data/t.bin");
  Write("t.bin", "");
  fs::resize_file(path, kBytes);
  const SourceOptions source = Source(SourceKind::kNanoGpt, "t.bin");
  const int64_t before = BytesRead();
  const auto dataset = Open(source, 50257).value();
  EXPECT_LT(BytesRead() - before, kMost);
  EXPECT_EQ(dataset->tokens(), kBytes / 2);
  // What is not looked at there is when it is read.
  WriteAt(path, 2 * 100'000'000, WordsOf<uint16_t>({60000}));
  ASSERT_TRUE(Open(source, 50257).ok());
  std::vector<int64_t> tokens(100);
  const absl::Status read = dataset->Read(99'999'990, absl::MakeSpan(tokens));
  EXPECT_TRUE(absl::IsDataLoss(read)) << read;
  EXPECT_THAT(std::string(read.message()),
              HasSubstr("t.bin: token 100000000 (at byte 200000000) is 60000, not below the vocab "
                        "50257"));
  EXPECT_TRUE(dataset->Read(99'999'900, absl::MakeSpan(tokens)).ok());
  // Its first and its last tokens are always looked at.
  WriteAt(path, kBytes - 2, WordsOf<uint16_t>({60000}));
  EXPECT_THAT(MessageOf(source, 50257), HasSubstr("token 2147483647 (at byte 4294967294)"));
}

TEST_F(SourceTest, OpeningALargeIndexReadsLittleOfIt) {
  constexpr int64_t kSequences = int64_t{1} << 27, kMost = 64 << 20;
  const std::string path = dir_.Join("data/m.idx");
  std::string head(kMegatronMagic, kMegatronMagicBytes);
  head += WordsOf<int64_t>({1}) + '\x08' + WordsOf<int64_t>({kSequences, 2});
  Write("m.idx", head);
  fs::resize_file(path, kMegatronHeaderBytes + 12 * kSequences + 16);
  // All but the last one are empty.
  WriteAt(path, kMegatronHeaderBytes + 4 * (kSequences - 1), WordsOf<int32_t>({3}));
  WriteAt(path, kMegatronHeaderBytes + 12 * kSequences + 8, WordsOf<int64_t>({kSequences}));
  Write("m.bin", WordsOf<uint16_t>({7, 8, 9}));
  const SourceOptions source = Source(SourceKind::kMegatron, "m");
  const int64_t before = BytesRead();
  EXPECT_THAT(All(*Open(source, 256).value()), ElementsAre(7, 8, 9));
  EXPECT_LT(BytesRead() - before, kMost);
  WriteAt(path, kMegatronHeaderBytes + 4 * (kSequences - 1), WordsOf<int32_t>({-3}));
  EXPECT_THAT(MessageOf(source), HasSubstr("sequence 134217727 has a negative size"));
}

// A type with a sign has numbers that are no tokens, also below the vocabulary.
TEST_F(SourceTest, NegativeNumbersAreNoTokensWhenTheyAreRead) {
  Write("m.idx", MegatronIndexBytes({3}, 3, 2));
  Write("m.bin", WordsOf<int16_t>({7, 8, 9}));
  const auto dataset = Open(Source(SourceKind::kMegatron, "m"), 65536).value();
  WriteAt(dir_.Join("data/m.bin"), 2, WordsOf<int16_t>({-8}));
  std::vector<int64_t> tokens(3);
  EXPECT_THAT(std::string(dataset->Read(0, absl::MakeSpan(tokens)).message()),
              HasSubstr("m.bin: token 1 (at byte 2) is negative, or no token at all"));
}

TEST_F(SourceTest, TextMayBeCompressedAndHaveAnEnd) {
  Write("t/1.gz", Gzip("one\n"));
  Write("t/2", "two");
  EXPECT_EQ(Text(Source(SourceKind::kText, "t")), "one\ntwo");
  SourceOptions marked = Source(SourceKind::kText, "t");
  marked.eos = 7;
  EXPECT_EQ(Text(marked), "one\n\atwo\a");
  marked.eos = 300;
  EXPECT_THAT(MessageOf(marked), HasSubstr("300 (eos)"));
  const auto wide = Open(marked, 301).value();
  EXPECT_EQ(All(*wide).back(), 300);
}

TEST_F(SourceTest, ATokenMayComeBeforeEachDocument) {
  Write("t/1", "one");
  Write("t/2", "");
  Write("t/3", "three");
  SourceOptions text = Source(SourceKind::kText, "t");
  text.bos = 7;
  EXPECT_EQ(Text(text), "\aone\athree") << "an empty file is no document";
  EXPECT_THAT(Cached(), testing::SizeIs(2));
  text.bos = kNoToken;
  EXPECT_EQ(Text(text), "onethree");
  text.bos = 300;
  EXPECT_THAT(MessageOf(text), HasSubstr("300 (bos)"));
  EXPECT_EQ(All(*Open(text, 301).value()).front(), 300);
  // A long text comes in parts, and has one beginning.
  Write("long", std::string(3 << 20, 'x'));
  SourceOptions parts = Source(SourceKind::kText, "long");
  parts.bos = 7;
  EXPECT_EQ(Open(parts).value()->tokens(), (3 << 20) + 1);

  Write("a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"\"}\n{\"text\": \"two\"}\n");
  SourceOptions jsonl = Source(SourceKind::kJsonl, "a.jsonl");
  jsonl.bos = 7;
  EXPECT_EQ(Text(jsonl), std::string("\aone\0\a\0\atwo\0", 12));
  const std::string model = TrainPieceModel(dir_.Join("pieces"));
  jsonl.tokenizer = model;
  std::vector<int64_t> expected;
  for (const auto& tokens : EncodeByLibrary(model, {"one", "", "two"})) {
    expected.push_back(7);
    expected.insert(expected.end(), tokens.begin(), tokens.end());
    expected.push_back(2);
  }
  EXPECT_EQ(All(*Open(jsonl, 1000).value()), expected);
}

TEST_F(SourceTest, ALongDocumentOfJsonlIsEncodedWhole) {
  const std::string model = TrainPieceModel(dir_.Join("pieces"));
  std::string text = "the";
  for (int i = 0; text.size() < 3 << 20; ++i) absl::StrAppend(&text, "river", i, " answers ");
  Write("a.jsonl", absl::StrCat("{\"text\": \"", text, "\"}\n"));
  SourceOptions source = Source(SourceKind::kJsonl, "a.jsonl");
  source.tokenizer = model;
  std::vector<int64_t> expected;
  for (const auto& tokens : EncodeByLibrary(model, {text}))
    expected.insert(expected.end(), tokens.begin(), tokens.end());
  expected.push_back(2);
  EXPECT_EQ(All(*Open(source, 1000).value()), expected);
  source.line_bytes_max = 2 << 20;
  fs::remove_all(dir_.Join("work"));
  EXPECT_THAT(MessageOf(source, 1000), HasSubstr("a.jsonl: line 1: is longer than 2 MiB"));
}

TEST_F(SourceTest, JsonlIsSeparatedByNulUnlessSaidOtherwise) {
  Write("j/a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  Write("j/b.jsonl.zst", Zstd("{\"text\": \"three\"}\n"));
  Write("j/README", "no JSON");
  SourceOptions source = Source(SourceKind::kJsonl, "j");
  EXPECT_EQ(Text(source), std::string("one\0two\0three\0", 14));
  source.eos = kNoToken;
  EXPECT_EQ(Text(source), "onetwothree");
}

TEST_F(SourceTest, ABrokenLineLeavesNothingBehind) {
  Write("a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"tw");
  EXPECT_THAT(MessageOf(Source(SourceKind::kJsonl, "a.jsonl")), HasSubstr("a.jsonl: line 2"));
  EXPECT_TRUE(Cached().empty());
}

TEST_F(SourceTest, TokensAreMadeOnceAndAnewWhenTheSourceChanged) {
  Write("a.jsonl", "{\"text\": \"one\"}\n");
  const SourceOptions source = Source(SourceKind::kJsonl, "a.jsonl");
  EXPECT_EQ(Text(source), std::string("one\0", 4));
  const auto first = Cached();
  ASSERT_EQ(first.size(), 2);
  const auto time = fs::last_write_time(dir_.Join("work/" + first[0]));
  EXPECT_EQ(Text(source), std::string("one\0", 4));
  EXPECT_EQ(fs::last_write_time(dir_.Join("work/" + first[0])), time);
  Write("a.jsonl", "{\"text\": \"another\"}\n");
  EXPECT_EQ(Text(source), std::string("another\0", 8));
  EXPECT_EQ(Cached().size(), 2) << "the old ones are gone";
  EXPECT_NE(Cached(), first);
  SourceOptions other = source;
  other.eos = 1;
  EXPECT_EQ(Text(other), "another\1");
  EXPECT_EQ(Cached().size(), 4);
}

TEST_F(SourceTest, DamagedTokensAreMadeAnew) {
  Write("a.jsonl", "{\"text\": \"one\"}\n");
  const SourceOptions source = Source(SourceKind::kJsonl, "a.jsonl");
  ASSERT_TRUE(Open(source).ok());
  for (const std::string& name : Cached()) WriteBytes(dir_.Join("work/" + name), "xx");
  EXPECT_EQ(Text(source), std::string("one\0", 4));
}

TEST_F(SourceTest, RanksThatBeginTogetherMakeTokensOnce) {
  std::string lines;
  for (int i = 0; i < 20000; ++i) absl::StrAppend(&lines, "{\"text\": \"document ", i, "\"}\n");
  Write("a.jsonl", lines);
  const TokenWork work = {.folder = dir_.Join("work")};
  std::vector<int64_t> tokens(4);
  std::vector<std::thread> ranks;
  for (int64_t& count : tokens) {
    ranks.emplace_back([&] {
      const auto dataset = OpenSource(Source(SourceKind::kJsonl, "a.jsonl"), 256, work);
      count = dataset.ok() ? (*dataset)->tokens() : -1;
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_THAT(tokens, testing::Each(tokens[0]));
  EXPECT_GT(tokens[0], 20000 * 10);
  EXPECT_EQ(Cached().size(), 2);
}

TEST_F(SourceTest, DoesNotWaitForeverForWhoMakesTheTokens) {
  Write("a.jsonl", "{\"text\": \"one\"}\n");
  const SourceOptions source = Source(SourceKind::kJsonl, "a.jsonl");
  ASSERT_TRUE(Open(source).ok());
  std::string lock;
  for (const auto& entry : fs::directory_iterator(dir_.Join("work"))) {
    if (entry.path().extension() == ".lock") {
      lock = entry.path();
    } else {
      fs::remove(entry.path());
    }
  }
  const int fd = open(lock.c_str(), O_RDWR);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  const absl::Cleanup release = [fd] { close(fd); };
  waits_.clear();
  const absl::Status status = Open(source).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("a.jsonl: another process"));
  EXPECT_TRUE(IsPeerFault(status));
  EXPECT_THAT(waits_.front(), HasSubstr("which another process makes"));
  EXPECT_EQ(waits_.back(), "");
}

TEST_F(SourceTest, AFolderWithoutLocksIsNotAnotherProcesssFault) {
  Write("a.jsonl", "{\"text\": \"one\"}\n");
  no_locks = true;
  const absl::Cleanup locks = [] { no_locks = false; };
  const absl::Status status = Open(Source(SourceKind::kJsonl, "a.jsonl")).status();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("its file system has no file locks"));
  EXPECT_FALSE(IsPeerFault(status));
}

TEST_F(SourceTest, SentencePieceGivesWhatItsLibraryGives) {
  const std::string model = TrainPieceModel(dir_.Join("pieces"));
  Write(
      "a.jsonl",
      "{\"text\": \"the river answers 42\"}\n{\"text\": \"\"}\n{\"text\": \"garden \xC3\xBC\"}\n");
  SourceOptions source = Source(SourceKind::kJsonl, "a.jsonl");
  source.tokenizer = model;
  std::vector<int64_t> expected;
  for (const auto& tokens :
       EncodeByLibrary(model, {"the river answers 42", "", "garden \xC3\xBC"})) {
    expected.insert(expected.end(), tokens.begin(), tokens.end());
    expected.push_back(2);
  }
  const auto dataset = Open(source, 1000);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(All(**dataset), expected);
  EXPECT_THAT(MessageOf(source, 256), HasSubstr("pieces.model: this tokenizer has"));
}

TEST_F(SourceTest, TheFolderOfASentencePieceModelDeclaresTheEndOfADocument) {
  Write("a.jsonl", "{\"text\": \"the river\"}\n");
  const std::string model = TrainPieceModel(dir_.Join("data/pieces"));
  SourceOptions source = Source(SourceKind::kJsonl, "a.jsonl");
  source.tokenizer = model;
  const auto last = [&] { return All(**Open(source, 1000)).back(); };
  EXPECT_EQ(last(), 2);
  Write("config.json", R"({"eos_token_id": 700})");  // A token that was added to the model's.
  EXPECT_EQ(last(), 700);
  Write("tokenizer_config.json", R"({"eos_token": "<s>"})");
  EXPECT_EQ(last(), 1);
  Write("tokenizer_config.json", R"({"eos_token": "<|added|>"})");
  EXPECT_EQ(last(), 700);
  Write("config.json", "{}");
  EXPECT_THAT(MessageOf(source, 1000),
              HasSubstr("pieces.model: has no token '<|added|>', which its folder declares"));
  source.eos = 5;
  EXPECT_EQ(last(), 5);
  Write("tokenizer_config.json", "[");
  EXPECT_EQ(last(), 5);
  source.eos.reset();
  EXPECT_THAT(MessageOf(source, 1000), HasSubstr("tokenizer_config.json: is not a JSON object"));
}

TEST_F(SourceTest, SentencePieceSharesManyDocumentsAmongProcesses) {
  const std::string model = TrainPieceModel(dir_.Join("pieces"));
  std::string text;
  std::vector<std::string> lines;
  for (int i = 0; i < 30000; ++i)
    text += lines.emplace_back(absl::StrCat("the station follows number ", i, "\n"));
  std::vector<int64_t> expected;
  for (const auto& tokens : EncodeByLibrary(model, lines))
    expected.insert(expected.end(), tokens.begin(), tokens.end());
  expected.push_back(2);
  Write("a.txt", text);
  SourceOptions source = Source(SourceKind::kText, "a.txt");
  source.tokenizer = model;
  const auto dataset = Open(source, 1000);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(All(**dataset), expected);
}

TEST_F(SourceTest, RefusesWhatIsNoTokenizer) {
  Write("a.txt", "text");
  Write("wrong.model", "not a model");
  SourceOptions source = Source(SourceKind::kText, "a.txt");
  source.tokenizer = dir_.Join("data/wrong.model");
  EXPECT_THAT(MessageOf(source), HasSubstr("wrong.model: is not a SentencePiece model"));
  source.tokenizer = dir_.Join("data/none.model");
  EXPECT_TRUE(absl::IsNotFound(Open(source).status()));
  EXPECT_TRUE(IsOfTokenizer(Open(source).status()));
  EXPECT_FALSE(IsOfTokenizer(Open(Source(SourceKind::kText, "none.txt")).status()));
}

// It may be a folder of data, or of a model, from somebody else.
TEST_F(SourceTest, AHuggingFaceTokenizerTakesNoCodeFromTheCurrentFolder) {
  Write("longhaul/__init__.py", "");
  Write("longhaul/tokenize.py", "open('ran', 'w')");
  Write("tokenizer.json", "{}");
  const fs::path before = fs::current_path();
  fs::current_path(dir_.Join("data"));
  const absl::Cleanup back = [&] { fs::current_path(before); };
  (void)StartHfTokenizer({.path = dir_.Join("data/tokenizer.json")});
  EXPECT_FALSE(fs::exists("ran"));
}

TEST_F(SourceTest, TokenFilesOfAFolder) {
  Write("t/a.bin", WordsOf<uint16_t>({1, 2}));
  Write("t/b.bin", WordsOf<uint16_t>({3}));
  Write("t/notes.txt", "odd");
  EXPECT_THAT(All(*Open(Source(SourceKind::kNanoGpt, "t")).value()), ElementsAre(1, 2, 3));
  EXPECT_THAT(MessageOf(Source(SourceKind::kNanoGpt, "t"), 3), HasSubstr("b.bin: token 0"));
  const auto dataset = Open(Source(SourceKind::kNanoGpt, "t")).value();
  Write("t/b.bin", WordsOf<uint16_t>({500}));
  int64_t token;
  const absl::Status changed = dataset->Read(2, absl::MakeSpan(&token, 1));
  EXPECT_TRUE(absl::IsDataLoss(changed)) << changed;
  EXPECT_THAT(std::string(changed.message()),
              HasSubstr(dir_.Join("data/t/b.bin") + ": token 0 (at byte 0) is 500, not below"));
}

// Where documents begin, whole and read in parts.
std::vector<int64_t> StartsOf(const Dataset& data) {
  std::vector<int64_t> whole;
  EXPECT_TRUE(data.AppendDocumentStarts(0, data.tokens(), whole).ok());
  for (int64_t part = 1; part <= data.tokens(); ++part) {
    std::vector<int64_t> joined;
    for (int64_t first = 0; first < data.tokens(); first += part)
      EXPECT_TRUE(
          data.AppendDocumentStarts(first, std::min(first + part, data.tokens()), joined).ok());
    EXPECT_EQ(joined, whole) << "parts of " << part;
  }
  return whole;
}

TEST_F(SourceTest, EachSourceTellsWhereDocumentsBegin) {
  const auto starts = [&](SourceOptions source) {
    source.documents = true;
    const auto data = Open(source);
    EXPECT_TRUE(data.ok()) << data.status();
    return StartsOf(**data);
  };
  Write("t/a", "one");
  Write("t/b", "");
  Write("t/c", "three");
  EXPECT_THAT(starts(Source(SourceKind::kText, "t")), ElementsAre(0, 3));
  SourceOptions marked = Source(SourceKind::kText, "t");
  marked.eos = 0;
  EXPECT_THAT(starts(marked), ElementsAre(0, 4)) << "an empty file is no document";
  Write("z.gz", Gzip("one"));
  EXPECT_THAT(starts(Source(SourceKind::kText, "z.gz")), ElementsAre(0));
  Write("a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"\"}\n{\"text\": \"three\"}\n");
  EXPECT_THAT(starts(Source(SourceKind::kJsonl, "a.jsonl")), ElementsAre(0, 4, 5));
  SourceOptions unmarked = Source(SourceKind::kJsonl, "a.jsonl");
  unmarked.eos = kNoToken;
  EXPECT_THAT(starts(unmarked), ElementsAre(0, 3)) << "an empty document has no token";
  for (const char* const name : {"m/a", "m/b"}) {
    Write(absl::StrCat(name, ".bin"), WordsOf<uint16_t>({1, 2, 3, 4, 5, 6}));
    Write(absl::StrCat(name, ".idx"), MegatronIndexBytes({1, 0, 2, 3}, 8, 2));
  }
  EXPECT_THAT(starts(Source(SourceKind::kMegatron, "m")), ElementsAre(0, 1, 3, 6, 7, 9));
}

TEST_F(SourceTest, TokensMarkTheDocumentsOfTokenFiles) {
  Write("t/a.bin", WordsOf<uint16_t>({9, 1, 2, 9, 9, 3, 9}));
  Write("t/b.bin", WordsOf<uint16_t>({4, 5, 9}));
  SourceOptions source = Source(SourceKind::kNanoGpt, "t");
  EXPECT_THAT(StartsOf(**Open(source)), testing::IsEmpty()) << "nothing tells them";
  source.eos = 9;
  source.documents = true;
  EXPECT_THAT(StartsOf(**Open(source)), ElementsAre(0, 1, 4, 5, 7));
  source.bos = 9;
  source.eos.reset();
  EXPECT_THAT(StartsOf(**Open(source)), ElementsAre(0, 3, 4, 6, 9));
  // Of a long file, also where runs of tokens that are read at once meet.
  std::vector<int64_t> tokens(1500, 1);
  for (const int64_t at : {510, 511, 512, 1023, 1024}) tokens[at] = 9;
  Write("t/a.bin", WordsOf<uint16_t>(tokens));
  const auto data = Open(source).value();
  std::vector<int64_t> starts;
  EXPECT_TRUE(data->AppendDocumentStarts(0, 1500, starts).ok());
  EXPECT_THAT(starts, ElementsAre(0, 510, 511, 512, 1023, 1024));
}

TEST_F(SourceTest, DocumentsThatNothingTellsAreRefused) {
  Write("a.bin", WordsOf<uint16_t>({1, 2, 3}));
  SourceOptions source = Source(SourceKind::kNanoGpt, "a.bin");
  source.documents = true;
  EXPECT_THAT(MessageOf(source), HasSubstr("nothing marks them"));
  source.eos = 9;
  EXPECT_THAT(MessageOf(source),
              HasSubstr("a.bin: documents are to be separate, but token 9 (eos)"));
  Write("m.bin", WordsOf<uint16_t>({1, 2, 3}));
  const std::string index = MegatronIndexBytes({3}, 8, 2);
  std::string untold = index.substr(0, index.size() - 16);  // Its list of documents is empty.
  untold[26] = 0;
  Write("m.idx", untold);
  SourceOptions megatron = Source(SourceKind::kMegatron, "m");
  EXPECT_TRUE(Open(megatron).ok());
  megatron.documents = true;
  EXPECT_THAT(MessageOf(megatron), HasSubstr("m.bin: its index lists no documents"));
}

TEST_F(SourceTest, MoreFilesThanAProcessMayOpen) {
  constexpr int kFiles = 300;
  std::filesystem::create_directories(dir_.Join("data/m"));
  for (int i = 0; i < kFiles; ++i) {
    const std::string prefix = absl::StrCat(dir_.Join("data/m/"), 1000 + i);
    WriteBytes(prefix + ".idx", MegatronIndexBytes({2}, 8, 2));
    WriteBytes(prefix + ".bin", WordsOf<uint16_t>({'a', 'b'}));
  }
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few = {.rlim_cur = 64, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto opened = Open(Source(SourceKind::kMegatron, "m"));
  std::vector<int64_t> tokens(2 * kFiles), starts;
  const absl::Status read =
      opened.ok() ? (*opened)->Read(0, absl::MakeSpan(tokens)) : opened.status();
  const absl::Status found =
      opened.ok() ? (*opened)->AppendDocumentStarts(0, 2 * kFiles, starts) : opened.status();
  WriteBytes(dir_.Join("data/m/1007.bin"), WordsOf<uint16_t>({'c', 'd'}));
  const absl::Status changed =
      opened.ok() ? (*opened)->Read(0, absl::MakeSpan(tokens)) : opened.status();
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(read.ok()) << read;
  EXPECT_TRUE(found.ok()) << found;
  EXPECT_EQ(starts.size(), kFiles);
  EXPECT_EQ(tokens.back(), 'b');
  EXPECT_TRUE(absl::IsDataLoss(changed)) << changed;
  EXPECT_THAT(std::string(changed.message()), HasSubstr("1007.bin is not the file that it was"));
}

TEST_F(SourceTest, MegatronByPrefixNameFolderOrPattern) {
  for (const char* const name : {"t/a_text_document", "t/b_text_document"}) {
    Write(absl::StrCat(name, ".bin"), WordsOf<uint16_t>({1, 2, 3}));
    Write(absl::StrCat(name, ".idx"), MegatronIndexBytes({1, 2}, 8, 2));
  }
  for (const char* const path : {"t/a_text_document", "t/a_text_document.bin",
                                 "t/a_text_document.idx", "t/a*", "t/a*.bin"}) {
    const auto dataset = Open(Source(SourceKind::kMegatron, path));
    ASSERT_TRUE(dataset.ok()) << path << dataset.status();
    EXPECT_EQ((*dataset)->tokens(), 3);
  }
  EXPECT_EQ(Open(Source(SourceKind::kMegatron, "t")).value()->tokens(), 6);
  EXPECT_TRUE(absl::IsNotFound(Open(Source(SourceKind::kMegatron, "t/c")).status()));
}

}  // namespace
}  // namespace longhaul
