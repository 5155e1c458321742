// The coded downlink of a fragment's newest version. It is written to the log in parts while the
// round is applied. Any ranges of its blocks can be read, from memory or from the log.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/blocks/coded_blocks.h"
#include "common/codec/codec.h"
#include "common/layout/fragment_layout.h"
#include "coordinator/store/log.h"
#include "coordinator/store/round_records.h"

namespace longhaul {

// The coded tiles of a fragment's downlink, one after another. The memory is not initialised, since
// a round writes all of it.
class DownlinkBytes {
 public:
  explicit DownlinkBytes(int64_t bytes) : data_(new uint8_t[bytes]), bytes_(bytes) {}
  absl::Span<uint8_t> span() { return {data_.get(), bytes_}; }
  absl::Span<const uint8_t> span() const { return {data_.get(), bytes_}; }

 private:
  std::unique_ptr<uint8_t[]> data_;
  size_t bytes_;
};

// Knows where the tiles of a downlink lie in the log. Thread-compatible.
class DownlinkIndex {
 public:
  DownlinkIndex() = default;
  explicit DownlinkIndex(CodecKind codec) : codec_(codec) {}

  // Appends the segments of a part whose payload begins at `payload`. Returns false if they are not
  // the next whole tiles.
  bool Add(const Codec& codec, absl::Span<const SegmentRef> segments, LogPosition payload);
  CodecKind codec() const { return codec_; }
  int64_t elements() const { return elements_; }

  // Copies exactly these blocks, which must lie within elements(). `all`: the whole downlink, if it
  // is in memory; else the blocks are read from the log.
  absl::StatusOr<CodedBlocks> Read(const Log& log, const DownlinkBytes* all,
                                   absl::Span<const BlockRange> blocks) const;

 private:
  // Some blocks of a tile.
  struct Cut;
  std::vector<Cut> CutsOf(absl::Span<const BlockRange> blocks) const;

  CodecKind codec_ = CodecKind::kFp32;
  // One for each tile.
  std::vector<SegmentRef> segments_;
  // Where the coded bytes of each tile lie.
  std::vector<LogPosition> positions_;
  int64_t elements_ = 0;
};

// Collects tiles into frames of about 1 MiB and appends them from reserved space. Not thread-safe.
class DownlinkWriter {
 public:
  // The largest size of a fragment's downlink in the log.
  static int64_t BytesMax(const Codec& codec, int64_t fragment_elements);

  // All pointers outlive the writer.
  DownlinkWriter(Log* log, Log::Reservation* reservation, const Codec* codec, const RoundId& round);
  // Takes the next tile. Its bytes must not change until they are written.
  absl::Status Add(const SegmentRef& segment, absl::Span<const uint8_t> payload);
  // Writes the tiles that are still waiting.
  absl::Status Finish();
  // Sequence of the first frame, or 0 if there is none.
  uint64_t first_sequence() const { return first_sequence_; }
  DownlinkIndex TakeIndex() { return std::move(index_); }

 private:
  Log* const log_;
  Log::Reservation* const reservation_;
  const Codec* const codec_;
  DownlinkPart part_;
  // Pieces that are neighbours in memory are joined.
  std::vector<absl::Span<const uint8_t>> payload_;
  DownlinkIndex index_;
  uint64_t first_sequence_ = 0;
};

}  // namespace longhaul
