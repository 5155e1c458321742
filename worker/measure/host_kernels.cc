#include "worker/measure/host_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "common/base/check.h"
#include "common/base/huge_pages.h"
#include "common/base/random.h"
#include "common/layout/fragment_layout.h"
#include "worker/kernels/adamw_kernel.h"
#include "worker/kernels/gather_rows.h"
#include "worker/kernels/gemm.h"
#include "worker/kernels/gemm_bf16.h"

namespace longhaul {
namespace {

constexpr int64_t kFloat = sizeof(float);
// Of a row of features.
constexpr int64_t kRowBytes = 512;
// Rows of a gather; what is written stays in the caches.
constexpr int64_t kGatheredRows = 128;
constexpr int64_t kSweptDim = 128;

using Floats = HugePageVector<float>;

// A run works on a part of the memory, and the next run on the next one: so runs are short, and one
// that others disturb is told from those that they do not.
constexpr int64_t kPartBytes = 1 << 18;

// Arrays of the same place in a page would compete for the same sets of the first cache.
constexpr int64_t kApart = 272;

AdamWConstants Constants() {
  return {.gradient_scale = 1,
          .beta1 = 0.9F,
          .one_minus_beta1 = 0.1F,
          .beta2 = 0.99F,
          .one_minus_beta2 = 0.01F,
          .keep = 1,
          .step_size = 1e-4F,
          .inverse_root = 1,
          .eps = 1e-8F};
}

KernelRun AdamWRun(int64_t bytes) {
  struct Memory {
    Floats floats;
    int64_t next = 0;
  };
  constexpr int kArrays = 4;
  const int64_t parts = std::max<int64_t>(1, bytes / kPartBytes);
  const int64_t n = std::max<int64_t>(kLineGrain, bytes / parts / (kArrays * kFloat));
  const int64_t stride = parts * n + kApart;
  const auto memory = std::make_shared<Memory>();
  memory->floats.assign(kArrays * stride, 1e-3F);
  return {n, [memory, n, parts, stride] {
            float* const at = memory->floats.data() + memory->next * n;
            AdamWKernel(Constants(), n,
                        {.gradients = at,
                         .parameters = at + stride,
                         .moment = at + 2 * stride,
                         .variance = at + 3 * stride});
            memory->next = (memory->next + 1) % parts;
          }};
}

std::shared_ptr<const Codec> CodecOf(CodecKind kind) {
  absl::StatusOr<std::unique_ptr<Codec>> codec = MakeCodec({.kind = kind});
  LH_CHECK(codec.ok(), "a codec of its defaults");
  return *std::move(codec);
}

// Values with the spread of deltas.
void Fill(Floats& values) {
  uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = (static_cast<float>(state >> 8) / (1 << 24) - 0.5F) * 1e-3F;
  }
}

KernelRun EncodeSweep(int64_t bytes) {
  // Values, outer parameters and error feedback, and half a byte of code.
  return EncodeRun(CodecKind::kE3m0, bytes * 2 / (3 * 2 * kFloat + 1));
}

KernelRun GatherRun(int64_t bytes) {
  struct Memory {
    HugePageVector<uint8_t> table, out;
    std::vector<int64_t> ids;
    size_t next = 0;
  };
  const auto memory = std::make_shared<Memory>();
  const int64_t rows = std::max<int64_t>(kGatheredRows, bytes / kRowBytes);
  memory->table.assign(rows * kRowBytes, 1);
  memory->out.resize(kGatheredRows * kRowBytes);
  memory->ids.resize(rows / kGatheredRows * kGatheredRows);
  std::iota(memory->ids.begin(), memory->ids.end(), 0);
  uint64_t state = 1;
  for (size_t i = memory->ids.size(); i > 1; --i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    std::swap(memory->ids[i - 1], memory->ids[(state >> 33) % i]);
  }
  return {kGatheredRows * kRowBytes / kFloat, [memory] {
            GatherRows(memory->table.data(), kRowBytes,
                       absl::MakeConstSpan(memory->ids).subspan(memory->next, kGatheredRows),
                       memory->out.data(), nullptr);
            memory->next = (memory->next + kGatheredRows) % memory->ids.size();
          }};
}

KernelRun GemmSweep(int64_t bytes) {
  const int64_t matrix = kernels::PanelElements(kSweptDim, kSweptDim) * kFloat;
  return GemmRun(kSweptDim, false,
                 std::max<int64_t>(16, (bytes - matrix) / (2 * kSweptDim * kFloat)));
}

constexpr HostKernel kKernels[] = {
    // p, m, v, g are read, p, m, v are written.
    {"adamw", "parameter", 28, 1 << 14, AdamWRun},
    // Values, outer parameters and error feedback are read; feedback and codes are written.
    {"encode", "parameter", 16.5, 1 << 14, EncodeSweep},
    {"gather", "number of 4 bytes", 4, 1 << 17, GatherRun},
    // Of each number of a row and of a product: read, read before it is written, written.
    {"gemm", "multiplication", 12.0 / kSweptDim, 1 << 17, GemmSweep}};

}  // namespace

