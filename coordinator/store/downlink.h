// The coded downlink of a fragment's newest version: written to the log in parts while the round is
// applied, read back in any ranges of blocks.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/codec/codec.h"
#include "common/layout/fragment_layout.h"
#include "coordinator/store/log.h"
#include "coordinator/store/round_records.h"

namespace longhaul {

// Coded blocks of a downlink: the segments' bytes follow each other in `payload`.
struct DownlinkBlocks {
  CodecKind codec = CodecKind::kFp32;
  std::vector<CodedSegment> segments;
  std::vector<uint8_t> payload;
};

// Where the tiles of a downlink lie in the log. Thread-compatible.
class DownlinkIndex {
 public:
  DownlinkIndex() = default;
  explicit DownlinkIndex(CodecKind codec) : codec_(codec) {}

  // Appends the segments of a part whose payload begins at `payload`. They must be the next tiles,
  // whole; false if not.
  bool Add(const Codec& codec, absl::Span<const CodedSegment> segments, LogPosition payload);
  CodecKind codec() const { return codec_; }
  int64_t elements() const { return elements_; }

  // Cuts exactly the blocks out. The ranges are within elements().
  absl::StatusOr<DownlinkBlocks> Read(const Log& log, absl::Span<const BlockRange> blocks) const;

 private:
  absl::Status ReadRange(const Log& log, const Codec& codec, const BlockRange& range,
                         DownlinkBlocks* out) const;

  CodecKind codec_ = CodecKind::kFp32;
  std::vector<CodedSegment> segments_;  // One a tile.
  std::vector<LogPosition> positions_;  // Of their coded bytes.
  int64_t elements_ = 0;
};

// Collects tiles into frames of about 1 MiB and appends them from reserved space. Not thread-safe.
class DownlinkWriter {
 public:
  // The most that the downlink of a fragment takes in the log.
  static int64_t BytesMax(const Codec& codec, int64_t fragment_elements);

  // All outlive the writer.
  DownlinkWriter(Log* log, Log::Reservation* reservation, const Codec* codec, int fragment,
                 int64_t version);
  absl::Status Add(const CodedSegment& segment, absl::Span<const uint8_t> payload);
  // Writes what is left.
  absl::Status Finish();
  // Sequence of the first frame; 0 if there is none.
  uint64_t first_sequence() const { return first_sequence_; }
  DownlinkIndex TakeIndex() { return std::move(index_); }

 private:
  Log* const log_;
  Log::Reservation* const reservation_;
  const Codec* const codec_;
  DownlinkPart part_;
  std::vector<uint8_t> payload_;
  DownlinkIndex index_;
  uint64_t first_sequence_ = 0;
};

}  // namespace longhaul
