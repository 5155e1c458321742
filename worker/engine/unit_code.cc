#include "worker/engine/unit_code.h"

#include <algorithm>
#include <utility>

#include "ATen/ops/empty_like.h"
#include "ATen/ops/zeros.h"
#include "common/base/check.h"
#include "common/base/checked_math.h"

namespace longhaul {
namespace {

ElementRange Intersection(const ElementRange& a, const ElementRange& b) {
  const int64_t first = std::max(a.first, b.first);
  return {first, std::max<int64_t>(0, std::min(a.end(), b.end()) - first)};
}

// The memory of a run's elements.
at::Tensor Elements(const UnitValues& values, const KindRun& run) {
  if (run.vector && values.vectors.defined())
    return values.vectors.narrow(0, run.vectors_before, run.range.count);
  return values.flat.narrow(0, run.range.first - values.first, run.range.count);
}

// A section's part of the error feedback, which begins with element `first`, in float32.
at::Tensor ErrorOf(const at::Tensor& error, const ElementRange& range, int64_t first) {
  return error.defined() ? error.narrow(0, range.first - first, range.count) : at::Tensor();
}

// Calls code(carried) with the error feedback in float32, which becomes the coding error; then
// averages the two (LoCo, arXiv 2407.04480). With beta = 0 the error feedback is the coding error.
template <typename Code>
void Carry(const at::Tensor& error, double beta, Code&& code) {
  if (!error.defined()) return code(at::Tensor());
  const at::Tensor carried = error.to(at::kFloat);
  code(carried);
  if (beta != 0) carried.mul_(1 - beta).add_(error, beta);
  error.copy_(carried);
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

UnitCode::UnitCode(const UnitLayout& layout, absl::Span<const ElementRange> pieces, int bits,
                   const SegmentKernels* kernels, double error_beta)
    : bits_(bits), error_beta_(error_beta) {
  LH_CHECK(bits == 4 || bits == 6 || bits == 8 || bits == 16 || bits == 32,
           "no code of so many bits");
  if (bits < 16) coder_ = std::make_unique<const TileCoder>(bits, kernels);
  const std::vector<KindRun> runs = RunsOf(layout);
  int64_t offset = 0;
  for (const ElementRange& range : pieces) {
    Piece piece{.part = {offset, 0}, .range = range};
    int64_t payload = 0;
    // Vectors come first, so that floats are aligned.
    for (const bool vector : {true, false}) {
      for (const KindRun& run : runs) {
        const ElementRange inside = Intersection(run.range, range);
        if (run.vector != vector || inside.count == 0) continue;
        Section section{
            .run = {inside, vector, run.vectors_before + inside.first - run.range.first},
            .offset = offset};
        const bool coded = IsCoded(section);
        const int64_t plain_bytes = inside.count * (vector ? 32 : bits) / 8;
        section.size = coded ? coder_->Bytes(inside.count) : plain_bytes;
        payload += coded ? coder_->CodeBytes(inside.count) : plain_bytes;
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

at::Tensor UnitCode::FloatsIn(const Section& section, const at::Tensor& bytes) const {
  return bytes.view(section.run.vector || bits_ == 32 ? at::kFloat : at::kBFloat16);
}

void UnitCode::Encode(const PieceRange& pieces, const UnitValues& from, const at::Tensor& to,
                      int to_first, const at::Tensor& error, CodingLoss& loss) const {
  const int64_t first_element = pieces_[pieces.first].range.first;
  ForSections(pieces, [&](const Section& section) {
    const at::Tensor values = Elements(from, section.run), bytes = BytesOf(section, to, to_first);
    if (!IsCoded(section)) {
      FloatsIn(section, bytes).copy_(values);
      return;
    }
    Carry(ErrorOf(error, section.run.range, first_element), error_beta_,
          [&](const at::Tensor& carried) {
            coder_->Encode(values.to(at::kFloat), carried, bytes, loss);
          });
  });
}

void UnitCode::Decode(const PieceRange& pieces, const at::Tensor& from, int from_first,
                      const UnitValues& to) const {
  ForSections(pieces, [&](const Section& section) {
    const at::Tensor values = Elements(to, section.run), bytes = BytesOf(section, from, from_first);
    if (!IsCoded(section)) {
      values.copy_(FloatsIn(section, bytes));
    } else if (values.scalar_type() == at::kFloat) {
      coder_->Decode(bytes, values);
    } else {
      const at::Tensor floats = at::empty_like(values, at::kFloat);
      coder_->Decode(bytes, floats);
      values.copy_(floats);
    }
  });
}

void UnitCode::Reduce(const PieceRange& pieces, absl::Span<const Addend> addends,
                      const UnitValues& sum, const at::Tensor& to, int to_first,
                      const at::Tensor& error, CodingLoss& loss) const {
  const int64_t first_element = pieces_[pieces.first].range.first;
  ForSections(pieces, [&](const Section& section) {
    const at::Tensor bytes = to.defined() ? BytesOf(section, to, to_first) : at::Tensor();
    ReduceSection(section, addends, sum, bytes, ErrorOf(error, section.run.range, first_element),
                  loss);
  });
}

void UnitCode::ReduceSection(const Section& section, absl::Span<const Addend> addends,
                             const UnitValues& sum, const at::Tensor& bytes,
                             const at::Tensor& error, CodingLoss& loss) const {
  const at::Tensor out = bytes.defined() ? at::Tensor() : Elements(sum, section.run);
  std::vector<TileCoder::Source> sources;
  for (const Addend& addend : addends) {
    if (addend.coded.defined()) {
      sources.push_back({.coded = BytesOf(section, addend.coded, addend.first)});
    } else {
      sources.push_back({.values = Elements(addend.values, section.run)});
    }
  }
  if (IsCoded(section)) {
    Carry(error, error_beta_, [&](const at::Tensor& carried) {
      coder_->Reduce(sources, section.run.range.count, out, carried, bytes, loss);
    });
    return;
  }
  const at::Tensor& some = sources[0].coded.defined() ? sources[0].coded : sources[0].values;
  const at::Tensor total = at::zeros({section.run.range.count}, some.options().dtype(at::kFloat));
  for (const TileCoder::Source& source : sources)
    total.add_(source.coded.defined() ? FloatsIn(section, source.coded) : source.values);
  (out.defined() ? out : FloatsIn(section, bytes)).copy_(total);
}

}  // namespace longhaul
