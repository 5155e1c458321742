#include "coordinator/store/downlink.h"

#include <algorithm>
#include <memory>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/codec/segment_slice.h"

namespace longhaul {
namespace {

constexpr int64_t kPartTiles = 4;  // 1 MiB of fp32, 130 KiB of e3m0.

}  // namespace

bool DownlinkIndex::Add(const Codec& codec, absl::Span<const CodedSegment> segments,
                        LogPosition payload) {
  for (const CodedSegment& segment : segments) {
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

absl::StatusOr<DownlinkBlocks> DownlinkIndex::Read(const Log& log,
                                                   absl::Span<const BlockRange> blocks) const {
  LH_ASSIGN_OR_RETURN(const std::unique_ptr<Codec> codec, MakeCodec({.kind = codec_}));
  DownlinkBlocks out;
  out.codec = codec_;
  for (const BlockRange& range : blocks) LH_RETURN_IF_ERROR(ReadRange(log, *codec, range, &out));
  return out;
}

absl::Status DownlinkIndex::ReadRange(const Log& log, const Codec& codec, const BlockRange& range,
                                      DownlinkBlocks* out) const {
  std::vector<uint8_t> coded;
  for (int64_t block = range.first; block < range.end();) {
    const int64_t tile = block / kTileBlocks;
    const CodedSegment& segment = segments_[tile];
    const int64_t end = std::min(range.end(), segment.first_block + kTileBlocks);
    const BlockRange cut = {block - segment.first_block, end - block};
    const int64_t elements = ElementsOf(cut, segment.elements);
    coded.resize(codec.PayloadBytes(segment.elements));
    LH_RETURN_IF_ERROR(log.Read(positions_[tile], absl::MakeSpan(coded)));
    const size_t begin = out->payload.size();
    out->payload.resize(begin + codec.PayloadBytes(elements));
    LH_RETURN_IF_ERROR(SliceSegment(codec, {segment.elements, segment.base_exponent, coded}, cut,
                                    absl::MakeSpan(out->payload).subspan(begin)));
    out->segments.push_back({block, static_cast<int32_t>(elements), segment.base_exponent});
    block = end;
  }
  return absl::OkStatus();
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
                               int fragment, int64_t version)
    : log_(log), reservation_(reservation), codec_(codec), index_(codec->kind()) {
  part_.fragment = fragment;
  part_.version = version;
  part_.codec = codec->kind();
}

absl::Status DownlinkWriter::Add(const CodedSegment& segment, absl::Span<const uint8_t> payload) {
  part_.segments.push_back(segment);
  payload_.insert(payload_.end(), payload.begin(), payload.end());
  return part_.segments.size() == kPartTiles ? Finish() : absl::OkStatus();
}

absl::Status DownlinkWriter::Finish() {
  if (part_.segments.empty()) return absl::OkStatus();
  const std::string record = EncodeDownlinkPart(part_);
  LH_ASSIGN_OR_RETURN(const AppendedFrame frame,
                      log_->Append(FrameType::kDownlink, record, {payload_}, reservation_));
  if (first_sequence_ == 0) first_sequence_ = frame.sequence;
  const LogPosition payload = {frame.body.segment,
                               frame.body.offset + static_cast<int64_t>(record.size())};
  LH_CHECK(index_.Add(*codec_, part_.segments, payload), "tiles come in order");
  part_.segments.clear();
  payload_.clear();
  return absl::OkStatus();
}

}  // namespace longhaul
