// Codecs against one memcpy of the same floats, in the same run: rows {name, ours, reference,
// ratio, unit} as JSON, in GB of floats a second. The reference is a single call over the whole
// buffer, which glibc serves with non-temporal stores; smaller calls would be slower and the ratios
// larger. Median of alternating repetitions. --smoke: small and quick, for CI.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/random.h"
#include "common/codec/codec.h"
#include "common/layout/fragment_layout.h"

namespace longhaul {
namespace {

// Page-backed memory in huge pages where the kernel gives them, touched before use.
class Buffer {
 public:
  explicit Buffer(size_t bytes) : bytes_(bytes) {
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    LH_CHECK(data_ != MAP_FAILED, "no memory");
    madvise(data_, bytes, MADV_HUGEPAGE);
    std::memset(data_, 0, bytes);
  }
  Buffer(const Buffer&) = delete;
  ~Buffer() { munmap(data_, bytes_); }
  absl::Span<float> floats() { return {static_cast<float*>(data_), bytes_ / sizeof(float)}; }
  absl::Span<uint8_t> bytes() { return {static_cast<uint8_t*>(data_), bytes_}; }

 private:
  void* data_;
  size_t bytes_;
};

double Seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

class CodecBenchmark {
 public:
  CodecBenchmark(int64_t tiles, int repetitions)
      : tiles_(tiles),
        repetitions_(repetitions),
        in_(tiles * kTileElements * sizeof(float)),
        out_(tiles * kTileElements * sizeof(float)),
        coded_(tiles * kTileElements * sizeof(float)),
        base_exponents_(tiles) {
    Random random(1);
    for (float& x : in_.floats()) x = static_cast<float>(random.Uniform() - 0.5);
  }

  void Run(const CodecOptions& options, const std::string& name) {
    const auto codec = MakeCodec(options).value();
    Add(name + " encode",
        [&] { EachTile(*codec, [&](auto... args) { EncodeTile(*codec, args...); }); });
    Add(name + " validate", [&] {
      EachTile(*codec, [&](int64_t t, auto in, auto out, auto coded) {
        LH_CHECK(codec->Validate(base_exponents_[t], coded, kTileElements).ok(), "valid");
      });
    });
    Add(name + " decode", [&] {
      EachTile(*codec, [&](int64_t t, auto in, auto out, auto coded) {
        LH_CHECK(codec->Decode(base_exponents_[t], coded, out).ok(), "decodes");
      });
    });
    Add(name + " decode and accumulate", [&] {
      EachTile(*codec, [&](int64_t t, auto in, auto out, auto coded) {
        LH_CHECK(codec->DecodeAccumulate(base_exponents_[t], coded, 0.5f, out).ok(), "decodes");
      });
    });
    std::fill(out_.floats().begin(), out_.floats().end(), 0.0f);
    Add(name + " encode with feedback", [&] {
      EachTile(*codec, [&](int64_t t, auto in, auto out, auto coded) {
        LH_CHECK(codec->EncodeWithFeedback(in, out, coded).ok(), "encodes");
      });
    });
  }

  const nlohmann::json& rows() const { return rows_; }

 private:
  using Tile =
      std::function<void(int64_t, absl::Span<const float>, absl::Span<float>, absl::Span<uint8_t>)>;

  void EncodeTile(const Codec& codec, int64_t t, absl::Span<const float> in, absl::Span<float>,
                  absl::Span<uint8_t> coded) {
    const auto result = codec.Encode(in, coded);
    LH_CHECK(result.ok(), "encodes");
    base_exponents_[t] = result->base_exponent;
  }

  void EachTile(const Codec& codec, const Tile& work) {
    const int64_t bytes = codec.PayloadBytes(kTileElements);
    for (int64_t t = 0; t < tiles_; ++t) {
      work(t, in_.floats().subspan(t * kTileElements, kTileElements),
           out_.floats().subspan(t * kTileElements, kTileElements),
           coded_.bytes().subspan(t * bytes, bytes));
    }
  }

  void Add(const std::string& name, const std::function<void()>& work) {
    std::vector<double> ours, reference;
    for (int i = 0; i < repetitions_; ++i) {
      ours.push_back(Seconds(work));
      reference.push_back(
          Seconds([&] { std::memcpy(scratch_.data(), in_.bytes().data(), in_.bytes().size()); }));
    }
    const double gigabytes = in_.bytes().size() * 1e-9;
    const double a = gigabytes / Median(ours), b = gigabytes / Median(reference);
    rows_.push_back(
        {{"name", name}, {"ours", a}, {"reference", b}, {"ratio", a / b}, {"unit", "GB/s"}});
  }

  const int64_t tiles_;
  const int repetitions_;
  Buffer in_, out_, coded_;
  Buffer scratch_buffer_{static_cast<size_t>(tiles_ * kTileElements * sizeof(float))};
  absl::Span<uint8_t> scratch_ = scratch_buffer_.bytes();
  std::vector<int32_t> base_exponents_;
  nlohmann::json rows_ = nlohmann::json::array();
};

int Main(bool smoke) {
  CodecBenchmark benchmark(smoke ? 16 : 1024, smoke ? 3 : 9);
  benchmark.Run({.kind = CodecKind::kE3m0}, "e3m0");
  benchmark.Run({.kind = CodecKind::kE3m0, .search_scale = true}, "e3m0 searched");
  benchmark.Run({.kind = CodecKind::kBf16}, "bf16");
  benchmark.Run({.kind = CodecKind::kFp32}, "fp32");
  for (const nlohmann::json& row : benchmark.rows()) std::cout << row.dump() << "\n";
  return 0;
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  return longhaul::Main(argc > 1 && std::string(argv[1]) == "--smoke");
}
