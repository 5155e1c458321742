// Codecs against one memcpy of the same floats, in the same run and on one core. The reference is a
// single call over the whole buffer, which glibc serves with non-temporal stores; smaller calls
// would be slower and the ratios larger. Buffers lie in huge pages where the kernel gives them,
// ours and the reference's alike.
//   codec_benchmark [--smoke|WHAT]     256 MiB of floats, 9 alternating runs; --smoke: small,
//                                      quick; WHAT: one codec, or read, or stochastic
//   codec_benchmark --piquant LIBRARY  the reference is pi-quant (piquant.py finds the library)
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/random.h"
#include "common/base/read_ahead.h"
#include "common/codec/codec.h"
#include "common/layout/fragment_layout.h"
#include "tests/benchmark/codec/piquant.h"
#include "tests/benchmark/harness/buffer.h"
#include "tests/benchmark/harness/row.h"

namespace longhaul::benchmark {
namespace {

struct Targets {
  std::optional<double> encode, accumulate, feedback;
};

class CodecBenchmark {
 public:
  CodecBenchmark(int64_t tiles, int repetitions)
      : tiles_(tiles),
        repetitions_(repetitions),
        in_(Bytes()),
        minus_(Bytes()),
        out_(Bytes()),
        scratch_(Bytes()),
        coded_(Bytes()),
        exponents_(tiles) {
    Random random(1);
    for (float& x : in_.floats()) x = static_cast<float>(random.Uniform() - 0.5);
    for (float& x : minus_.floats()) x = static_cast<float>(random.Uniform() - 0.5);
  }

  void Run(const std::string& name, const CodecOptions& options, const Targets& targets) {
    const auto codec = MakeCodec(options).value();
    Add("encode_" + name, targets.encode, [&] { EncodeAll(*codec, false); });
    Add("validate_" + name, std::nullopt, [&] {
      EachTile(*codec, [&](int64_t t, auto coded) {
        LH_CHECK(codec->Validate({kTileElements, exponents_[t], coded}).ok(), "valid");
      });
    });
    Add("accumulate_" + name, targets.accumulate, [&] {
      EachTile(*codec, [&](int64_t t, auto coded) {
        const auto acc = Tile(out_, t);
        LH_CHECK(codec->DecodeAccumulate({kTileElements, exponents_[t], coded}, 0.5f, acc).ok(),
                 "decodes");
      });
    });
    std::fill(out_.floats().begin(), out_.floats().end(), 0.0f);
    Add("feedback_" + name, targets.feedback, [&] { EncodeAll(*codec, true); });
  }

  // What no encoder can pass: reading alone, as encoders do and without reading ahead.
  void RunRead() {
    Add("read", std::nullopt, [&] { Read<true>(); });
    Add("read_in_order", std::nullopt, [&] { Read<false>(); });
  }

  // Nearest as the reference: time of nearest / time of stochastic.
  void RunStochastic(const std::string& name, CodecOptions options, double target) {
    const auto nearest = MakeCodec(options).value();
    options.stochastic = true;
    const auto stochastic = MakeCodec(options).value();
    const Pair seconds = Alternate(
        repetitions_, [&] { EncodeAll(*stochastic, false); }, [&] { EncodeAll(*nearest, false); });
    Report("stochastic_" + name, target, seconds, "reference: nearest, the same codec");
  }

  // pi-quant's parameters are those of the whole buffer, ours those of blocks.
  void RunPiQuant(const std::string& name, const CodecOptions& options, const PiQuant& piquant,
                  PiQuant::Type type, double target) {
    const auto codec = MakeCodec(options).value();
    const Pair seconds = Alternate(
        repetitions_, [&] { EncodeAll(*codec, false); },
        [&] { piquant.Quantize(in_.floats(), type, options.stochastic, scratch_.bytes().data()); });
    const char* const theirs = type == PiQuant::Type::kUint4 ? "uint4" : "uint8";
    Report(name + "_vs_piquant", target, seconds,
           std::string("reference: pi-quant 4.1 ") + theirs + ", its parameters included");
  }

 private:
  size_t Bytes() const { return tiles_ * kTileElements * sizeof(float); }
  static absl::Span<float> Tile(Buffer& buffer, int64_t t) {
    return buffer.floats().subspan(t * kTileElements, kTileElements);
  }

  template <bool kAhead>
  void Read() {
    const auto bytes = in_.bytes();
    uint64_t sums[8] = {};
    for (size_t at = 0; at < bytes.size(); at += kReadAheadBytes) {
      if (kAhead) ReadAhead(&bytes[at], static_cast<int64_t>(at) / kReadAheadBytes);
      for (size_t line = at; line < at + kReadAheadBytes; line += sizeof(sums)) {
        uint64_t words[8];
        std::memcpy(words, &bytes[line], sizeof(words));
        for (int i = 0; i < 8; ++i) sums[i] += words[i];
      }
    }
    for (const uint64_t sum : sums) read_ = read_ + sum;
  }