absl::Span<const HostKernel> HostKernels() { return kKernels; }

const HostKernel* FindHostKernel(std::string_view name) {
  for (const HostKernel& kernel : kKernels) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

KernelRun GemmRun(int64_t dim, bool bfloat16, int64_t rows) {
  struct Memory {
    Floats a, b, c, panels;
    std::vector<uint32_t> pairs, pair_panels;
    int64_t next = 0;
  };
  const auto memory = std::make_shared<Memory>();
  memory->a.resize(rows * dim);
  memory->b.resize(dim * dim);
  memory->c.resize(rows * dim);
  Fill(memory->a);
  Fill(memory->b);
  const int64_t panels = (dim + kernels::kPanelColumns - 1) / kernels::kPanelColumns;
  const kernels::FloatMatrix b{memory->b.data(), dim};
  const int64_t of_part = std::clamp<int64_t>(kPartBytes / (2 * dim * kFloat), 16, rows);
  const int64_t parts = rows / of_part;
  const kernels::Product product{.rows = of_part, .depth = dim, .columns = dim, .c_stride = dim};
  const int64_t elements = of_part * dim * dim;
  if (!bfloat16) {
    memory->panels.resize(kernels::PanelElements(dim, dim));
    kernels::PackPanels(b, dim, dim, 0, panels, memory->panels.data());
    return {elements, [memory, product, dim, parts] {
              const int64_t at = memory->next * product.rows * dim;
              kernels::Multiply({memory->a.data() + at, dim}, memory->panels.data(), product,
                                memory->c.data() + at);
              memory->next = (memory->next + 1) % parts;
            }};
  }
  const int64_t pairs = (dim + 1) / 2;
  memory->pairs.resize(of_part * pairs);
  memory->pair_panels.resize(kernels::PanelElements(pairs, dim));
  kernels::PackPanelsBf16(b, dim, dim, 0, panels, memory->pair_panels.data());
  return {elements, [memory, product, dim, pairs, parts] {
            const int64_t at = memory->next * product.rows * dim;
            kernels::RowsToPairs(memory->a.data() + at, product.rows, dim, memory->pairs.data());
            kernels::MultiplyBf16({memory->pairs.data(), pairs}, memory->pair_panels.data(),
                                  product, memory->c.data() + at);
            memory->next = (memory->next + 1) % parts;
          }};
}

KernelRun EncodeRun(CodecKind kind, int64_t elements) {
  struct Memory {
    Floats values, minus, error;
    HugePageVector<uint8_t> out;
    int64_t next = 0;
  };
  const int64_t segments = std::max<int64_t>(1, elements / kTileElements);
  // Less than a segment is a shorter one.
  const int64_t n =
      std::clamp(elements / kBlockElements * kBlockElements, kBlockElements, kTileElements);
  const auto codec = CodecOf(kind);
  const auto memory = std::make_shared<Memory>();
  memory->values.resize(segments * n);
  Fill(memory->values);
  memory->minus.assign(segments * n, 0);
  memory->error.assign(segments * n, 0);
  const int64_t payload = codec->PayloadBytes(n);
  memory->out.resize(segments * payload);
  return {n, [memory, codec, segments, n, payload] {
            const auto part = [&](Floats& floats) {
              return absl::MakeSpan(floats).subspan(memory->next * n, n);
            };
            LH_CHECK(
                codec
                    ->Encode({.values = part(memory->values),
                              .minus = part(memory->minus),
                              .error = part(memory->error)},
                             part(memory->error),
                             absl::MakeSpan(memory->out).subspan(memory->next * payload, payload))
                    .ok(),
                "its values are finite");
            memory->next = (memory->next + 1) % segments;
          }};
}

KernelRun DecodeRun(CodecKind kind, int64_t elements) {
  struct Memory {
    Floats values;
    HugePageVector<uint8_t> payload;
    int32_t base_exponent = 0;
    int64_t next = 0;
  };
  // Whole segments, of the same code.
  const int64_t segments = std::max<int64_t>(1, elements / kTileElements);
  const auto codec = CodecOf(kind);
  const auto memory = std::make_shared<Memory>();
  memory->values.resize(segments * kTileElements);
  Fill(memory->values);
  const int64_t payload = codec->PayloadBytes(kTileElements);
  memory->payload.resize(segments * payload);
  for (int64_t i = 0; i < segments; ++i) {
    const absl::StatusOr<EncodeResult> coded =
        codec->Encode({.values = absl::MakeConstSpan(memory->values).first(kTileElements)}, {},
                      absl::MakeSpan(memory->payload).subspan(i * payload, payload));
    LH_CHECK(coded.ok(), "its values are finite");
    memory->base_exponent = coded->base_exponent;
  }
  return {kTileElements, [memory, codec, segments, payload] {
            const SegmentView segment{
                kTileElements, memory->base_exponent,
                absl::MakeConstSpan(memory->payload).subspan(memory->next * payload, payload)};
            const auto out =
                absl::MakeSpan(memory->values).subspan(memory->next * kTileElements, kTileElements);
            LH_CHECK(codec->Validate(segment).ok() && codec->Decode(segment, out).ok(),
                     "it was coded so");
            memory->next = (memory->next + 1) % segments;
          }};
}

KernelRun CopyRun(int64_t bytes) {
  struct Memory {
    HugePageVector<uint8_t> from, to;
    int64_t next = 0;
  };
  const int64_t parts = std::max<int64_t>(1, bytes / 2 / kPartBytes), part = bytes / 2 / parts;
  const auto memory = std::make_shared<Memory>();
  memory->from.assign(parts * part, 1);
  memory->to.assign(parts * part, 2);
  return {2 * part, [memory, parts, part] {
            std::memcpy(memory->to.data() + memory->next * part,
                        memory->from.data() + memory->next * part, part);
            memory->next = (memory->next + 1) % parts;
          }};
}

KernelRun UpdateRun(int64_t bytes) {
  constexpr int64_t kPart = kPartBytes / kFloat;
  const int64_t parts = std::max<int64_t>(1, bytes / kPartBytes);
  const auto memory = std::make_shared<Floats>(parts * kPart, 1);
  const auto next = std::make_shared<int64_t>(0);
  return {2 * kPartBytes, [memory, next, parts] {
            float* const at = memory->data() + *next * kPart;
            for (int64_t i = 0; i < kPart; ++i) at[i] = -at[i];
            *next = (*next + 1) % parts;
          }};
}

std::vector<int64_t> WorkingSets(int64_t least, int64_t most, int of_octave) {
  std::vector<int64_t> sizes;
  for (int i = 0;; ++i) {
    const auto size = static_cast<int64_t>(static_cast<double>(least) *
                                           std::exp2(static_cast<double>(i) / of_octave));
    if (size > most) return sizes;
    sizes.push_back(size);
  }
}

}  // namespace longhaul
