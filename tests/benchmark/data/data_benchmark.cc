// How many tokens a second batches are made of, on one thread, against what the quickstart's model
// consumes; and how fast JSONL becomes byte tokens. With --jsonl and --tokenizer only how long a
// rank takes to make tokens of that file, for tokenize.py.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/random.h"
#include "tests/benchmark/harness/flags.h"
#include "tests/benchmark/harness/row.h"
#include "tests/testing/temp_dir.h"
#include "worker/data/source.h"
#include "worker/data/token_batches.h"

namespace longhaul::benchmark {
namespace {

// Tokens a second of the quickstart's model on two threads of a server (README.md here), and how
// many times that data is to be ready.
constexpr double kConsumed = 50e3, kTimes = 50;
constexpr int64_t kContext = 128, kBatch = 8, kVocab = 50257;

struct Files {
  TempDir dir;
  int64_t tokens = 0;

  explicit Files(int64_t count) : tokens(count) {
    std::vector<uint16_t> words(count);
    Random random(1);
    for (uint16_t& word : words) word = static_cast<uint16_t>(random.Below(kVocab));
    Write("gpt.bin", words.data(), words.size() * sizeof(uint16_t));
    std::string lines;
    for (int64_t i = 0; static_cast<int64_t>(lines.size()) < count; ++i) {
      absl::StrAppend(&lines, "{\"id\": ", i,
                      ", \"text\": \"The station follows the river, number ", random.Next(),
                      ", and remembers the old library.\\n\"}\n");
    }
    Write("lines.jsonl", lines.data(), lines.size());
  }
  void Write(const std::string& name, const void* bytes, size_t size) const {
    std::ofstream file(dir.Join(name), std::ios::binary);
    file.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(size));
    LH_CHECK(file.good(), "the benchmark's files fit the disk");
  }
  std::unique_ptr<Dataset> Open(SourceKind kind, const std::string& name) const {
    auto opened =
        OpenSource({.kind = kind, .path = dir.Join(name)}, kVocab, {.folder = dir.Join("work")});
    LH_CHECK(opened.ok(), "the benchmark's own files are good");
    return *std::move(opened);
  }
};

void MeasureBatches(const std::string& name, const Files& files,
                    const std::vector<std::pair<SourceKind, std::string>>& sources, DataOrder order,
                    int64_t steps) {
  std::vector<std::unique_ptr<Dataset>> datasets;
  ExamplePlan::Options options{.order = order, .context = kContext, .batch = kBatch, .seed = 1};
  for (const auto& [kind, path] : sources) {
    datasets.push_back(files.Open(kind, path));
    options.sources.push_back({path, datasets.back()->tokens()});
  }
  const TokenBatches batches({.context = kContext, .batch = kBatch}, std::move(datasets),
                             ExamplePlan::Create(options).value());
  std::vector<double> seconds;
  for (int repetition = 0; repetition < 5; ++repetition) {
    seconds.push_back(Seconds([&] {
      for (int64_t step = 1; step <= steps; ++step)
        LH_CHECK(batches.Make(step).ok(), "batches are made");
    }));
  }
  const double rate = static_cast<double>(steps * kBatch * kContext) / Median(seconds);
  Print({.name = absl::StrCat("data / batches, ", name),
         .ours = rate / 1e6,
         .reference = kConsumed / 1e6,
         .ratio = rate / kConsumed,
         .target = kTimes,
         .unit = "Mtoken/s",
         .note = "one thread; reference: what the quickstart's model consumes"});
}

void MeasureJsonl(const Files& files) {
  const double seconds = Seconds([&] { files.Open(SourceKind::kJsonl, "lines.jsonl"); });
  const auto bytes = static_cast<double>(std::filesystem::file_size(files.dir.Join("lines.jsonl")));
  Print({.name = "data / JSONL to byte tokens, once",
         .ours = bytes / seconds / 1e6,
         .reference = kConsumed / 1e6,
         .ratio = bytes / seconds / kConsumed,
         .target = kTimes,
         .unit = "MB/s",
         .note = "reading, parsing, writing, syncing"});
}

// As a rank does when its job begins.
void TimeSource(const std::string& jsonl, const std::string& tokenizer, int threads) {
  const TempDir work;
  int64_t tokens = 0;
  const double seconds = Seconds([&] {
    const auto opened =
        OpenSource({.kind = SourceKind::kJsonl, .path = jsonl, .tokenizer = tokenizer}, 1 << 30,
                   {.folder = work.path(), .threads = threads});
    LH_CHECK(opened.ok(), opened.status().ToString().c_str());
    tokens = (*opened)->tokens();
  });
  std::printf("{\"seconds\": %f, \"tokens\": %lld}\n", seconds, static_cast<long long>(tokens));
}

}  // namespace
}  // namespace longhaul::benchmark

int main(int argc, char** argv) {
  using namespace longhaul;  // NOLINT: a file of one function
  bool smoke = false;
  int64_t mebitokens = 64;
  std::string file, tokenizer;
  int threads = 1;
  const auto end =
      benchmark::ReadFlags("Batches of tokens against what a model consumes.", argc, argv,
                           {{"--mebitokens", &mebitokens},
                            {"--smoke", &smoke, "small and short"},
                            {"--jsonl", &file, "only this file, by --tokenizer"},
                            {"--tokenizer", &tokenizer, "of --jsonl"},
                            {"--threads", &threads}});
  if (end) return *end;
  if (!file.empty()) return benchmark::TimeSource(file, tokenizer, threads), 0;
  const benchmark::Files files(smoke ? 1 << 18 : mebitokens << 20);
  const int64_t steps = smoke ? 20 : 20000;
  const std::pair<SourceKind, std::string> gpt = {SourceKind::kNanoGpt, "gpt.bin"},
                                           jsonl = {SourceKind::kJsonl, "lines.jsonl"};
  benchmark::MeasureJsonl(files);
  benchmark::MeasureBatches("nanoGPT, draws", files, {gpt}, DataOrder::kDraws, steps);
  benchmark::MeasureBatches("nanoGPT, epochs", files, {gpt}, DataOrder::kEpochs, steps);
  benchmark::MeasureBatches("mixture of two, epochs", files, {gpt, jsonl}, DataOrder::kEpochs,
                            steps);
}
