#include "coordinator/store/contribution_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/checked_math.h"
#include "common/base/status_macros.h"
#include "common/layout/fragment_layout.h"

namespace longhaul {
namespace {

constexpr double kWeightMax = 0x1p40;

}  // namespace

absl::StatusOr<ContributionReader> ContributionReader::Create(
    const Log* log, int64_t fragment_elements, absl::Span<const Contribution> contributions) {
  ContributionReader reader;
  reader.log_ = log;
  std::vector<float> weights;
  for (const Contribution& contribution : contributions) {
    // The condition is written so that NaN fails.
    if (!(contribution.weight >= 1 / kWeightMax && contribution.weight <= kWeightMax)) {
      return absl::InvalidArgumentError(absl::StrCat("pool ", contribution.pool, ": weight ",
                                                     contribution.weight, " is out of range"));
    }
    LH_ASSIGN_OR_RETURN(Source source, reader.Place(contribution, fragment_elements));
    weights.push_back(source.weight);
    reader.sources_.push_back(std::move(source));
  }
  const float sum = SumWeights(weights);
  for (Source& source : reader.sources_) source.weight /= sum;
  return reader;
}

absl::StatusOr<const Codec*> ContributionReader::CodecOf(CodecKind kind) {
  std::unique_ptr<Codec>& codec = codecs_[kind];
  if (codec == nullptr) {
    LH_ASSIGN_OR_RETURN(codec, MakeCodec({.kind = kind}));
  }
  return codec.get();
}

absl::StatusOr<ContributionReader::Source> ContributionReader::Place(
    const Contribution& contribution, int64_t fragment_elements) {
  Source source;
  source.weight = static_cast<float>(contribution.weight);
  for (const StoredPart& part : contribution.parts) {
    LH_ASSIGN_OR_RETURN(const Codec* codec, CodecOf(part.info.codec));
    LogPosition position = part.payload;
    for (const SegmentRef& segment : part.info.segments) {
      const int64_t bytes = codec->PayloadBytes(segment.elements);
      source.segments.push_back({segment, position, bytes, codec});
      position.offset += bytes;
    }
  }
  std::sort(source.segments.begin(), source.segments.end(), [](const Placed& a, const Placed& b) {
    return a.segment.first_block < b.segment.first_block;
  });
  int64_t covered = 0;
  bool gapless = true;
  for (const Placed& placed : source.segments) {
    gapless = gapless && placed.segment.first_block * kBlockElements == covered;
    covered += placed.segment.elements;
  }
  if (!gapless || covered != fragment_elements) {
    return absl::InvalidArgumentError(
        absl::StrCat("pool ", contribution.pool, " does not bring each of ", fragment_elements,
                     " elements once (", covered, " in ", source.segments.size(), " segments)"));
  }
  return source;
}

absl::Status ContributionReader::Load(const Source& source, int64_t first_block, int64_t end_block,
                                      Buffer* buffer) const {
  auto placed =
      std::partition_point(source.segments.begin(), source.segments.end(),
                           [&](const Placed& p) { return p.segment.first_block < first_block; });
  std::vector<Buffer::Loaded>& loaded = buffer->loaded_;
  for (; placed != source.segments.end() && placed->segment.first_block < end_block; ++placed) {
    const int64_t offset =
        loaded.empty() ? 0 : loaded.back().offset + loaded.back().placed->payload_bytes;
    loaded.push_back({&source, &*placed, offset});
    std::vector<uint8_t>& coded = buffer->coded_;
    coded.resize(std::max<size_t>(coded.size(), offset + placed->payload_bytes));
    LH_RETURN_IF_ERROR(
        log_->Read(placed->position, absl::MakeSpan(coded).subspan(offset, placed->payload_bytes)));
  }
  return absl::OkStatus();
}

absl::Status ContributionReader::ReadTile(int64_t first_block, int64_t elements, Buffer* buffer,
                                          WeightedMean* mean) const {
  mean->Reset(elements);
  buffer->loaded_.clear();
  const int64_t end_block = first_block + CeilDiv(elements, kBlockElements);
  for (const Source& source : sources_) {
    LH_RETURN_IF_ERROR(Load(source, first_block, end_block, buffer));
  }
  // A second loop, since loading may move the bytes of earlier segments.
  for (const Buffer::Loaded& loaded : buffer->loaded_) {
    const SegmentRef& segment = loaded.placed->segment;
    mean->Add(*loaded.placed->codec, loaded.source->weight,
              (segment.first_block - first_block) * kBlockElements, buffer->ViewOf(loaded),
              static_cast<int>(loaded.source - sources_.data()));
  }
  return absl::OkStatus();
}

SegmentView ContributionReader::Buffer::ViewOf(const Loaded& loaded) const {
  return {loaded.placed->segment.elements, loaded.placed->segment.base_exponent,
          absl::MakeConstSpan(coded_).subspan(loaded.offset, loaded.placed->payload_bytes)};
}

absl::Status ContributionReader::ReadSeed(int64_t first_block, Buffer* buffer,
                                          absl::Span<float> out) const {
  LH_CHECK(sources_.size() == 1, "a seed is one contribution");
  buffer->loaded_.clear();
  const int64_t end_block = first_block + CeilDiv(out.size(), kBlockElements);
  LH_RETURN_IF_ERROR(Load(sources_[0], first_block, end_block, buffer));
  for (const Buffer::Loaded& loaded : buffer->loaded_) {
    const SegmentRef& segment = loaded.placed->segment;
    const int64_t offset = (segment.first_block - first_block) * kBlockElements;
    LH_RETURN_IF_ERROR(loaded.placed->codec->Decode(buffer->ViewOf(loaded),
                                                    out.subspan(offset, segment.elements)));
  }
  return absl::OkStatus();
}

}  // namespace longhaul
