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
    LH_ASSIGN_OR_RETURN(Source source, reader.SourceOf(contribution, fragment_elements));
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

absl::StatusOr<ContributionReader::Source> ContributionReader::SourceOf(
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
  std::sort(source.segments.begin(), source.segments.end(),
            [](const StoredSegment& a, const StoredSegment& b) {
              return a.segment.first_block < b.segment.first_block;
            });
  int64_t covered = 0;
  bool gapless = true;
  for (const StoredSegment& stored : source.segments) {
    gapless = gapless && stored.segment.first_block * kBlockElements == covered;
    covered += stored.segment.elements;
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
  auto stored = std::partition_point(
      source.segments.begin(), source.segments.end(),
      [&](const StoredSegment& p) { return p.segment.first_block < first_block; });
  std::vector<Buffer::Loaded>& loaded = buffer->loaded_;
  for (; stored != source.segments.end() && stored->segment.first_block < end_block; ++stored) {
    const int64_t offset =
        loaded.empty() ? 0 : loaded.back().offset + loaded.back().stored->payload_bytes;
    loaded.push_back({&source, &*stored, offset});
    std::vector<uint8_t>& coded = buffer->coded_;
    coded.resize(std::max<size_t>(coded.size(), offset + stored->payload_bytes));
    LH_RETURN_IF_ERROR(
        log_->Read(stored->position, absl::MakeSpan(coded).subspan(offset, stored->payload_bytes)));
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
    const SegmentRef& segment = loaded.stored->segment;
    mean->Add(*loaded.stored->codec, loaded.source->weight,
              (segment.first_block - first_block) * kBlockElements, buffer->ViewOf(loaded),
              static_cast<int>(loaded.source - sources_.data()));
  }
  return absl::OkStatus();
}

SegmentView ContributionReader::Buffer::ViewOf(const Loaded& loaded) const {
  return {loaded.stored->segment.elements, loaded.stored->segment.base_exponent,
          absl::MakeConstSpan(coded_).subspan(loaded.offset, loaded.stored->payload_bytes)};
}

absl::Status ContributionReader::ReadSeed(int64_t first_block, Buffer* buffer,
                                          absl::Span<float> out) const {
  LH_CHECK(sources_.size() == 1, "a seed is one contribution");
  buffer->loaded_.clear();
  const int64_t end_block = first_block + CeilDiv(out.size(), kBlockElements);
  LH_RETURN_IF_ERROR(Load(sources_[0], first_block, end_block, buffer));
  for (const Buffer::Loaded& loaded : buffer->loaded_) {
    const SegmentRef& segment = loaded.stored->segment;
    const int64_t offset = (segment.first_block - first_block) * kBlockElements;
    LH_RETURN_IF_ERROR(loaded.stored->codec->Decode(buffer->ViewOf(loaded),
                                                    out.subspan(offset, segment.elements)));
  }
  return absl::OkStatus();
}

}  // namespace longhaul