  void EachTile(const Codec& codec, const std::function<void(int64_t, absl::Span<uint8_t>)>& work) {
    const int64_t bytes = codec.PayloadBytes(kTileElements);
    for (int64_t t = 0; t < tiles_; ++t) work(t, coded_.bytes().subspan(t * bytes, bytes));
  }

  // With feedback: in - minus + error, and what is lost into the error.
  void EncodeAll(const Codec& codec, bool feedback) {
    EachTile(codec, [&](int64_t t, absl::Span<uint8_t> coded) {
      const NoiseKey noise = {.key = 1, .first_block = t * kTileBlocks};
      EncodeInput input = {Tile(in_, t)};
      if (feedback) input = {Tile(in_, t), Tile(minus_, t), Tile(out_, t)};
      const auto lost = feedback ? Tile(out_, t) : absl::Span<float>();
      const auto result = codec.Encode(input, lost, coded, noise);
      LH_CHECK(result.ok(), "encodes");
      exponents_[t] = result->base_exponent;
    });
  }

  void Add(const std::string& name, std::optional<double> target,
           const std::function<void()>& work) {
    const auto copy = [&] { std::memcpy(scratch_.bytes().data(), in_.bytes().data(), Bytes()); };
    Report(name, target, Alternate(repetitions_, work, copy), "reference: memcpy, one call");
  }

  void Report(const std::string& name, std::optional<double> target, const Pair& seconds,
              const std::string& note) {
    const double gigabytes = 1e-9 * static_cast<double>(Bytes());
    Print({.name = name,
           .ours = gigabytes / seconds.ours,
           .reference = gigabytes / seconds.reference,
           .ratio = seconds.reference / seconds.ours,
           .target = target,
           .unit = "GB/s",
           .note = note + "; of fp32, one core"});
  }

  const int64_t tiles_;
  const int repetitions_;
  Buffer in_, minus_, out_, scratch_, coded_;
  std::vector<int32_t> exponents_;
  volatile uint64_t read_ = 0;  // Keeps the reads.
};

int ComparePiQuant(const std::string& library) {
  const PiQuant piquant(library);
  using Type = PiQuant::Type;
  CodecBenchmark benchmark(1024, 9);
  benchmark.RunPiQuant("e3m0", {.kind = CodecKind::kE3m0}, piquant, Type::kUint4, 1.5);
  benchmark.RunPiQuant("int4", {.kind = CodecKind::kInt4}, piquant, Type::kUint4, 1.5);
  benchmark.RunPiQuant("int8", {.kind = CodecKind::kInt8}, piquant, Type::kUint8, 1.5);
  benchmark.RunPiQuant("stochastic_int8", {.kind = CodecKind::kInt8, .stochastic = true}, piquant,
                       Type::kUint8, 10);
  benchmark.RunPiQuant("stochastic_e3m0", {.kind = CodecKind::kE3m0, .stochastic = true}, piquant,
                       Type::kUint8, 10);
  return 0;
}

// `only`: one codec, or "read", or "stochastic"; empty: all.
int Main(bool smoke, const std::string& only) {
  CodecBenchmark benchmark(smoke ? 16 : 1024, smoke ? 3 : 9);
  bool known = only.empty();
  const auto wanted = [&](const std::string& name) {
    known |= only == name;
    return only.empty() || only == name;
  };
  if (wanted("read")) benchmark.RunRead();
  const auto run = [&](const std::string& name, CodecOptions options, const Targets& targets) {
    if (wanted(name)) benchmark.Run(name, options, targets);
  };
  run("e3m0", {.kind = CodecKind::kE3m0}, {1.05, 1.0, 0.38});
  run("int4", {.kind = CodecKind::kInt4}, {1.05, 1.0, 0.38});
  run("int8", {.kind = CodecKind::kInt8}, {1.2, 1.0, 0.38});
  run("sign1", {.kind = CodecKind::kSign1}, {1.25, 1.15, 0.38});
  run("topk2", {.kind = CodecKind::kTopk2}, {0.8, std::nullopt, std::nullopt});
  run("bf16", {.kind = CodecKind::kBf16}, {});
  run("fp32", {.kind = CodecKind::kFp32}, {});
  run("e3m0_searched", {.kind = CodecKind::kE3m0, .search_scale = true}, {});
  run("int6", {.kind = CodecKind::kInt6}, {});
  run("int4_searched", {.kind = CodecKind::kInt4, .search_scale = true}, {});
  if (wanted("stochastic")) {
    benchmark.RunStochastic("int8", {.kind = CodecKind::kInt8}, 0.85);
    benchmark.RunStochastic("e3m0", {.kind = CodecKind::kE3m0}, 0.85);
    benchmark.RunStochastic("int4", {.kind = CodecKind::kInt4}, 0.85);
  }
  LH_CHECK(known, "a benchmark of that name");
  return 0;
}

}  // namespace
}  // namespace longhaul::benchmark

int main(int argc, char** argv) {
  if (argc > 2 && std::string(argv[1]) == "--piquant")
    return longhaul::benchmark::ComparePiQuant(argv[2]);
  const std::string argument = argc > 1 ? argv[1] : "";
  const bool smoke = argument == "--smoke";
  return longhaul::benchmark::Main(smoke, smoke ? "" : argument);
}
