// The coordinator's arithmetic of a round against one memcpy of the state that it must read and
// write (12 bytes a parameter: outer parameters, momentum, server error): decode two contributions,
// outer step, server error feedback, encode the downlink, add it. One core, buffers in memory.
//   outer_benchmark [--smoke]
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/random.h"
#include "common/base/read_ahead.h"
#include "common/layout/fragment_layout.h"
#include "coordinator/outer/apply_tile.h"
#include "coordinator/outer/nesterov.h"
#include "tests/benchmark/harness/buffer.h"
#include "tests/benchmark/harness/row.h"

namespace longhaul::benchmark {
namespace {

class OuterBenchmark {
 public:
  OuterBenchmark(CodecKind kind, int64_t tiles)
      : codec_(MakeCodec({.kind = kind}).value()),
        tiles_(tiles),
        coded_bytes_(codec_->PayloadBytes(kTileElements)),
        state_(3 * Bytes()),
        copy_(3 * Bytes()),
        contributions_(2 * tiles * coded_bytes_),
        downlink_(tiles * coded_bytes_) {
    Random random(1);
    std::vector<float> delta(kTileElements);
    for (int64_t t = 0; t < 2 * tiles_; ++t) {
      for (float& x : delta) x = static_cast<float>(random.Uniform() - 0.5) * 1e-3f;
      exponents_.push_back(codec_->Encode({delta}, {}, Coded(contributions_, t))->base_exponent);
    }
  }

  void Run() const {
    const Nesterov nesterov(0.4f, 0.9f);
    WeightedMean mean;
    for (int64_t t = 0; t < tiles_; ++t) {
      mean.Reset(kTileElements);
      for (int pool = 0; pool < 2; ++pool) {
        const int64_t which = 2 * t + pool;
        mean.Add(*codec_, 0.5f, 0, {kTileElements, exponents_[which], Coded(contributions_, which)},
                 pool);
      }
      const auto part = [&](int array) {
        return state_.floats().subspan((array * tiles_ + t) * kTileElements, kTileElements);
      };
      LH_CHECK(
          ApplyTile(nesterov, *codec_, mean, {part(0), part(1), part(2)}, {}, Coded(downlink_, t))
              .ok(),
          "finite steps");
    }
  }

  // What no round can pass: the same bytes read and written where they are.
  void Touch() const {
    const auto bytes = state_.bytes();
    for (size_t at = 0; at < 3 * Bytes(); at += 64) {
      if (at % kReadAheadBytes == 0)
        ReadAhead(&bytes[at], static_cast<int64_t>(at) / kReadAheadBytes);
      uint64_t words[8];
      std::memcpy(words, &bytes[at], sizeof(words));
      for (uint64_t& word : words) word ^= 1;
      std::memcpy(&bytes[at], words, sizeof(words));
    }
  }
  void Copy() const { std::memcpy(copy_.bytes().data(), state_.bytes().data(), 3 * Bytes()); }
  double gigabytes() const { return 3e-9 * static_cast<double>(Bytes()); }

 private:
  size_t Bytes() const { return tiles_ * kTileElements * sizeof(float); }
  absl::Span<uint8_t> Coded(const Buffer& buffer, int64_t index) const {
    return buffer.bytes().subspan(index * coded_bytes_, coded_bytes_);
  }

  const std::unique_ptr<Codec> codec_;
  const int64_t tiles_, coded_bytes_;
  const Buffer state_, copy_, contributions_, downlink_;
  std::vector<int32_t> exponents_;
};

void PrintRow(const std::string& name, const OuterBenchmark& benchmark, const Pair& seconds,
              std::optional<double> target, const std::string& note) {
  Print({.name = name,
         .ours = benchmark.gigabytes() / seconds.ours,
         .reference = benchmark.gigabytes() / seconds.reference,
         .ratio = seconds.reference / seconds.ours,
         .target = target,
         .unit = "GB/s",
         .note = "reference: memcpy of 12 bytes a parameter, one call; " + note});
}

int Main(bool smoke) {
  const int repetitions = smoke ? 1 : 9;
  {
    const OuterBenchmark benchmark(CodecKind::kE3m0, smoke ? 8 : 512);
    PrintRow("update_in_place", benchmark,
             Alternate(
                 repetitions, [&] { benchmark.Touch(); }, [&] { benchmark.Copy(); }),
             std::nullopt, "a bit of each word flipped, one core");
  }
  for (const CodecKind kind : {CodecKind::kE3m0, CodecKind::kInt8, CodecKind::kInt4}) {
    const OuterBenchmark benchmark(kind, smoke ? 8 : 512);
    const Pair seconds = Alternate(
        repetitions, [&] { benchmark.Run(); }, [&] { benchmark.Copy(); });
    PrintRow("coordinator_round_" + std::string(CodecName(kind)), benchmark, seconds, 1.0,
             "two pools, one core");
  }
  return 0;
}

}  // namespace
}  // namespace longhaul::benchmark

int main(int argc, char** argv) {
  return longhaul::benchmark::Main(argc > 1 && std::string(argv[1]) == "--smoke");
}
