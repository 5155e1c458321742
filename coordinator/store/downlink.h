// The coded downlink of a fragment's newest version: written to the log in parts while the round is
// applied, given back in any ranges of blocks, from memory or from the log.
#pragma once

#include <cstdint>
#include <memory>
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

// The coded tiles of a fragment's downlink one after another. Not initialised: it is written once
// from end to end.
class DownlinkBytes {
 public:
  explicit DownlinkBytes(int64_t bytes) : data_(new uint8_t[bytes]), bytes_(bytes) {}
  absl::Span<uint8_t> span() { return {data_.get(), bytes_}; }
  absl::Span<const uint8_t> span() const { return {data_.get(), bytes_}; }

 private:
  std::unique_ptr<uint8_t[]> data_;
  size_t bytes_;
};

// Coded blocks of a downlink: of each segment its bytes, which live as long as `owner`.
struct DownlinkBlocks {
  CodecKind codec = CodecKind::kFp32;
  std::vector<SegmentRef> segments;
  std::vector<absl::Span<const uint8_t>> payloads;
  std::shared_ptr<const void> owner;
};

// Where the tiles of a downlink lie in the log. Thread-compatible.
class DownlinkIndex {
 public:
  DownlinkIndex() = default;
  explicit DownlinkIndex(CodecKind codec) : codec_(codec) {}

  // Appends the segments of a part whose payload begins at `payload`. They must be the next tiles,
  // whole; false if not.
  bool Add(const Codec& codec, absl::Span<const SegmentRef> segments, LogPosition payload);
  CodecKind codec() const { return codec_; }
  int64_t elements() const { return elements_; }

  // Gives exactly the blocks. The ranges are within elements(). `all`: the whole downlink, of which
  // the result keeps hold; null: it is read from the log.
  absl::StatusOr<DownlinkBlocks> Read(const Log& log, std::shared_ptr<const DownlinkBytes> all,
                                      absl::Span<const BlockRange> blocks) const;

 private:
  struct Cut;  // Some blocks of a tile.
  std::vector<Cut> CutsOf(absl::Span<const BlockRange> blocks) const;

  CodecKind codec_ = CodecKind::kFp32;
  std::vector<SegmentRef> segments_;    // One a tile.
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
  // The next tile. Its bytes stay as they are until it is written.
  absl::Status Add(const SegmentRef& segment, absl::Span<const uint8_t> payload);
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
  std::vector<absl::Span<const uint8_t>> payload_;  // Neighbours in memory are joined.
  DownlinkIndex index_;
  uint64_t first_sequence_ = 0;
};

}  // namespace longhaul
