#include "worker/session/pulled_parameters.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace longhaul::session {

PulledParameters::PulledParameters(Source source)
    : map_(source.map),
      codec_(source.codec),
      base_(std::move(source.base)),
      values_(std::move(source.values)) {
  values_.resize(map_->elements());
}

void PulledParameters::SetParts(int parts) { parts_ = std::vector<Part>(parts); }

void PulledParameters::Begin(int part) { parts_[part] = {}; }

absl::Status PulledParameters::Take(int part, const CodedChunk& chunk) {
  const SegmentBytes bytes = [this](int32_t elements) { return codec_->PayloadBytes(elements); };
  return ForEachSegment(chunk, bytes, [&](const SegmentRef& segment, auto payload) {
    const int64_t offset = map_->LocalOffset(segment);
    const auto values = absl::MakeSpan(values_).subspan(offset, segment.elements);
    const SegmentView coded = {segment.elements, segment.base_exponent, payload};
    LH_RETURN_IF_ERROR(codec_->Validate(coded));
    if (base_ == nullptr) {
      LH_RETURN_IF_ERROR(codec_->Decode(coded, values));
    } else {
      std::copy_n(base_->begin() + offset, values.size(), values.begin());
      // The coordinator multiplies by 1 and adds, too, so both have the same bits.
      LH_RETURN_IF_ERROR(codec_->DecodeAccumulate(coded, 1.0f, values));
    }
    parts_[part].digester.Update(values);
    return absl::OkStatus();
  });
}

absl::Status PulledParameters::Verify(int64_t version, absl::Span<const Digest128> digests) {
  LH_CHECK(digests.size() == parts_.size(), "a digest for each part");
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Digest128 here = parts_[i].digester.Value();
    if (here == digests[i]) continue;
    return absl::DataLossError(absl::StrFormat(
        "fragment '%s' version %d: the outer parameters here have the digest %s, the "
        "coordinator's %s",
        map_->layout().name, version, here.Hex(), digests[i].Hex()));
  }
  verified_ = true;
  return absl::OkStatus();
}

std::vector<float> PulledParameters::Release() && {
  LH_CHECK(verified_, "only verified parameters are used");
  return std::move(values_);
}

}  // namespace longhaul::session
