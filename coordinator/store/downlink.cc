#include "coordinator/store/downlink.h"

#include <algorithm>
#include <memory>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/codec/segment_slice.h"

namespace longhaul {
namespace {

// 1 MiB of fp32, 130 KiB of e3m0.
constexpr int64_t kPartTiles = 4;

}  // namespace

bool DownlinkIndex::Add(const Codec& codec, absl::Span<const SegmentRef> segments,
                        LogPosition payload) {
  for (const SegmentRef& segment : segments) {
    if (elements_ % kTileElements != 0 || segment.first_block * kBlockElements != elements_ ||
        segment.elements < 1 || segment.elements > kTileElements) {
      return false;
    }
    segments_.push_back(segment);
    positions_.push_back(payload);
    payload.offset += codec.PayloadBytes(segment.elements);
    elements_ += segment.elements;
  }
  return true;
}

struct DownlinkIndex::Cut {
  int64_t tile;
  // Counted from the beginning of the tile.
  BlockRange blocks;
  int64_t elements;
};

std::vector<DownlinkIndex::Cut> DownlinkIndex::CutsOf(absl::Span<const BlockRange> blocks) const {
  std::vector<Cut> cuts;
  for (const BlockRange& range : blocks) {
    for (int64_t block = range.first; block < range.end();) {
      const int64_t tile = block / kTileBlocks;
      const int64_t begin = tile * kTileBlocks;
      const int64_t end = std::min(range.end(), begin + kTileBlocks);
      const BlockRange within = {block - begin, end - block};
      cuts.push_back({tile, within, ElementsOf(within, segments_[tile].elements)});
      block = end;
    }
  }
  return cuts;
}

absl::StatusOr<CodedBlocks> DownlinkIndex::Read(const Log& log, const DownlinkBytes* all,
                                                absl::Span<const BlockRange> blocks) const {
  LH_ASSIGN_OR_RETURN(const std::unique_ptr<Codec> codec, MakeCodec({.kind = codec_}));
  const std::vector<Cut> cuts = CutsOf(blocks);
  int64_t bytes = 0;
  for (const Cut& cut : cuts) bytes += codec->PayloadBytes(cut.elements);
  CodedBlocks out = {.payload = AlignedBuffer::Mapped(bytes)};
  absl::Span<uint8_t> room = out.payload.span();
  std::vector<uint8_t> tile;
  for (const Cut& cut : cuts) {
    const SegmentRef& segment = segments_[cut.tile];
    const int64_t tile_bytes = codec->PayloadBytes(segment.elements);
    const absl::Span<uint8_t> into = room.first(codec->PayloadBytes(cut.elements));
    room.remove_prefix(into.size());
    out.segments.push_back({cut.tile * kTileBlocks + cut.blocks.first,
                            static_cast<int32_t>(cut.elements), segment.base_exponent});
    const bool whole = cut.elements == segment.elements;
    absl::Span<const uint8_t> payload;
    if (all != nullptr) {
      payload = all->span().subspan(cut.tile * codec->PayloadBytes(kTileElements), tile_bytes);
      if (whole) std::copy(payload.begin(), payload.end(), into.begin());
    } else {
      if (!whole) tile.resize(tile_bytes);
      const auto read = whole ? into : absl::MakeSpan(tile).first(tile_bytes);
      LH_RETURN_IF_ERROR(log.Read(positions_[cut.tile], read));
      payload = read;
    }
    if (!whole) {
      LH_RETURN_IF_ERROR(SliceSegment(*codec, {segment.elements, segment.base_exponent, payload},
                                      cut.blocks, into));
    }
  }
  return out;
}

int64_t DownlinkWriter::BytesMax(const Codec& codec, int64_t fragment_elements) {
  constexpr int64_t kRecordBytesMax = 256, kPartElements = kPartTiles * kTileElements;
  const auto frame = [&](int64_t elements) {
    return FrameBytes(kRecordBytesMax + codec.FragmentBytes(elements));
  };
  const int64_t rest = fragment_elements % kPartElements;
  return fragment_elements / kPartElements * frame(kPartElements) + (rest > 0 ? frame(rest) : 0);
}

DownlinkWriter::DownlinkWriter(Log* log, Log::Reservation* reservation, const Codec* codec,
                               const RoundId& round)
    : log_(log), reservation_(reservation), codec_(codec), index_(codec->kind()) {
  part_.fragment = round.fragment;
  part_.version = round.version;
  part_.codec = codec->kind();
}

absl::Status DownlinkWriter::Add(const SegmentRef& segment, absl::Span<const uint8_t> payload) {
  part_.segments.push_back(segment);
  if (!payload_.empty() && payload_.back().end() == payload.begin()) {
    payload_.back() = {payload_.back().data(), payload_.back().size() + payload.size()};
  } else {
    payload_.push_back(payload);
  }
  return part_.segments.size() == kPartTiles ? Finish() : absl::OkStatus();
}

absl::Status DownlinkWriter::Finish() {
  if (part_.segments.empty()) return absl::OkStatus();
  const std::string record = EncodeDownlinkPart(part_);
  LH_ASSIGN_OR_RETURN(const AppendedFrame frame,
                      log_->Append(FrameType::kDownlink, record, payload_, reservation_));
  if (first_sequence_ == 0) first_sequence_ = frame.sequence;
  const LogPosition payload = {frame.body.file,
                               frame.body.offset + static_cast<int64_t>(record.size())};
  LH_CHECK(index_.Add(*codec_, part_.segments, payload), "tiles come in order");
  part_.segments.clear();
  payload_.clear();
  return absl::OkStatus();
}

}  // namespace longhaul
