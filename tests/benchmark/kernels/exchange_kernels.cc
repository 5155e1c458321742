#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/random.h"
#include "common/codec/codec.h"
#include "common/io/digest.h"
#include "common/layout/fragment_layout.h"
#include "coordinator/outer/apply_tile.h"
#include "coordinator/outer/nesterov.h"
#include "tests/benchmark/kernels/kernels.h"
#include "worker/collective/sign_kernels.h"
#include "worker/kernels/gather_rows.h"

namespace longhaul::benchmark {
namespace {

struct Arrays {
  explicit Arrays(int64_t floats) : values(4 * floats), minus(4 * floats), error(4 * floats) {
    Random random(1);
    for (float& x : values.floats()) x = static_cast<float>(random.Uniform() - 0.5);
    for (float& x : minus.floats()) x = static_cast<float>(random.Uniform() - 0.5);
  }
  int64_t tiles() const { return static_cast<int64_t>(values.floats().size()) / kTileElements; }
  static absl::Span<float> Tile(const Buffer& buffer, int64_t t) {
    return buffer.floats().subspan(t * kTileElements, kTileElements);
  }
  Buffer values, minus, error;
};

// Vector instructions for each element of an encoder that computes more than memory waits: without
// AVX-512, which has fewer by a fifth. The largest magnitude of a block takes two, and packing a
// code three. Quantizing takes 4 for int4 and int8, and 9 for e3m0; random rounding 2 and 6 more.
double EncodeInstructions(const CodecOptions& options) {
  const bool integer = options.kind != CodecKind::kE3m0;
  const double quantize = integer ? 4 : 9;
  if (options.search_scale) {
    // For each of 16 candidates also the value (2 for integers), and the sum of the scaled squares
    // of what is lost.
    const double candidate = quantize + (integer ? 2 : 0) + 4;
    return 2 + 3 + quantize + 16 * candidate;
  }
  // Philox-4x32-7 gives 8 elements of a lane their noise. The products of 32 bits fill half a
  // vector's lanes, so each of 7 rounds takes twice 2 products, 2 upper halves and 4 exclusive
  // ors, of which the first two rounds save 18; placing the noise takes 3.
  const double noise = (7 * 16 - 18) / 8.0 + 3;
  return 2 + 3 + quantize + (integer ? 2 : 6) + noise;
}

void AddCodec(KernelTable& table, const std::string& name, const CodecOptions& options,
              const Arrays& arrays) {
  const auto codec = MakeCodec(options).value();
  const int64_t tiles = arrays.tiles(), coded_bytes = codec->PayloadBytes(kTileElements);
  const Buffer payload(tiles * coded_bytes);
  std::vector<int32_t> exponents(tiles);
  const auto coded = [&](int64_t t) {
    return payload.bytes().subspan(t * coded_bytes, coded_bytes);
  };
  const auto segment = [&](int64_t t) -> SegmentView {
    return {kTileElements, exponents[t], coded(t)};
  };
  const auto encode = [&](bool feedback) {
    for (int64_t t = 0; t < tiles; ++t) {
      EncodeInput in{Arrays::Tile(arrays.values, t)};
      if (feedback) {
        in.minus = Arrays::Tile(arrays.minus, t);
        in.error = Arrays::Tile(arrays.error, t);
      }
      const auto lost = feedback ? Arrays::Tile(arrays.error, t) : absl::Span<float>();
      const auto result =
          codec->Encode(in, lost, coded(t), {.key = 1, .first_block = t * kTileBlocks});
      LH_CHECK(result.ok(), "encodes");
      exponents[t] = result->base_exponent;
    }
  };
  const double bytes = 4.0 * static_cast<double>(tiles * kTileElements);
  const auto narrow = static_cast<double>(tiles * coded_bytes);
  const bool computes = options.stochastic || options.search_scale;
  const double operations =
      computes ? 2 * EncodeInstructions(options) * static_cast<double>(tiles * kTileElements) : 0;
  table.Add("encode_" + name, {.operations = operations, .reads = bytes, .writes = narrow},
            [&] { encode(false); });
  if (computes) return;
  encode(false);
  const auto decode = [&](auto&& work) {
    return [&tiles, work] {
      for (int64_t t = 0; t < tiles; ++t) LH_CHECK(work(t).ok(), "decodes");
    };
  };
  table.Add("validate_" + name, {.reads = narrow},
            decode([&](int64_t t) { return codec->Validate(segment(t)); }));
  table.Add("decode_" + name, {.reads = narrow, .writes = bytes}, decode([&](int64_t t) {
              return codec->Decode(segment(t), Arrays::Tile(arrays.error, t));
            }));
  table.Add("accumulate_" + name, {.reads = narrow + bytes, .writes = bytes},
            decode([&](int64_t t) {
              return codec->DecodeAccumulate(segment(t), 0.5f, Arrays::Tile(arrays.error, t));
            }));
  std::fill(arrays.error.floats().begin(), arrays.error.floats().end(), 0.0f);
  table.Add("feedback_" + name, {.reads = 3 * bytes, .writes = bytes + narrow},
            [&] { encode(true); });
}

// Two contributions decoded, momentum, error feedback, downlink: as a coordinator's round.
void AddOuterStep(KernelTable& table, CodecKind kind, const Arrays& arrays) {
  const auto codec = MakeCodec({.kind = kind}).value();
  const int64_t tiles = arrays.tiles(), coded_bytes = codec->PayloadBytes(kTileElements);
  const Buffer contributions(2 * tiles * coded_bytes), downlink(tiles * coded_bytes);
  const auto coded = [&](const Buffer& buffer, int64_t at) {
    return buffer.bytes().subspan(at * coded_bytes, coded_bytes);
  };
  std::vector<int32_t> exponents;
  std::vector<float> delta(kTileElements);
  Random random(2);
  for (int64_t t = 0; t < 2 * tiles; ++t) {
    for (float& x : delta) x = static_cast<float>(random.Uniform() - 0.5) * 1e-3f;
    exponents.push_back(codec->Encode({delta}, {}, coded(contributions, t))->base_exponent);
  }
  for (const Buffer* state : {&arrays.minus, &arrays.error})
    std::fill(state->floats().begin(), state->floats().end(), 0.0f);
  const double bytes = 4.0 * static_cast<double>(tiles * kTileElements);
  const auto narrow = static_cast<double>(tiles * coded_bytes);
  const bool exact = codec->exact();
  const Nesterov nesterov(0.4f, 0.9f);
  WeightedMean mean;
  // Parameters, momentum and, unless the codec is exact, error.
  const double state = exact ? 2 : 3;
  table.Add("outer_step_" + std::string(CodecName(kind)),
            {.reads = state * bytes + 2 * narrow, .writes = state * bytes + narrow}, [&] {
              for (int64_t t = 0; t < tiles; ++t) {
                mean.Reset(kTileElements);
                for (int pool = 0; pool < 2; ++pool) {
                  const int64_t which = 2 * t + pool;
                  mean.Add(*codec, 0.5f, 0,
                           {kTileElements, exponents[which], coded(contributions, which)}, pool);
                }
                LH_CHECK(ApplyTile(nesterov, *codec, mean,
                                   {Arrays::Tile(arrays.values, t), Arrays::Tile(arrays.minus, t),
                                    Arrays::Tile(arrays.error, t)},
                                   {}, coded(downlink, t))
                             .ok(),
                         "finite steps");
              }
            });
}

void AddSignKernels(KernelTable& table, const Arrays& arrays) {
  const absl::Span<float> x = arrays.values.floats(), feedback = arrays.error.floats();
  const auto n = static_cast<int64_t>(x.size());
  const auto count = static_cast<double>(n);
  std::vector<uint8_t> signs(n / 8);
  std::fill(feedback.begin(), feedback.end(), 0.0f);
  table.Add("onebit_add_feedback", {.reads = 8 * count, .writes = 4 * count},
            [&] { AddFeedback(n, x.data(), feedback.data()); });
  table.Add("onebit_take_signs", {.reads = 4 * count, .writes = 4.125 * count}, [&] {
    std::fill(signs.begin(), signs.end(), 0);
    TakeSigns(n, 0.1f, feedback.data(), signs.data(), 0);
  });
  table.Add("onebit_add_signs", {.reads = 4.125 * count, .writes = 4 * count},
            [&] { AddSigns(n, 0.1f, signs.data(), 0, feedback.data()); });
}

void AddGatherAndDigest(KernelTable& table, const Arrays& arrays) {
  const auto bytes = arrays.values.bytes();
  const int64_t row_bytes = 400, rows = static_cast<int64_t>(bytes.size()) / row_bytes;
  // Half of the rows, far from each other.
  std::vector<int64_t> ids(rows / 2);
  Random random(3);
  for (int64_t& id : ids) id = static_cast<int64_t>(random.Uniform() * static_cast<double>(rows));
  const auto moved = static_cast<double>(row_bytes) * static_cast<double>(ids.size());
  // Memory gives lines of 64 bytes. A row at a multiple of 16 bytes lies in seven.
  table.Add("gather_rows_400", {.reads = moved * 448 / 400, .writes = moved}, [&] {
    GatherRows(bytes.data(), row_bytes, ids, arrays.error.bytes().data(), nullptr);
  });
  volatile uint64_t kept = 0;
  table.Add("digest_xxh3_128", {.reads = static_cast<double>(bytes.size())},
            [&] { kept = DigestOf(BytesOf(arrays.values.floats())).low; });
}

}  // namespace

void AddExchangeKernels(KernelTable& table) {
  const Arrays arrays(table.large_floats());
  for (const CodecRow& codec : kCodecs)
    AddCodec(table, std::string(codec.name), {.kind = codec.kind}, arrays);
  for (const CodecKind kind : {CodecKind::kE3m0, CodecKind::kInt8, CodecKind::kInt4}) {
    const std::string name(CodecName(kind));
    AddCodec(table, name + "_stochastic", {.kind = kind, .stochastic = true}, arrays);
    if (kind != CodecKind::kInt8)
      AddCodec(table, name + "_searched", {.kind = kind, .search_scale = true}, arrays);
  }
  for (const CodecKind kind :
       {CodecKind::kFp32, CodecKind::kE3m0, CodecKind::kInt8, CodecKind::kInt4}) {
    AddOuterStep(table, kind, arrays);
  }
  AddSignKernels(table, arrays);
  AddGatherAndDigest(table, arrays);
}

}  // namespace longhaul::benchmark
