#include "worker/engine/unit_code.h"

#include <algorithm>
#include <utility>

#include "ATen/ops/zeros.h"
#include "common/base/check.h"
#include "common/base/checked_math.h"
#include "common/base/status_macros.h"
#include "common/layout/fragment_layout.h"
#include "worker/engine/tensor_span.h"

namespace longhaul {
namespace {

ElementRange Intersection(const ElementRange& a, const ElementRange& b) {
  const int64_t first = std::max(a.first, b.first);
  return {first, std::max<int64_t>(0, std::min(a.end(), b.end()) - first)};
}

// The elements of a run where they lie in memory.
at::Tensor Elements(const UnitValues& values, const KindRun& run) {
  if (run.vector && values.vectors.defined())
    return values.vectors.narrow(0, run.vectors_before, run.range.count);
  return values.flat.narrow(0, run.range.first - values.first, run.range.count);
}

// The tiles of a run of integers, each a segment of its own.
template <typename Visit>
void ForTiles(const Codec& codec, int64_t elements, Visit&& visit) {
  int64_t byte = 0;
  for (int64_t first = 0; first < elements; first += kTileElements) {
    const int64_t count = std::min(kTileElements, elements - first);
    const int64_t bytes = codec.PayloadBytes(count);
    visit(first, count, byte, bytes);
    byte += bytes;
  }
}

}  // namespace

std::vector<KindRun> RunsOf(const UnitLayout& layout) {
  std::vector<KindRun> runs;
  int64_t vectors = 0;
  for (const TensorLayout& tensor : layout.tensors) {
    const bool vector = tensor.shape.size() < 2;
    if (!runs.empty() && runs.back().vector == vector && runs.back().range.end() == tensor.offset) {
      runs.back().range.count += tensor.elements;
    } else {
      runs.push_back({{tensor.offset, tensor.elements}, vector, vectors});
    }
    if (vector) vectors += tensor.elements;
  }
  return runs;
}

int64_t VectorElements(const UnitLayout& layout) {
  int64_t elements = 0;
  for (const KindRun& run : RunsOf(layout)) elements += run.vector ? run.range.count : 0;
  return elements;
}

UnitCode::UnitCode(const UnitLayout& layout, absl::Span<const ElementRange> pieces, int bits)
    : bits_(bits) {
  LH_CHECK(bits == 4 || bits == 8 || bits == 16 || bits == 32, "no code of so many bits");
  if (bits < 16) {
    codec_ = MakeCodec({.kind = bits == 8 ? CodecKind::kInt8 : CodecKind::kInt4}).value();
  }
  const std::vector<KindRun> runs = RunsOf(layout);
  int64_t offset = 0;
  for (const ElementRange& range : pieces) {
    Piece piece{.part = {offset, 0}, .range = range};
    int64_t payload = 0;
    // Vectors first: floats lie at multiples of their size.
    for (const bool vector : {true, false}) {
      for (const KindRun& run : runs) {
        const ElementRange inside = Intersection(run.range, range);
        if (run.vector != vector || inside.count == 0) continue;
        Section section{
            .run = {inside, vector, run.vectors_before + inside.first - run.range.first},
            .offset = offset};
        if (vector || bits >= 16) {
          section.size = inside.count * (vector ? 32 : bits) / 8;
          payload += section.size;
        } else {
          ForTiles(*codec_, inside.count, [&](int64_t, int64_t count, int64_t, int64_t bytes) {
            section.size += bytes;
            payload += CeilDiv(count * bits, 8);
          });
        }
        offset += section.size;
        piece.sections.push_back(section);
      }
    }
    offset = CeilDiv(offset, kAlignment) * kAlignment;
    piece.part.size = offset - piece.part.offset;
    piece.scale_bytes = piece.part.size - payload;
    pieces_.push_back(std::move(piece));
  }
}

Part UnitCode::PartOf(const PieceRange& pieces) const {
  const Part& first = pieces_[pieces.first].part;
  const Part& last = pieces_[pieces.end() - 1].part;
  return {first.offset, last.offset + last.size - first.offset};
}

int64_t UnitCode::ScaleBytes(const PieceRange& pieces) const {
  int64_t bytes = 0;
  for (int p = pieces.first; p < pieces.end(); ++p) bytes += pieces_[p].scale_bytes;
  return bytes;
}

template <typename Visit>
void UnitCode::ForSections(const PieceRange& pieces, Visit&& visit) const {
  for (int p = pieces.first; p < pieces.end(); ++p) {
    for (const Section& section : pieces_[p].sections) visit(section);
  }
}

absl::Status UnitCode::Encode(const PieceRange& pieces, const UnitValues& from,
                              const at::Tensor& to, int to_first, const at::Tensor& error,
                              Loss& loss) const {
  absl::Status status;
  const int64_t base = pieces_[to_first].part.offset;
  const int64_t first_element = pieces_[pieces.first].range.first;
  ForSections(pieces, [&](const Section& section) {
    const at::Tensor values = Elements(from, section.run);
    const at::Tensor bytes = to.narrow(0, section.offset - base, section.size);
    if (section.run.vector || bits_ == 32) {
      bytes.view(at::kFloat).copy_(values);
    } else if (bits_ == 16) {
      bytes.view(at::kBFloat16).copy_(values);
    } else {
      const at::Tensor lost =
          error.defined()
              ? error.narrow(0, section.run.range.first - first_element, section.run.range.count)
              : at::Tensor();
      status.Update(EncodeIntegers(section, values.to(at::kFloat), bytes, lost, loss));
    }
  });
  return status;
}

absl::Status UnitCode::EncodeIntegers(const Section& section, const at::Tensor& values,
                                      const at::Tensor& bytes, const at::Tensor& error,
                                      Loss& loss) const {
  const absl::Span<const float> all = SpanOf<const float>(values);
  const absl::Span<uint8_t> out = SpanOf<uint8_t>(bytes);
  at::Tensor carried;  // The error in float32, before and after.
  if (error.defined()) carried = error.to(at::kFloat);
  absl::Status status;
  ForTiles(*codec_, section.run.range.count,
           [&](int64_t first, int64_t count, int64_t byte, int64_t size) {
             EncodeInput in{.values = all.subspan(first, count)};
             absl::Span<float> lost;
             if (carried.defined()) {
               lost = SpanOf<float>(carried).subspan(first, count);
               in.error = lost;
             }
             const auto coded = codec_->Encode(in, lost, out.subspan(byte, size));
             if (!coded.ok()) return status.Update(coded.status());
             loss.error_energy += coded->error_energy;
             loss.signal_energy += coded->signal_energy;
           });
  if (error.defined() && status.ok()) error.copy_(carried);
  return status;
}

void UnitCode::DecodeSection(const Section& section, const at::Tensor& bytes, const UnitValues& to,
                             bool add) const {
  at::Tensor values = Elements(to, section.run);
  if (section.run.vector || bits_ >= 16) {
    const at::Tensor coded =
        bytes.view(section.run.vector || bits_ == 32 ? at::kFloat : at::kBFloat16);
    if (add) {
      values.add_(coded);
    } else {
      values.copy_(coded);
    }
    return;
  }
  const at::Tensor floats = values.scalar_type() == at::kFloat
                                ? values
                                : at::zeros({section.run.range.count}, at::kFloat);
  const absl::Span<float> out = SpanOf<float>(floats);
  const absl::Span<const uint8_t> in = SpanOf<const uint8_t>(bytes);
  ForTiles(*codec_, section.run.range.count,
           [&](int64_t first, int64_t count, int64_t byte, int64_t size) {
             const SegmentView segment{.elements = count, .payload = in.subspan(byte, size)};
             const absl::Span<float> tile = out.subspan(first, count);
             const absl::Status status =
                 add ? codec_->DecodeAccumulate(segment, 1, tile) : codec_->Decode(segment, tile);
             LH_CHECK(status.ok(), "a peer of this pool sent another code");
           });
  if (!floats.is_same(values)) values.copy_(floats);
}

void UnitCode::DecodePieces(const PieceRange& pieces, const at::Tensor& from, int from_first,
                            const UnitValues& to, bool add) const {
  const int64_t base = pieces_[from_first].part.offset;
  ForSections(pieces, [&](const Section& section) {
    DecodeSection(section, from.narrow(0, section.offset - base, section.size), to, add);
  });
}

}  // namespace longhaul
